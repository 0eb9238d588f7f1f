"""Hooks of pytest: tests marked `long` run only with --long or TAFFRAIL_LONG=1. A conftest imports them."""

import os

import pytest


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="run the long forms too")


def pytest_collection_modifyitems(config, items):
    wants_long = config.getoption("--long") or os.environ.get("TAFFRAIL_LONG") == "1"
    for item in items:
        if item.get_closest_marker("long") and not wants_long:
            item.add_marker(pytest.mark.skip(reason="long form (make test-long)"))
