"""Acknowledged records outlive SIGKILL: a ledger of what was acknowledged is held against the log after many kills.

Two kinds of load run through all kills: a RAW idempotent producer for each partition, which sends a batch again (same sequence)
until it is acknowledged, and librdkafka's idempotent producer, which retries by itself. At the end every acknowledged value
stands once, at the offset that was acknowledged, and offsets have no hole. After each recovery Apache Kafka's own dump tool
reads every segment, index and snapshot.
"""

import contextlib
import itertools
import os
import pathlib
import random
import subprocess
import threading

import confluent_kafka
import pytest

from raw import errors
from raw.batch import values_batch
from raw.broker import CASES
from raw.client import Client
from raw.connection import ConnectionClosed
from raw.wait import eventually

PARTITIONS = 3
RECORDS_A_BATCH = 7
LOAD_BEFORE_KILL_S = (0.02, 0.3)
# A pause after each batch: without it the log grows so fast that Kafka's dump tool, which reads all of it each time, takes over.
PAUSE_S = 0.004
DUMP_TIMEOUT_S = 120
RETRIABLE = {errors.NOT_LEADER_OR_FOLLOWER, errors.UNKNOWN_TOPIC_OR_PARTITION}


class RawProducer(threading.Thread):
    """An idempotent producer of one partition that keeps a ledger: value -> acknowledged offset."""

    def __init__(self, broker, topic, partition, producer_id):
        super().__init__(name=f"producer-{partition}", daemon=True)
        self.broker, self.topic, self.partition, self.producer_id = broker, topic, partition, producer_id
        self.ledger = {}
        self.running = threading.Event()
        self.running.set()
        self.stopped = False
        self.failure = None

    def run(self):
        try:
            for number in itertools.count():
                if self.stopped:
                    return
                self._send_until_acknowledged(number)
        except BaseException as failure:
            self.failure = failure

    def _send_until_acknowledged(self, number):
        first = number * RECORDS_A_BATCH
        values = [b"%d-%d" % (self.partition, first + i) for i in range(RECORDS_A_BATCH)]
        batch = values_batch(*values, producer_id=self.producer_id, producer_epoch=0, base_sequence=first)
        while not self.stopped:
            self.running.wait()
            with contextlib.suppress(OSError, ConnectionClosed), Client(self.broker) as client:
                answer = client.produce(self.topic, batch, self.partition)
                if answer.error_code in RETRIABLE:
                    continue
                assert answer.error_code == errors.NONE, answer
                self.ledger.update({value: answer.base_offset + i for i, value in enumerate(values)})
                threading.Event().wait(PAUSE_S)
                return

    def end(self):
        self.stopped = True
        self.running.set()
        self.join(timeout=30)
        assert self.failure is None, self.failure
        assert not self.is_alive(), "the producer hangs"


class LibrdkafkaProducer(threading.Thread):
    """librdkafka's idempotent producer: it alone decides about retries; the ledger is what its delivery reports say."""

    def __init__(self, bootstrap, topic):
        super().__init__(name="librdkafka", daemon=True)
        self.producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "reconnect.backoff.max.ms": 100,
                "delivery.timeout.ms": 120_000,
                "log_level": 0,
            }
        )
        self.topic = topic
        self.ledger = {}
        self.failures = []
        self.stopped = False

    def run(self):
        for number in itertools.count():
            if self.stopped:
                return
            with contextlib.suppress(BufferError):
                self.producer.produce(self.topic, b"r-%d" % number, partition=0, on_delivery=self._delivered)
            self.producer.poll(PAUSE_S)

    def _delivered(self, error, message):
        if error is not None:
            self.failures.append(error)
        else:
            self.ledger[message.value()] = message.offset()

    def end(self):
        self.stopped = True
        self.join(timeout=30)
        assert self.producer.flush(60) == 0, "records were left in librdkafka's queue"
        assert self.failures == [], self.failures[:3]


def check_with_kafkas_dump_tool(folders):
    peer = pathlib.Path(os.environ.get("PEER_HOME", str(CASES.parent / "peer")))
    command = ["bash", str(peer / "check-log"), *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DUMP_TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr


def check_ledger(client, topic, partition, ledger):
    """Every acknowledged value stands once, at its offset; offsets are dense."""
    records = client.read_records(topic, 0, partition)
    assert [r.offset for r in records] == list(range(len(records))), "offsets have a hole"
    values = [r.value for r in records]
    assert len(set(values)) == len(values), "a record stands twice"
    at = {r.value: r.offset for r in records}
    missing = {v: o for v, o in ledger.items() if at.get(v) != o}
    assert not missing, f"{len(missing)} acknowledged records are missing or moved, such as {list(missing.items())[:3]}"


def kill_under_load(broker, kills, checks_each, seed):
    """Kills the broker `kills` times under load; returns what the checks need."""
    chance = random.Random(seed)
    with Client(broker) as client:
        topic = client.new_topic("kill", partitions=PARTITIONS, segment_bytes=1 << 20).name
        client.wait_for_topic(topic)
        other = client.new_topic("kill-librdkafka").name
        client.wait_for_topic(other)
        producers = [RawProducer(broker, topic, p, client.producer_id()) for p in range(PARTITIONS)]
    librdkafka = LibrdkafkaProducer(broker.bootstrap, other)
    for one in [*producers, librdkafka]:
        one.start()
    for kill in range(1, kills + 1):
        threading.Event().wait(chance.uniform(*LOAD_BEFORE_KILL_S))
        broker.kill()
        if kill % checks_each == 0:
            for one in producers:
                one.running.clear()
        broker.start_again()
        if kill % checks_each == 0:
            folders = [broker.partition_folder(topic, p) for p in range(PARTITIONS)]
            # A producer may still finish the batch that it was sending: the files must come to rest first.
            eventually(lambda: check_with_kafkas_dump_tool(folders) is None, timeout_s=5)
            for one in producers:
                one.running.set()
    for one in [*producers, librdkafka]:
        one.end()
    return topic, producers, other, librdkafka


def check_kills(broker, kills, checks_each, seed=7):
    topic, producers, other, librdkafka = kill_under_load(broker, kills, checks_each, seed)
    with Client(broker) as client:
        for one in producers:
            assert len(one.ledger) > kills, "too little was acknowledged to prove anything"
            check_ledger(client, topic, one.partition, one.ledger)
        check_ledger(client, other, 0, librdkafka.ledger)
    total = sum(len(one.ledger) for one in producers) + len(librdkafka.ledger)
    print(f"{kills} kills, seed {seed}: {total} acknowledged records, none lost, none twice")


@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_or_doubled_over_20_kills(own_broker):
    check_kills(own_broker(), kills=20, checks_each=5)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_nothing_acknowledged_is_lost_or_doubled_over_200_kills(own_broker):
    check_kills(own_broker(), kills=200, checks_each=1, seed=int.from_bytes(os.urandom(4)))
