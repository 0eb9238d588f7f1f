"""Fixtures: one cluster that most tests share and leave whole, and clusters of their own for those that do not."""

import contextlib

import pytest

from cluster.cluster import Cluster
from cluster.network import Network
from raw.disk import FILLER, small_volume
from raw.long_forms import pytest_addoption, pytest_collection_modifyitems  # noqa: F401

# Volumes of brokers that tests fill.
VOLUME_MEGABYTES = 512
# A follower that says nothing any more holds its leader up for so long.
LAG_MAX_MS = 4000
# With the look at retention a broker keeps room back again for the next full disk.
RETENTION_CHECK_MS = 500


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
    """The shared cluster, whole, in sync and led as it will stay; whatever a test took down comes back after it."""
    shared_cluster.wait_until_in_sync(preferred=True)
    yield shared_cluster
    bring_back(shared_cluster)


def bring_back(cluster):
    down = [node for node in cluster.nodes if not node.is_alive()]
    for node in cluster.nodes:
        if node not in down:
            node.go_on()
    cluster.launch(down)
    cluster.wait_until_ready()


@pytest.fixture(scope="module")
def cluster_on_a_network():
    """A cluster of six hosts whose wires can be cut, and whose brokers have volumes that can be filled."""
    with contextlib.ExitStack() as stack:
        network = Network()
        stack.callback(network.remove)
        settings = {"replica.lag.time.max.ms": LAG_MAX_MS, "log.retention.check.interval.ms": RETENTION_CHECK_MS}
        running = Cluster(settings=settings, host=lambda _: network.add_host())
        running.network = network
        stack.callback(running.remove)
        for node in running.brokers:
            stack.enter_context(small_volume(node.logs, VOLUME_MEGABYTES))
        # Processes end before their volumes go.
        stack.callback(running.kill)
        stack.enter_context(network.inside())
        running.start()
        yield running


@pytest.fixture
def apart(cluster_on_a_network):
    """The cluster on a network, whole, in sync, led as it will stay, and with all its wires."""
    cluster_on_a_network.wait_until_in_sync(preferred=True)
    yield cluster_on_a_network
    cluster_on_a_network.network.heal()
    cluster_on_a_network.cut_off.clear()
    for node in cluster_on_a_network.brokers:
        (node.logs / FILLER).unlink(missing_ok=True)
    bring_back(cluster_on_a_network)
