"""All six processes are taken down and started again in order, one after the other, under acks=all load: nothing is lost, and the
longest gap of each partition is told. With the same binary, and between this one and the one that landed before it, both ways."""

import os
import subprocess
import time

import pytest

from cluster import faults
from ledger.load import Load, check_all
from raw.process import ROOT

PARTITIONS = 3
RACKS = ("a", "b", "c")
ROLLING_MINUTES = float(os.environ.get("ROLLING_MINUTES", "10"))


def roll(cluster, topic, binary=None):
    """Every node is restarted, with this binary; the next follows when the cluster is whole again."""
    for node in cluster.nodes:
        node.binary = binary
        faults.restart(cluster, node)
        cluster.wait_until_whole(topic)


def test_all_six_restarted_in_order_under_load(cluster):
    topic = cluster.new_topic(partitions=PARTITIONS)
    with Load(cluster, topic, PARTITIONS) as load:
        roll(cluster, topic)
        load.wait_for_more()
        print("restarts:", check_all(cluster, load))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_rolling_restarts_for_ten_minutes(cluster):
    """ROLLING_MINUTES (10) of it."""
    topic = cluster.new_topic(partitions=PARTITIONS)
    ends_at, rounds = time.monotonic() + ROLLING_MINUTES * 60, 0
    with Load(cluster, topic, PARTITIONS, racks=RACKS) as load:
        while time.monotonic() < ends_at:
            roll(cluster, topic)
            rounds += 1
        print(f"{6 * rounds} restarts in {ROLLING_MINUTES} minutes:", check_all(cluster, load))


@pytest.fixture(scope="session")
def previous_binary():
    """The binary of an earlier commit, built from the history once and kept outside of the clone."""
    given = os.environ.get("TAFFRAIL_PREVIOUS_BIN")
    if given:
        return given
    script = ROOT / "e2e" / "setup" / "previous"
    return subprocess.run(["bash", str(script)], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_rolling_change_from_the_previous_binary_and_back(new_cluster, previous_binary):
    """What the earlier one wrote the later one reads, and the other way round; both serve side by side meanwhile."""
    cluster = new_cluster()
    for node in cluster.nodes:
        node.binary = previous_binary
    cluster.start()
    topic = cluster.new_topic(partitions=PARTITIONS)
    with Load(cluster, topic, PARTITIONS, racks=RACKS) as load:
        for binary in (None, previous_binary, None):
            roll(cluster, topic, binary)
            load.wait_for_more()
            kept = cluster.new_topic(partitions=PARTITIONS)
            cluster.wait_until_in_sync(kept)
        print("both ways:", check_all(cluster, load))
