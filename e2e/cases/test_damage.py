"""S-04 in its long form: 500 partitions with 5 GB, 20 kills under load, and damage to files between them.

Every record begins with its own offset, so that any record can be judged by itself, also where a send was cut short by a kill.
"""

import contextlib
import itertools
import os
import random
import shutil
import tempfile
import threading
import time

import pytest

from raw import errors
from raw.batch import Batch, Record
from raw.client import LATEST, Client
from raw.connection import ConnectionClosed
from raw.damage import INDEX_DAMAGE, fetch_or_error, flip_byte, segments, spoil_tail
from raw.wait import eventually

MIB = 1 << 20
PARTITIONS = 500
BATCHES_EACH, VALUE_BYTES = 100, 100_000  # 5 GB in all
ROUNDS = 20
LOAD_S = (1.0, 4.0)
LOADED_PARTITIONS = 40
# What is cut from a tail is no more than this, and fewer batches than a partition gets in each round.
CUT_MAX_BYTES, SMALL_BATCH_BYTES = 500, 100
START_WITHIN_S = 60
DISK_BYTES = 8 << 30
STEP_MS = 1_000
DATA_ERRORS = (errors.KAFKA_STORAGE_ERROR, errors.CORRUPT_MESSAGE)


def numbered(offset, size):
    value = (b"%d " % offset).ljust(size, b".")
    return Batch([Record(value, timestamp=int(time.time() * 1000) - 10_000_000 + offset * STEP_MS)])


class Ledger:
    """The end of each partition by what was acknowledged."""

    def __init__(self, broker, topic):
        self.broker, self.topic = broker, topic
        self.ends = [0] * PARTITIONS
        self.before = list(self.ends)

    def append(self, client, partition, size):
        offset = client.append(self.topic, numbered(self.ends[partition], size), partition)
        assert offset == self.ends[partition]
        self.ends[partition] += 1

    def load(self, partitions, stopped):
        """Appends small records to the partitions in turn, until told to stop or the broker is gone."""
        with contextlib.suppress(OSError, ConnectionClosed), Client(self.broker) as client:
            for partition in itertools.cycle(partitions):
                if stopped.is_set():
                    return
                self.append(client, partition, SMALL_BATCH_BYTES)

    def gained(self, partition):
        return self.ends[partition] - self.before[partition]

    def check(self, client, partition, lost_max):
        """Reads a partition whole: dense, sound, every record at its place, and no more lost than may be."""
        batches = client.read(self.topic, 0, partition)
        assert all(b.crc_is_right for b in batches)
        records = [r for b in batches for r in b.records]
        assert [r.offset for r in records] == list(range(len(records)))
        assert all(r.value.startswith(b"%d " % r.offset) for r in records)
        assert len(records) >= self.ends[partition] - lost_max, f"partition {partition} has lost acknowledged records"


def kill_under_load(broker, ledger, chance):
    """Returns the partitions that have got enough records in this round to lose some of them to a cut."""
    loaded = chance.sample(range(PARTITIONS), LOADED_PARTITIONS)
    ledger.before = list(ledger.ends)
    stopped = threading.Event()
    load = threading.Thread(target=ledger.load, args=(loaded, stopped), daemon=True)
    load.start()
    stopped.wait(chance.uniform(*LOAD_S))
    broker.kill()
    stopped.set()
    load.join(30)
    assert not load.is_alive()
    return [p for p in loaded if ledger.gained(p) * SMALL_BATCH_BYTES > 2 * CUT_MAX_BYTES]


def spoil(broker, ledger, loaded, chance):
    """Spoils tails of loaded partitions and indexes of others; returns what each partition may have lost."""
    tails = chance.sample(loaded, min(8, len(loaded)))
    for number, partition in enumerate(tails):
        size = chance.randint(1, CUT_MAX_BYTES)
        spoil_tail(segments(broker, ledger.topic, partition=partition)[-1], size, "cut" if number % 2 else "zeroed")
    others = chance.sample([p for p in range(PARTITIONS) if p not in tails], 9)
    for partition, damage in zip(others, itertools.cycle(INDEX_DAMAGE.values())):
        for file in segments(broker, ledger.topic, "index", partition):
            damage(file)
    return dict.fromkeys(tails, CUT_MAX_BYTES // SMALL_BATCH_BYTES + 1) | dict.fromkeys(others, 0)


def start_within_bound(broker, client, topic, sound=range(PARTITIONS)):
    """Starts the broker until it serves the partitions that are sound; returns how long that took."""
    started = time.monotonic()
    broker.start_again()
    client.reconnect()
    for partition in sound:
        wait_until_served(client, topic, partition)
    took = time.monotonic() - started
    assert took < START_WITHIN_S
    return took


def wait_until_served(client, topic, partition):
    eventually(lambda: client.list_offset(topic, LATEST, partition).error_code == errors.NONE, what=f"{topic}-{partition}")


def check_time_lookups(client, topic, partition):
    """The index by time against the records themselves."""
    records = client.read_records(topic, 0, partition)
    for wanted in records[:: len(records) // 5]:
        first = next(r.offset for r in records if r.timestamp >= wanted.timestamp)
        assert client.list_offset(topic, wanted.timestamp, partition).offset == first


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.beyond_kafka("it reads old segments as they are, and takes minutes to start")
def test_5_gb_in_500_partitions_outlive_20_kills_and_damaged_files(own_broker):
    """S-04: start within 60 s each time; torn tails are cut, indexes are rebuilt, and flipped bytes are never served as good."""
    if shutil.disk_usage(tempfile.gettempdir()).free < DISK_BYTES:
        pytest.skip("needs 8 GiB of free disk for the brokers' files")
    seed = int.from_bytes(os.urandom(4))
    chance, broker, starts = random.Random(seed), own_broker(), []
    with Client(broker) as client:
        topic = client.new_topic("s04", partitions=PARTITIONS, segment_bytes=4 * MIB).name
        ledger = Ledger(broker, topic)
        for _, partition in itertools.product(range(BATCHES_EACH), range(PARTITIONS)):
            ledger.append(client, partition, VALUE_BYTES)
        for _ in range(ROUNDS):
            loaded = kill_under_load(broker, ledger, chance)
            assert loaded, "too little was acknowledged to prove anything"
            spoiled = spoil(broker, ledger, loaded, chance)
            starts.append(start_within_bound(broker, client, topic))
            for partition in {**dict.fromkeys(chance.sample(range(PARTITIONS), 10), 0), **spoiled}:
                ledger.check(client, partition, spoiled.get(partition, 0))
                check_time_lookups(client, topic, partition)
            ledger.ends = [client.end_offset(topic, p) for p in range(PARTITIONS)]
        flipped = chance.sample(range(PARTITIONS), 3)
        broker.kill()
        for partition in flipped:
            file = segments(broker, topic, partition=partition)[0]
            flip_byte(file, file.stat().st_size // 2)
        sound = [p for p in range(PARTITIONS) if p not in flipped]
        start_within_bound(broker, client, topic, sound)
        for partition in flipped:
            eventually(lambda p=partition: fetch_or_error(client, topic, p), wanted=lambda a: a in DATA_ERRORS, what="an error")
        for partition in sound:
            ledger.check(client, partition, 0)
    print(f"seed {seed}: {ROUNDS} kills, {sum(ledger.ends)} records, slowest start {max(starts):.1f} s")
