"""kafka-python for scenario.py."""

import concurrent.futures
import queue
import threading

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from model import EARLIEST, LATEST, PARTITIONS, REPLICAS, Record

TIMEOUT_S = 15
ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


class _Producer:
    def __init__(self, **config) -> None:
        self.producer, self.sent = KafkaProducer(**config), []

    def send(self, topic: str, record: Record) -> None:
        self.sent.append(
            self.producer.send(
                topic, value=record.value, key=record.key, headers=record.headers, partition=record.partition, timestamp_ms=record.timestamp
            )
        )

    def close(self) -> None:
        for future in self.sent:
            future.get(TIMEOUT_S)
        self.producer.close(TIMEOUT_S)


class _Reader:
    def __init__(self, bootstrap: str, **config) -> None:
        self.consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest", fetch_max_wait_ms=100, **config
        )

    def poll(self, timeout_s: float) -> list[tuple[int, Record]]:
        polled = self.consumer.poll(timeout_ms=int(timeout_s * 1000))
        return [
            (r.offset, Record(r.partition, r.key, r.value, list(r.headers), r.timestamp)) for records in polled.values() for r in records
        ]

    def assignment(self) -> set[int]:
        return {p.partition for p in self.consumer.assignment()}

    def commit(self) -> None:
        self.consumer.commit()

    def close(self) -> None:
        self.consumer.close(autocommit=False)


class _Member:
    """A group member in a thread of its own, as an application runs it: a rebalance needs every member to poll at once.

    KafkaConsumer is not for several threads, so commit and close are done by the thread that polls.
    """

    def __init__(self, reader: _Reader) -> None:
        self.reader, self.records, self.calls, self.open = reader, queue.SimpleQueue(), queue.SimpleQueue(), True
        self.thread = threading.Thread(target=self._poll, daemon=True)
        self.thread.start()

    def _poll(self) -> None:
        while self.open:
            for record in self.reader.poll(0.1):
                self.records.put(record)
            while not self.calls.empty():
                call, future = self.calls.get()
                try:
                    future.set_result(call())
                except Exception as error:
                    future.set_exception(error)

    def _call(self, call) -> None:
        future = concurrent.futures.Future()
        self.calls.put((call, future))
        future.result(TIMEOUT_S)

    def poll(self, timeout_s: float) -> list[tuple[int, Record]]:
        records: list[tuple[int, Record]] = []
        try:
            records.append(self.records.get(timeout=timeout_s))
            while True:
                records.append(self.records.get_nowait())
        except queue.Empty:
            return records

    def assignment(self) -> set[int]:
        return self.reader.assignment()

    def commit(self) -> None:
        self._call(self.reader.commit)

    def close(self) -> None:
        def close() -> None:
            self.open = False
            self.reader.close()

        self._call(close)
        self.thread.join(TIMEOUT_S)


class Client:
    cannot = {"header-null": "the producer refuses a null header value", "null-record": "the producer wants a key or a value"}

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def create_topic(self, topic: str, partitions: int) -> None:
        self.admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": REPLICAS}})

    def delete_topic(self, topic: str) -> None:
        self.admin.delete_topics([topic])

    def topics(self) -> set[str]:
        return set(self.admin.list_topics())

    def producer(self, acks: int, codec: str, idempotent: bool) -> _Producer:
        return _Producer(
            bootstrap_servers=self.bootstrap,
            acks={-1: "all"}.get(acks, acks),
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=5,
        )

    def offsets(self, topic: str, at: int) -> dict[int, int]:
        partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        reader = _Reader(self.bootstrap)
        try:
            if at == EARLIEST:
                found = reader.consumer.beginning_offsets(partitions)
            elif at == LATEST:
                found = reader.consumer.end_offsets(partitions)
            else:
                found = {p: o.offset for p, o in reader.consumer.offsets_for_times(dict.fromkeys(partitions, at)).items()}
        finally:
            reader.close()
        return {p.partition: offset for p, offset in found.items()}

    def reader(self, topic: str, offsets: dict[int, int]) -> _Reader:
        reader = _Reader(self.bootstrap, group_id=None)
        reader.consumer.assign([TopicPartition(topic, p) for p in offsets])
        for partition, offset in offsets.items():
            reader.consumer.seek(TopicPartition(topic, partition), offset)
        return reader

    def member(self, group: str, topic: str, assignor: str) -> _Member:
        reader = _Reader(
            self.bootstrap,
            group_id=group,
            partition_assignment_strategy=[ASSIGNORS[assignor]],
            heartbeat_interval_ms=300,
            session_timeout_ms=10_000,
        )
        reader.consumer.subscribe([topic])
        # kafka-python 3.0.12 forgets an assignment that it made for want of metadata when poll() gives up while it joins.
        reader.consumer.partitions_for_topic(topic)
        return _Member(reader)

    def groups(self) -> set[str]:
        return {group["group_id"] for group in self.admin.list_groups()}

    def describe_group(self, group: str) -> tuple[str, int]:
        described = self.admin.describe_groups([group])[group]
        return described["group_state"], len(described["members"])

    def delete_group(self, group: str) -> None:
        self.admin.delete_groups([group])
