"""Fixtures: a cluster of processes whose first broker has a console, clients that work on it, and a browser that looks."""

import os

import pytest
from browser import Browser, chromium
from cluster.cluster import Cluster
from raw.broker import free_ports
from served import Workload


def pytest_collection_modifyitems(items):
    if chromium() is None and os.environ.get("CI") != "true":
        for item in items:
            item.add_marker(pytest.mark.skip(reason="not installed: chromium (Debian's package)"))


def pytest_terminal_summary(terminalreporter):
    """What tests have measured."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"console: {name}: {value}")


@pytest.fixture(scope="session")
def cluster():
    """Three controllers and three brokers as processes, the first broker with a console, under load."""
    running = Cluster()
    (port,) = free_ports(1)
    first = running.brokers[0]
    first.settings = {**first.settings, "console": f"127.0.0.1:{port}"}
    running.console = f"http://127.0.0.1:{port}"
    try:
        running.start()
        running.work = Workload(running.bootstrap)
        running.work.start()
        yield running
    finally:
        if hasattr(running, "work"):
            running.work.stop()
        running.remove()


@pytest.fixture(scope="session")
def browser():
    with Browser() as running:
        yield running


@pytest.fixture
def page(browser, cluster):
    """An empty tab for the console of the cluster: `page.show("topics")`. It fails its test if the page's program fails."""
    with browser.tab(cluster.console) as tab:
        yield tab
        assert tab.complaints == []
