"""Fixtures: a watched cluster under load that the tests share, and clusters of their own for those that change one."""

import os
import shutil

import pytest
from raw.wait import eventually
from watched import Load, Prometheus, UpCluster

# Enough for rates over the range that tests take.
WARM_UP_SCRAPES = 12


def pytest_collection_modifyitems(items):
    missing = [tool for tool in ("prometheus", "promtool") if shutil.which(tool) is None]
    if missing and os.environ.get("CI") != "true":
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"not installed: {missing} (Debian's package prometheus)"))


@pytest.fixture(scope="session")
def cluster():
    """A cluster that tests may add topics and groups to."""
    running = UpCluster()
    try:
        running.start()
        yield running
    finally:
        running.remove()


@pytest.fixture(scope="session")
def prometheus(cluster):
    """The real Prometheus, which has watched the cluster under load for a while."""
    load = Load(cluster)
    load.start()
    watching = Prometheus(cluster.metrics_address, cluster.folder)
    try:
        watching.start()
        scrapes = f'count_over_time(up{{job="taffrail"}}[5m]) >= {WARM_UP_SCRAPES}'
        eventually(lambda: watching.query(scrapes), timeout_s=90, poll_s=0.5, what="enough scrapes")
        eventually(lambda: watching.query("taffrail:consumer_group_lag:records > 0"), timeout_s=60, poll_s=0.5, what="a group that lags")
        yield watching
    finally:
        watching.stop()
        load.stop()
