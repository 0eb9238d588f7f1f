"""Fixtures: one cluster that most tests share and leave whole, and clusters of their own for those that do not."""

import os

import pytest

from cluster.cluster import Cluster


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="run the long forms too")


def pytest_collection_modifyitems(config, items):
    wants_long = config.getoption("--long") or os.environ.get("TAFFRAIL_LONG") == "1"
    for item in items:
        if item.get_closest_marker("long") and not wants_long:
            item.add_marker(pytest.mark.skip(reason="long form (make test-long, make chaos)"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """The last words of every process, where a test fails that had a cluster."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        shared = {value for value in item.funcargs.values() if isinstance(value, Cluster)}
        for cluster in [*shared, *getattr(item.funcargs.get("new_cluster"), "made", [])]:
            report.sections.append(("processes", cluster.tail_of_logs()))


@pytest.fixture
def new_cluster():
    """Makes clusters that are not started yet: `new_cluster(brokers=3, controllers=3, settings={})`."""
    made = []

    def make(**options):
        made.append(Cluster(**options))
        return made[-1]

    make.made = made
    yield make
    for cluster in made:
        cluster.remove()


@pytest.fixture(scope="session")
def shared_cluster():
    running = Cluster()
    running.start()
    yield running
    running.remove()


@pytest.fixture
def cluster(shared_cluster):
    """The shared cluster, whole and in sync; whatever a test took down comes back after it."""
    shared_cluster.wait_until_in_sync()
    yield shared_cluster
    down = [node for node in shared_cluster.nodes if not node.is_alive()]
    for node in shared_cluster.nodes:
        if node not in down:
            node.go_on()
    shared_cluster.launch(down)
    shared_cluster.wait_until_ready()
