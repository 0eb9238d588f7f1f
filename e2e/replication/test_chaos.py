"""Faults of all kinds, one after the other, under load: `make chaos`.

Kills, lost disks, halts, restarts, cut wires and full volumes; at most one node at a time, and the next comes when the cluster is
whole again. At the end the checker holds the ledgers against the log, and all replicas must have the same bytes.
"""

import os
import time

import pytest

from cluster import faults
from ledger.load import Load, check_all

PARTITIONS = 3
RACKS = ("a", "b", "c")
CHAOS_MINUTES = float(os.environ.get("CHAOS_MINUTES", "30"))
CHAOS_SEED = int(os.environ.get("CHAOS_SEED", str(int(time.time()))))


def chaos(cluster, minutes, seed):
    topic = cluster.new_topic(partitions=PARTITIONS)
    dice = faults.Dice(cluster, topic, PARTITIONS, seed)
    ends_at = time.monotonic() + minutes * 60
    done = 0
    with Load(cluster, topic, PARTITIONS, racks=RACKS) as load:
        while time.monotonic() < ends_at:
            name, fault = dice.throw()
            load.take_recent_gap_s()
            at, began = time.strftime("%H:%M:%S", time.gmtime()), time.monotonic()
            node = fault()
            cluster.wait_until_whole(topic)
            load.check_tasks()
            done += 1
            whole_s, gap_s = time.monotonic() - began, load.take_recent_gap_s()
            print(f"{at} {name}: {node}, whole again after {whole_s:.1f} s, longest gap {gap_s:.2f} s", flush=True)
        print(f"chaos, seed {seed}: {done} faults in {minutes} minutes:", check_all(cluster, load), flush=True)


def test_a_short_chaos(apart):
    chaos(apart, 0.5, CHAOS_SEED)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_chaos(apart):
    """CHAOS_MINUTES (30) of it; CHAOS_SEED repeats the order of the faults."""
    chaos(apart, CHAOS_MINUTES, CHAOS_SEED)
