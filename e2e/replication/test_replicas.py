"""Replicas are copies: the same bytes on every broker, which Kafka's own tool reads; and what clients are told about them."""

import os
import subprocess

import confluent_kafka
import pytest
from kafka import KafkaProducer

from cluster import faults
from ledger.load import read_partition
from raw import errors
from raw.batch import HOUR_AGO, Batch, Record, read_batches, values_batch
from raw.broker import CASES
from raw.client import LATEST, Client
from raw.connection import ConnectionClosed
from raw.damage import fetch_or_error, flip_byte
from raw.wait import eventually

PARTITIONS = 3
DUMP_TIMEOUT_S = 120
# The least that a topic may ask for.
SEGMENT_BYTES = 1 << 20
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def test_what_clients_write_stands_byte_for_byte_on_every_broker(cluster):
    topic = cluster.new_topic(partitions=PARTITIONS, segment_bytes=SEGMENT_BYTES)
    for codec in CODECS:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": codec, "acks": "all"})
        for number in range(300):
            producer.produce(topic, os.urandom(20) * 200, key=b"%d" % number, partition=number % PARTITIONS)
        assert producer.flush(60) == 0
    python = KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","), acks="all")
    for number in range(200):
        python.send(topic, os.urandom(4000), partition=number % PARTITIONS).get(timeout=30)
    python.close()
    cluster.assert_equal_replicas(topic, PARTITIONS)
    counts = [len(read_partition(cluster, topic, partition)) for partition in range(PARTITIONS)]
    assert sum(counts) == 300 * len(CODECS) + 200


def test_kafkas_own_tool_finds_nothing_wrong_with_any_replica(new_cluster):
    cluster = new_cluster()
    cluster.start()
    topic = cluster.new_topic(partitions=1, segment_bytes=SEGMENT_BYTES)
    with Client(cluster.leader(topic)) as client:
        producer_id = client.producer_id()
        for number in range(40):
            values = [os.urandom(20) * 300 for _ in range(10)]
            batch = values_batch(*values, producer_id=producer_id, producer_epoch=0, base_sequence=10 * number)
            client.append(topic, batch)
    cluster.assert_equal_replicas(topic, 1)
    cluster.stop()
    folders = [str(node.logs / f"{topic}-0") for node in cluster.brokers]
    check = CASES.parent / "peer" / "check-log"
    done = subprocess.run(["bash", str(check), *folders], capture_output=True, text=True, timeout=DUMP_TIMEOUT_S)
    assert done.returncode == 0, done.stderr


def test_without_enough_replicas_acks_all_is_refused_and_reads_go_on(cluster):
    topic = cluster.new_topic(partitions=1, min_insync_replicas=3)
    leader, follower = cluster.leader(topic), cluster.follower(topic)
    with Client(leader) as client:
        client.append_values(topic, b"before")
        follower.kill()

        def refused():
            return client.produce(topic, values_batch(b"refused"), timeout_ms=1000).error_code

        eventually(refused, wanted=lambda code: code == errors.NOT_ENOUGH_REPLICAS, timeout_s=60, what="a refusal")
        assert client.read_values(topic)[0] == b"before"
        # acks=1 is not asked for more than the leader, and does not commit either.
        assert client.produce(topic, values_batch(b"alone"), acks=1).error_code == errors.NONE
        assert b"alone" not in client.read_values(topic)
        cluster.restart(follower)
        cluster.wait_until_in_sync(topic)
        eventually(lambda: b"alone" in client.read_values(topic), what="a record that all have")


def test_the_high_watermark_never_goes_back_for_a_new_leader(cluster):
    topic = cluster.new_topic(partitions=1)
    with Client(cluster.leader(topic)) as client:
        for number in range(100):
            client.append_values(topic, b"%d" % number)
        end = client.end_offset(topic)
    leader = cluster.leader(topic)
    leader.kill()
    successor = cluster.leader(topic, other_than=leader)

    def told():
        with Client(successor) as client:
            return client.list_offset(topic, LATEST)

    # A new leader may have to hear from its followers first; it says so, and says no smaller offset.
    allowed = {errors.OFFSET_NOT_AVAILABLE, errors.LEADER_NOT_AVAILABLE, errors.NOT_LEADER_OR_FOLLOWER}
    answer = eventually(told, wanted=lambda answer: answer.error_code not in allowed, what="an end offset")
    assert (answer.error_code, answer.offset) == (errors.NONE, end)


# What has happened to the followers before one of them leads.
BEFORE = ["nothing", "restarted", "compacted"]
LONG_ROUNDS = pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(7200)])


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("rounds", [3, LONG_ROUNDS])
def test_a_retry_at_the_new_leader_is_answered_with_the_first_offset(cluster, rounds, before):
    """R-03: the leader dies after it has replicated a batch; whether its answer was read or not, the retry finds the batch. Also
    where the new leader has just been started again, and where it has compacted the partition."""
    configs = {"cleanup_policy": "compact", "segment_ms": 100, "min_cleanable_dirty_ratio": 0.01} if before == "compacted" else {}
    topic = cluster.new_topic(partitions=1, **configs)
    with cluster.client() as client:
        producer_id = client.producer_id()
    offsets = []
    for number in range(rounds):
        batch = keyed_batch(number, producer_id)
        leader = cluster.leader(topic)
        with Client(leader) as client:
            first = client.append(topic, batch)
        if before == "restarted":
            restart_followers(cluster, topic, leader)
        elif before == "compacted" and number:
            wait_until_compacted(cluster, topic, leader)
        leader.kill()
        answer = eventually(
            lambda batch=batch, leader=leader: retry(cluster, topic, batch, leader),
            timeout_s=60,
            wanted=lambda _: True,
            what="an answer to the retry",
        )
        assert answer.base_offset == first
        offsets.append(first)
        cluster.restart(leader)
        cluster.wait_until_in_sync(topic, preferred=True)
    assert offsets == list(range(rounds))
    found = read_partition(cluster, topic, 0)
    assert found[-1].value == b"%d" % (rounds - 1)
    assert len(found) == rounds or before == "compacted"


def keyed_batch(number, producer_id):
    """The producer's batch of this number; all have one key. They are dated far enough apart that each begins a segment where
    segments are short, however soon one follows the other."""
    record = Record(value=b"%d" % number, key=b"one", timestamp=HOUR_AGO + number * 1000)
    return Batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=number)


def retry(cluster, topic, batch, former):
    """Sends the batch again to whoever leads instead of `former`."""
    try:
        with Client(cluster.leader(topic, other_than=former)) as client:
            answer = client.produce(topic, batch)
    except (OSError, ConnectionClosed) as error:
        raise AssertionError("no answer yet") from error
    assert answer.error_code == errors.NONE, answer
    return answer


def restart_followers(cluster, topic, leader):
    for node in cluster.brokers:
        if node is not leader:
            faults.restart(cluster, node)
            cluster.wait_until_in_sync(topic, preferred=True)
    assert cluster.leader(topic) is leader


def wait_until_compacted(cluster, topic, leader):
    """Until every follower has compacted all but the last of what was written."""

    def compacted():
        for number, log in cluster.logs_of(topic, 0).items():
            values = [record.value for batch in read_batches(log) for record in batch.records]
            assert number == leader.number or len(values) <= 2, f"broker {number} keeps {values}"
        return True

    eventually(compacted, timeout_s=60, what="compacted followers")


def test_a_group_goes_on_where_it_was_when_its_coordinator_dies(cluster):
    """G-02: committed offsets are replicated, and nobody is told that there are none."""
    topic = cluster.new_topic(partitions=PARTITIONS)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(90):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": topic,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        # Whoever closes while the coordinator is away cannot say so, and is waited for.
        "session.timeout.ms": 6000,
        "log_level": 0,
    }
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])
    seen = consumer.consume(45, 30)
    assert len(seen) == 45
    consumer.commit(asynchronous=False)
    with cluster.client() as client:
        found = client.call("FindCoordinator", 4, key_type=0, coordinator_keys=[topic]).coordinators[0]
    faults.crash(cluster, cluster.broker(found.node_id))
    consumer.close()
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])
    rest = consumer.consume(45, 60)
    consumer.close()
    assert sorted(int(message.value()) for message in [*seen, *rest]) == list(range(90))


def test_a_log_that_begins_within_a_batch_is_followed_and_read_from_there(cluster):
    """F-08: records are deleted up to the middle of a batch while one follower is down and another one's disk is lost."""
    topic = cluster.new_topic(partitions=1)
    with Client(cluster.leader(topic)) as client:
        for first in range(0, 300, 100):
            client.append_values(topic, *[b"%d" % number for number in range(first, first + 100)])
    leader = cluster.leader(topic)
    down, lost = [node for node in cluster.brokers if node is not leader]
    down.kill()
    with Client(leader) as client:
        eventually(
            lambda: client.delete_records(topic, 37).error_code == errors.NONE, timeout_s=60, what="records that are deleted"
        )
    cluster.restart(down)
    faults.lose_disk(cluster, lost)
    cluster.wait_until_in_sync(topic)
    for node in (leader, down, lost):
        # Each leads once.
        others = [other for other in cluster.brokers if other is not node]
        move_leadership(cluster, topic, node)
        for other in others:
            faults.restart(cluster, other)
        cluster.wait_until_in_sync(topic)
        assert [seen.offset for seen in read_partition(cluster, topic, 0, first=37)] == list(range(37, 300))
        with Client(cluster.leader(topic)) as client:
            assert client.start_offset(topic) == 37


def move_leadership(cluster, topic, node):
    """Makes the broker the preferred leader, and waits until it leads."""
    others = [other.number for other in cluster.brokers if other is not node]
    partition = {"partition_index": 0, "replicas": [node.number, *others]}
    with cluster.client() as client:
        topics = [{"name": topic, "partitions": [partition]}]
        answer = client.call("AlterPartitionReassignments", 0, timeout_ms=5000, topics=topics)
    assert answer.responses[0].partitions[0].error_code == errors.NONE, answer
    eventually(lambda: cluster.leader(topic) is node, timeout_s=60, what=f"{node} that leads")


def test_a_flipped_byte_in_old_data_is_never_served_as_good(cluster):
    """S-04 with three brokers: what is damaged on one is an error there, or read from a copy."""
    topic = cluster.new_topic(partitions=1, segment_bytes=SEGMENT_BYTES)
    values = [os.urandom(20) * 1000 for _ in range(150)]
    with Client(cluster.leader(topic)) as client:
        for value in values:
            client.append_values(topic, value)
    cluster.wait_until_in_sync(topic)
    damaged = cluster.leader(topic)
    damaged.stop()
    oldest = sorted((damaged.logs / f"{topic}-0").glob("*.log"))[0]
    flip_byte(oldest, oldest.stat().st_size // 2)
    cluster.restart(damaged)
    cluster.wait_until_in_sync(topic)
    move_leadership(cluster, topic, damaged)
    with Client(damaged) as client:
        assert fetch_or_error(client, topic) in (errors.NONE, errors.KAFKA_STORAGE_ERROR, errors.CORRUPT_MESSAGE)
    whole = next(node for node in cluster.brokers if node is not damaged)
    move_leadership(cluster, topic, whole)
    assert [seen.value for seen in read_partition(cluster, topic, 0)] == values
