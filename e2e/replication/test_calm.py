"""What is no fault: syncs that take a second now and then, on the disks of all six processes, and processors that have no time.
Nobody is elected, fenced or out of sync because of it, and nothing is lost."""

import contextlib
import os
import pathlib
import subprocess
import time

import pytest

from cluster.host import Host
from ledger.load import Load, check_all

SOURCE = pathlib.Path(__file__).parent / "stalls.c"
STALL_MS = 1000
# Each process has one stall in so long: a tenth of the time.
STALL_EVERY_MS = 10_000
PARTITIONS = 3
# Changes of metadata, so that controllers have something to sync.
CHANGE_EVERY_S = 2
CALM_MINUTES = float(os.environ.get("CALM_MINUTES", "60"))
BUSY_MINUTES = float(os.environ.get("BUSY_MINUTES", "30"))
SHORT_MINUTES = 0.4


@pytest.fixture(scope="module")
def stalls(tmp_path_factory):
    """The library that is loaded before all others."""
    library = tmp_path_factory.mktemp("stalls") / "stalls.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    return library


def slow_host(library, number):
    """Where syncs stall, and are counted in a file of their own."""
    settings = {
        "LD_PRELOAD": library,
        "STALL_MS": STALL_MS,
        "STALL_EVERY_MS": STALL_EVERY_MS,
        "STALLS": stalls_of(library, number),
    }
    return Host("127.0.0.1", command=("env", *[f"{name}={value}" for name, value in settings.items()]))


def stalls_of(library, number):
    return library.parent / f"stalls-{number}"


def standing(cluster, topic):
    """Who leads, since when, and who is in sync; of the topic and of the quorum."""
    quorum = cluster.quorum()
    found = cluster.partitions(topic)
    leaders = {index: (p.leader_id, p.leader_epoch, sorted(p.isr_nodes)) for index, p in found.items()}
    return quorum.leader_id, quorum.leader_epoch, leaders


def long_form(minutes):
    return pytest.param(minutes, marks=[pytest.mark.long, pytest.mark.timeout(60 * minutes + 600)])


def stay_calm(cluster, minutes):
    """Writes, reads and changes metadata for so long; nobody may be elected, fenced, or leave the ISR. Tells what was done."""
    topic = cluster.new_topic(partitions=PARTITIONS)
    cluster.wait_until_in_sync(preferred=True)
    before, logs = standing(cluster, topic), {node: len(node.log_text()) for node in cluster.controllers}
    ends_at, changes = time.monotonic() + 60 * minutes, 0
    with Load(cluster, topic, PARTITIONS) as load:
        while time.monotonic() < ends_at:
            cluster.delete_topic(cluster.new_topic(partitions=1))
            changes += 1
            time.sleep(CHANGE_EVERY_S)
            load.wait_for_more()
        assert standing(cluster, topic) == before
        for node, size in logs.items():
            said = node.log_text()[size:]
            assert "fencing" not in said and "standing for election" not in said, said
        return f"{minutes} minutes, {changes} topics: {check_all(cluster, load)}"


def stay_calm_beside_stalls(new_cluster, stalls, minutes):
    cluster = new_cluster(host=lambda number: slow_host(stalls, number))
    cluster.start()
    told = stay_calm(cluster, minutes)
    counts = {}
    for node in cluster.nodes:
        with contextlib.suppress(FileNotFoundError):
            counts[node.number] = stalls_of(stalls, node.number).stat().st_size
    print(told, "stalls by process:", counts)
    assert all(counts.get(node.number, 0) >= 2 for node in cluster.nodes), counts


@pytest.mark.parametrize("minutes", [SHORT_MINUTES, long_form(CALM_MINUTES)])
def test_nobody_is_elected_or_fenced_because_disks_stall(new_cluster, stalls, minutes):
    """CALM_MINUTES (60) in its long form."""
    stay_calm_beside_stalls(new_cluster, stalls, minutes)


@contextlib.contextmanager
def busy_processors():
    """Two processes for each processor that never rest."""
    burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * os.cpu_count())]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


@pytest.mark.parametrize("minutes", [SHORT_MINUTES, long_form(BUSY_MINUTES)])
def test_nobody_is_elected_or_fenced_because_processors_are_busy(new_cluster, minutes):
    """BUSY_MINUTES (30) in its long form."""
    cluster = new_cluster()
    cluster.start()
    with busy_processors():
        print(stay_calm(cluster, minutes))


def test_nor_because_of_both_at_once(new_cluster, stalls):
    """A stall and some time without a processor are longer together than a silent leader is waited for."""
    with busy_processors():
        stay_calm_beside_stalls(new_cluster, stalls, SHORT_MINUTES)
