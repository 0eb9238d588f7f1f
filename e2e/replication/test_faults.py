"""Acknowledged records outlive the death of any one process, and nobody reads what is not kept.

Writers and readers run all the while (`ledger/load.py`); at the end the checker holds their ledgers against the log, and all
replicas must have the same bytes.
"""

import pytest

from cluster import faults
from ledger.load import Load, check_all

PARTITIONS = 3


@pytest.mark.parametrize("kind", ["leader", "follower", "controller"])
def test_killed_under_load(cluster, kind, rounds=2):
    topic = cluster.new_topic(partitions=PARTITIONS)
    with Load(cluster, topic, PARTITIONS) as load:
        for _ in range(rounds):
            node = faults.victim(cluster, kind, topic)
            node.kill()
            load.wait_for_more()
            cluster.restart(node)
            cluster.wait_until_in_sync(topic)
        print(kind, check_all(cluster, load))


@pytest.mark.parametrize("kind", ["leader", "follower", "controller"])
def test_halted_under_load(cluster, kind):
    """SIGSTOP for longer than a session."""
    topic = cluster.new_topic(partitions=PARTITIONS)
    with Load(cluster, topic, PARTITIONS) as load:
        node = faults.victim(cluster, kind, topic)
        node.halt()
        load.wait_for_more()
        node.go_on()
        node.wait_until_ready()
        cluster.wait_until_in_sync(topic)
        load.wait_for_more()
        print(kind, check_all(cluster, load))


def test_two_failovers_at_once_leave_the_replicas_equal(cluster, rounds=2):
    """R-02: the leader goes, and the one that follows it as soon as it leads; readers on every rack meanwhile."""
    topic = cluster.new_topic(partitions=PARTITIONS, min_insync_replicas=1)
    with Load(cluster, topic, PARTITIONS, racks=("a", "b", "c")) as load:
        for _ in range(rounds):
            first = cluster.leader(topic)
            first.kill()
            second = cluster.leader(topic, other_than=first)
            second.kill()
            cluster.launch([first, second])
            cluster.wait_until_ready()
            cluster.wait_until_in_sync(topic)
            load.wait_for_more()
        print("double failovers:", check_all(cluster, load))


@pytest.mark.long
def test_thirty_double_failovers(cluster):
    test_two_failovers_at_once_leave_the_replicas_equal(cluster, rounds=30)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["leader", "follower", "controller"])
def test_killed_thirty_times_under_load(cluster, kind):
    test_killed_under_load(cluster, kind, rounds=30)
