"""R-04: addresses are resolved anew at each dial, so a member that comes back elsewhere is met again without a restart of the others."""

import pytest

from cluster.names import Names
from ledger.load import read_partition
from raw.client import Client
from raw.wait import eventually
from tools import kafka

WAIT_S = 60


@pytest.fixture
def named(new_cluster, tmp_path):
    """A cluster whose nodes know each other by name."""
    names = Names(tmp_path)
    cluster = new_cluster(host=lambda number: names.host(f"node-{number}.taffrail.test", f"127.0.1.{number}"))
    cluster.start()
    return cluster, names


def comes_back_elsewhere(cluster, names, node, address):
    """Stops a node, gives its name another address, starts it, and waits until the others have met it there."""
    node.stop()
    node.host = names.host(node.host.name, address)
    cluster.restart(node)
    cluster.wait_until_whole()


def appends(cluster, topic, value):
    """Appends by whoever leads; the leader is dialled at its present address."""

    def append():
        with Client(cluster.leader(topic)) as client:
            client.append_values(topic, value)
        return True

    eventually(append, timeout_s=WAIT_S, what="an append")


def test_whoever_comes_back_at_another_address_is_met_again(named):
    cluster, names = named
    topic = cluster.new_topic(partitions=1)
    values = []
    for turn, node in enumerate([*cluster.controllers, *cluster.brokers]):
        others = {other: other.pid() for other in cluster.nodes if other is not node}
        comes_back_elsewhere(cluster, names, node, f"127.0.2.{node.number}")
        values.append(b"%d" % turn)
        appends(cluster, topic, values[-1])
        assert {other: other.pid() for other in others} == others, "nobody else was started again"
    assert [seen.value for seen in read_partition(cluster, topic, 0)] == values
    described = kafka(cluster, "kafka-metadata-quorum", "describe", "--replication", before=names.command)
    lines = [line.split() for line in described.splitlines()[1:]]
    assert {int(line[0]): line[-1] for line in lines if int(line[0]) > 100} in (
        {101: "Leader", 102: "Follower", 103: "Follower"},
        {101: "Follower", 102: "Leader", 103: "Follower"},
        {101: "Follower", 102: "Follower", 103: "Leader"},
    ), described


def test_all_that_come_back_elsewhere_at_the_same_time_find_each_other(named):
    cluster, names = named
    topic = cluster.new_topic(partitions=1)
    appends(cluster, topic, b"before")
    cluster.stop()
    for node in cluster.nodes:
        node.host = names.host(node.host.name, f"127.0.3.{node.number}")
    cluster.launch()
    cluster.wait_until_ready()
    cluster.wait_until_whole()
    appends(cluster, topic, b"after")
    assert [seen.value for seen in read_partition(cluster, topic, 0)] == [b"before", b"after"]
