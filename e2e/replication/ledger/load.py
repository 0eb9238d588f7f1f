"""Writers and readers that run while things go wrong, and keep a ledger of it."""

import contextlib
import itertools
import threading
import time

import confluent_kafka

from raw import errors
from raw.batch import read_batches, values_batch
from raw.client import FETCH, PRODUCE, fetch_partition, produce_fields
from raw.connection import Connection, ConnectionClosed
from raw.wait import eventually

from .checker import check, tell
from .history import History, Seen

# Between two records of a writer. The machine has to serve six processes and the load.
PAUSE_S = 0.005
# How long the RAW writer waits before it tries again: short, so that gaps are the cluster's and not the client's.
RETRY_S = 0.005
ANSWER_TIMEOUT_S = 2
DELIVERY_TIMEOUT_S = 120
JOIN_TIMEOUT_S = 150
MAX_BYTES = 4 << 20
# As many requests as an idempotent producer may have on the way.
IN_FLIGHT = 5
# What a producer may send again: the record is not in the log, or the same sequence finds it there.
RETRIABLE = {
    errors.UNKNOWN_TOPIC_OR_PARTITION,
    errors.LEADER_NOT_AVAILABLE,
    errors.NOT_LEADER_OR_FOLLOWER,
    errors.REQUEST_TIMED_OUT,
    errors.NOT_ENOUGH_REPLICAS,
    errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    errors.KAFKA_STORAGE_ERROR,
    errors.UNKNOWN_TOPIC_ID,
}


class Task(threading.Thread):
    """Work in the background whose failure is the test's."""

    def __init__(self, name):
        super().__init__(name=name, daemon=True)
        self.stopped = False
        self.failure = None

    def run(self):
        try:
            self.work()
        except BaseException as failure:
            self.failure = failure

    def end(self):
        self.stopped = True
        self.join(JOIN_TIMEOUT_S)
        assert not self.is_alive(), f"{self.name} hangs"
        if self.failure is not None:
            raise AssertionError(f"{self.name} failed") from self.failure


class LibrdkafkaWriter(Task):
    """librdkafka's idempotent producer, to all partitions in turn; it alone decides about retries."""

    def __init__(self, cluster, topic, partitions, ledger):
        super().__init__(ledger.name)
        self.topic, self.partitions, self.ledger = topic, partitions, ledger
        self.failures = []
        self.producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "max.in.flight": IN_FLIGHT,
                "linger.ms": 2,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "socket.timeout.ms": 10_000,
                "delivery.timeout.ms": DELIVERY_TIMEOUT_S * 1000,
                "log_level": 0,
            }
        )

    def work(self):
        for number in itertools.count():
            if self.stopped:
                break
            partition = number % self.partitions
            value = b"%s-%d" % (self.name.encode(), number)
            send = self.ledger.send(partition, value)

            def delivered(error, message, send=send):
                if error is None:
                    self.ledger.acknowledge(send, message.offset())
                else:
                    self.failures.append((send, error))

            self.producer.produce(self.topic, value, partition=partition, on_delivery=delivered)
            self.producer.poll(PAUSE_S)
        left = self.producer.flush(DELIVERY_TIMEOUT_S)
        assert left == 0 and not self.failures, f"{left} records left in librdkafka's queue, failed: {self.failures[:3]}"


class RawWriter(Task):
    """An idempotent producer of one partition without any backoff: it sends a batch to whom it takes for the leader until it
    is acknowledged, and keeps the longest time between two acknowledgements."""

    def __init__(self, cluster, topic, partition, ledger):
        super().__init__(ledger.name)
        self.cluster, self.topic, self.partition, self.ledger = cluster, topic, partition, ledger
        self.connection = None
        self.brokers = itertools.cycle(cluster.brokers)
        self.gap = Gap()
        self.retries = 0

    def work(self):
        with self.cluster.client() as client:
            producer_id = client.producer_id()
        self.gap.ends()
        for number in itertools.count():
            if self.stopped:
                break
            value = b"%s-%d" % (self.name.encode(), number)
            send = self.ledger.send(self.partition, value)
            batch = values_batch(value, producer_id=producer_id, producer_epoch=0, base_sequence=number)
            offset = self._until_acknowledged(batch)
            if offset is None:
                break
            self.ledger.acknowledge(send, offset)
            self.gap.ends()
            time.sleep(PAUSE_S)
        self._close()

    def _until_acknowledged(self, batch):
        deadline = time.monotonic() + DELIVERY_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                answer = self._to_leader().call("Produce", PRODUCE, **produce_fields(self.topic, batch, self.partition))
                answer = answer.responses[0].partition_responses[0]
                if answer.error_code == errors.NONE:
                    return answer.base_offset
                assert answer.error_code in RETRIABLE, answer
            except (OSError, ConnectionClosed):
                pass
            if self.stopped and time.monotonic() > deadline - DELIVERY_TIMEOUT_S + ANSWER_TIMEOUT_S:
                # Nobody knows what became of it.
                return None
            self._close()
            self.retries += 1
            time.sleep(RETRY_S)
        raise AssertionError(f"{self.topic}-{self.partition} took nothing for {DELIVERY_TIMEOUT_S} s")

    def _to_leader(self):
        """A connection to the leader, as the next broker that answers tells it."""
        if self.connection is None:
            node = next(self.brokers)
            with Connection(node.address, timeout_s=ANSWER_TIMEOUT_S) as asked:
                found = asked.call("Metadata", 12, topics=[{"name": self.topic}], allow_auto_topic_creation=False)
            leaders = {p.partition_index: p.leader_id for topic in found.topics for p in topic.partitions}
            leader = leaders.get(self.partition, -1)
            if leader < 0:
                raise ConnectionClosed(f"{node} knows no leader")
            self.connection = Connection(self.cluster.broker(leader).address, timeout_s=ANSWER_TIMEOUT_S)
        return self.connection

    def _close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Gap:
    """The longest time that nothing was acknowledged: in all, and since it was last asked for."""

    def __init__(self):
        self.longest_s = 0.0
        self._recent_s = 0.0
        self._since = time.monotonic()

    def ends(self):
        """Something is acknowledged now."""
        now = time.monotonic()
        gap_s, self._since = now - self._since, now
        self.longest_s, self._recent_s = max(self.longest_s, gap_s), max(self._recent_s, gap_s)

    def take_recent_s(self):
        """The longest gap since the call before; one that still lasts counts."""
        recent_s, self._recent_s = max(self._recent_s, time.monotonic() - self._since), 0.0
        return recent_s


class LonelyWriter(Task):
    """Writes to one broker with acks=1 while that takes it. Nobody promises that any of it stays."""

    def __init__(self, node, topic, partition, ledger):
        super().__init__(ledger.name)
        self.node, self.topic, self.partition, self.ledger = node, topic, partition, ledger
        self.taken = 0

    def work(self):
        with Connection(self.node.address, timeout_s=ANSWER_TIMEOUT_S) as connection:
            for number in itertools.count():
                if self.stopped:
                    break
                value = b"%s-%d" % (self.name.encode(), number)
                self.ledger.send(self.partition, value)
                fields = produce_fields(self.topic, values_batch(value), self.partition, acks=1)
                answer = connection.call("Produce", PRODUCE, **fields).responses[0].partition_responses[0]
                if answer.error_code != errors.NONE:
                    assert answer.error_code in RETRIABLE, answer
                    break
                self.taken += 1
                time.sleep(PAUSE_S)


class LibrdkafkaReader(Task):
    """librdkafka's consumer of all partitions from their start. An offset out of range is an error here, not a new start."""

    def __init__(self, cluster, topic, partitions, ledger, rack=None):
        super().__init__(ledger.name)
        self.ledger = ledger
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"reader-{ledger.name}",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 20,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.fast.interval.ms": 50,
            "log_level": 0,
        }
        if rack is not None:
            settings["client.rack"] = rack
        self.consumer = confluent_kafka.Consumer(settings)
        self.consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(partitions)])

    def work(self):
        try:
            while not self.stopped:
                for message in self.consumer.consume(500, 0.1):
                    error = message.error()
                    if error is None:
                        self.ledger.saw(message.partition(), message.offset(), message.value())
                    elif error.code() in (
                        confluent_kafka.KafkaError._AUTO_OFFSET_RESET,
                        confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE,
                    ):
                        raise AssertionError(f"{self.name}: {error}")
        finally:
            self.consumer.close()


class Load:
    """Writers and readers of one topic; `end()` gives what has to be checked."""

    def __init__(self, cluster, topic, partitions, racks=()):
        self.cluster, self.topic, self.partitions = cluster, topic, partitions
        self.history = History()
        self.writers = [LibrdkafkaWriter(cluster, topic, partitions, self.history.writer("librdkafka"))]
        self.raw = [RawWriter(cluster, topic, p, self.history.writer(f"raw-{p}")) for p in range(partitions)]
        readers = [None, *racks]
        self.readers = [
            LibrdkafkaReader(cluster, topic, partitions, self.history.reader(f"reader-{rack or 'any'}"), rack) for rack in readers
        ]

    def __enter__(self):
        for task in [*self.writers, *self.raw, *self.readers]:
            task.start()
        self.wait_for_more(1)
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            for task in [*self.writers, *self.raw, *self.readers]:
                task.stopped = True

    def acknowledged(self):
        return [writer.ledger.acknowledged for writer in [*self.writers, *self.raw]]

    def wait_for_more(self, count=20, timeout_s=DELIVERY_TIMEOUT_S):
        """Until every writer has got `count` more acknowledgements: load went on after whatever happened."""
        before = self.acknowledged()

        def more():
            self.check_tasks()
            return all(now >= then + count for now, then in zip(self.acknowledged(), before, strict=True))

        eventually(more, timeout_s=timeout_s, poll_s=0.1, what=f"{count} more records of every writer")

    def check_tasks(self):
        for task in [*self.writers, *self.raw, *self.readers]:
            if task.failure is not None:
                raise RuntimeError(f"{task.name} failed") from task.failure

    def longest_gap_s(self):
        """The longest time that a partition took nothing, as the writers without a backoff saw it."""
        return max(self.longest_gaps_s())

    def longest_gaps_s(self):
        """The same of each partition."""
        return [writer.gap.longest_s for writer in self.raw]

    def take_recent_gap_s(self):
        """The longest gap of any partition since the call before."""
        return max(writer.gap.take_recent_s() for writer in self.raw)

    def end(self):
        """Stops the writers, lets the readers reach the end, reads the log, and checks all of it. What is found fails."""
        for writer in [*self.writers, *self.raw]:
            writer.end()
        self.cluster.wait_until_in_sync(self.topic)
        self.history.log = [seen for partition in range(self.partitions) for seen in self._read(partition)]
        for reader in self.readers:
            self._wait_for_reader(reader)
            reader.end()
        anomalies = check(self.history)
        assert not anomalies, f"{self.history.count()}\n{tell(anomalies)}"
        return self.history

    def _wait_for_reader(self, reader):
        ends = {}
        for record in self.history.log:
            ends[record.partition] = max(ends.get(record.partition, 0), record.offset)

        def at_end():
            assert reader.failure is None, reader.failure
            seen = {}
            for record in reader.ledger.runs[-1]:
                seen[record.partition] = record.offset
            assert seen == ends, f"{reader.name} is at {seen} of {ends}"
            return True

        eventually(at_end, timeout_s=60, poll_s=0.2, what=f"{reader.name} at the end")

    def _read(self, partition):
        """All records of a partition up to the high watermark, as its leader gives them."""
        return read_partition(self.cluster, self.topic, partition)


def check_all(cluster, load):
    """Ends the load, checks its ledger and that all replicas have the same bytes; gives one line about it."""
    history = load.end()
    cluster.assert_equal_replicas(load.topic, load.partitions)
    retries = sum(writer.retries for writer in load.raw)
    gaps = ", ".join(f"{gap_s:.2f}" for gap_s in load.longest_gaps_s())
    counted = ", ".join(f"{count} {outcome}" for outcome, count in sorted(history.count().items()))
    return f"{counted}, {len(history.log)} in the log, {retries} retries; longest gap of each partition: {gaps} s"


def origin_of(batch):
    """Under whom a batch was written, and as which of its producer's: two copies tell by that how they came about."""
    producer = f"producer {batch.producer_id} epoch {batch.producer_epoch} sequence {batch.base_sequence}"
    return f"leader epoch {batch.leader_epoch}, {producer}, batch at {batch.base_offset}"


def read_partition(cluster, topic, partition, first=0):
    """All records of a partition from the offset `first` to its high watermark."""

    def read():
        records, offset = [], first
        with contextlib.closing(cluster.leader(topic, partition).connect()) as connection:
            while True:
                topics = [{"topic": topic, "partitions": [fetch_partition(partition, offset, partition_max_bytes=MAX_BYTES)]}]
                answer = connection.call("Fetch", FETCH, max_wait_ms=0, min_bytes=0, max_bytes=MAX_BYTES, topics=topics)
                found = answer.responses[0].partitions[0]
                assert found.error_code == errors.NONE, found
                batches = read_batches(found.records)
                if not batches:
                    assert offset == found.high_watermark, f"nothing at {offset} below {found.high_watermark}"
                    return records
                for batch in batches:
                    origin = origin_of(batch)
                    records += [Seen(partition, r.offset, r.value, origin) for r in batch.records if r.offset >= offset]
                offset = batches[-1].next_offset

    found = []

    def try_to_read():
        try:
            found[:] = [read()]
            return True
        except (OSError, ConnectionClosed) as error:
            raise AssertionError(f"the leader of {topic}-{partition} went away: {error}") from error

    eventually(try_to_read, timeout_s=60, what=f"the records of {topic}-{partition}")
    return found[0]
