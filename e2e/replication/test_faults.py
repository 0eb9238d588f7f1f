"""Acknowledged records outlive the death of any one process, and nobody reads what is not kept.

Writers and readers run all the while (`ledger/load.py`); at the end the checker holds their ledgers against the log, and all
replicas must have the same bytes.
"""

import os
import time

import pytest

from cluster import faults
from ledger.load import Load

PARTITIONS = 3
CHAOS_MINUTES = float(os.environ.get("CHAOS_MINUTES", "30"))
CHAOS_SEED = int(os.environ.get("CHAOS_SEED", str(int(time.time()))))


def check(cluster, topic, load):
    """Ends the load and checks everything; gives one line about it."""
    history = load.end()
    cluster.assert_equal_replicas(topic, PARTITIONS)
    retries = sum(writer.retries for writer in load.raw)
    return f"{dict(history.count())}, {len(history.log)} in the log, {retries} retries, longest gap {load.longest_gap_s():.2f} s"


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
        print(kind, check(cluster, topic, load))


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
        print(kind, check(cluster, topic, load))


def test_all_six_restarted_in_order_under_load(cluster):
    topic = cluster.new_topic(partitions=PARTITIONS)
    with Load(cluster, topic, PARTITIONS) as load:
        for node in cluster.nodes:
            faults.restart(cluster, node)
            cluster.wait_until_in_sync(topic)
        load.wait_for_more()
        print("restarts:", check(cluster, topic, load))


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
        print("double failovers:", check(cluster, topic, load))


@pytest.mark.long
def test_thirty_double_failovers(cluster):
    test_two_failovers_at_once_leave_the_replicas_equal(cluster, rounds=30)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["leader", "follower", "controller"])
def test_killed_thirty_times_under_load(cluster, kind):
    test_killed_under_load(cluster, kind, rounds=30)


def chaos(cluster, minutes, seed):
    """Faults of all kinds, one after the other."""
    topic = cluster.new_topic(partitions=PARTITIONS)
    ends_at = time.monotonic() + minutes * 60
    done = 0
    with Load(cluster, topic, PARTITIONS, racks=("a", "b", "c"), in_flight=1) as load:
        for name, fault in faults.any_fault(cluster, topic, PARTITIONS, seed):
            if time.monotonic() >= ends_at:
                break
            began = time.monotonic()
            node = fault()
            cluster.wait_until_in_sync(topic)
            load.check_tasks()
            done += 1
            print(f"{name}: {node}, whole again after {time.monotonic() - began:.1f} s", flush=True)
        print(f"chaos, seed {seed}: {done} faults in {minutes} minutes:", check(cluster, topic, load), flush=True)


def test_a_short_chaos(cluster):
    chaos(cluster, 0.5, CHAOS_SEED)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_chaos(cluster):
    """`make chaos`: CHAOS_MINUTES (30) of it; CHAOS_SEED repeats the order of the faults."""
    chaos(cluster, CHAOS_MINUTES, CHAOS_SEED)
