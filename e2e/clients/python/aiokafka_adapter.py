"""aiokafka for scenario.py: its coroutines run on one event loop in a thread, as heartbeats must go on between calls."""

import asyncio
import threading

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from model import EARLIEST, LATEST, PARTITIONS, REPLICAS, Record

TIMEOUT_S = 15
_loop = asyncio.new_event_loop()
threading.Thread(target=_loop.run_forever, daemon=True).start()


def _run(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, _loop).result(TIMEOUT_S)


async def _started(make):
    client = make()
    await client.start()
    return client


class _Producer:
    def __init__(self, **config) -> None:
        self.producer, self.sent = _run(_started(lambda: AIOKafkaProducer(**config))), []

    def send(self, topic: str, record: Record) -> None:
        self.sent.append(
            _run(
                self.producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=record.headers,
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                )
            )
        )

    def close(self) -> None:
        async def all_sent():
            await asyncio.gather(*self.sent)
            await self.producer.stop()

        _run(all_sent())


class _Reader:
    def __init__(self, bootstrap: str, topics: tuple[str, ...] = (), **config) -> None:
        self.consumer = _run(
            _started(
                lambda: AIOKafkaConsumer(
                    *topics,
                    bootstrap_servers=bootstrap,
                    enable_auto_commit=False,
                    auto_offset_reset="earliest",
                    fetch_max_wait_ms=100,
                    **config,
                )
            )
        )

    def poll(self, timeout_s: float) -> list[tuple[int, Record]]:
        polled = _run(self.consumer.getmany(timeout_ms=int(timeout_s * 1000)))
        return [
            (r.offset, Record(r.partition, r.key, r.value, list(r.headers), r.timestamp)) for records in polled.values() for r in records
        ]

    def assignment(self) -> set[int]:
        return {p.partition for p in self.consumer.assignment()}

    def commit(self) -> None:
        _run(self.consumer.commit())

    def close(self) -> None:
        _run(self.consumer.stop())


class Client:
    cannot = {
        "header-null": "the producer refuses a null header value",
        "null-record": "the producer wants a key or a value",
        "group-cooperative": "no cooperative assignor",
        "delete-group": "no such call in its admin client",
    }

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = _run(_started(lambda: AIOKafkaAdminClient(bootstrap_servers=bootstrap)))

    def create_topic(self, topic: str, partitions: int) -> None:
        answer = _run(self.admin.create_topics([NewTopic(topic, partitions, REPLICAS)]))
        for error in answer.topic_errors:
            if error[1]:
                raise RuntimeError(f"create {error}")

    def delete_topic(self, topic: str) -> None:
        answer = _run(self.admin.delete_topics([topic]))
        for error in answer.topic_error_codes:
            if error[1]:
                raise RuntimeError(f"delete {error}")

    def topics(self) -> set[str]:
        return set(_run(self.admin.list_topics()))

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
        reader = self.reader(topic, {})
        try:
            if at == EARLIEST:
                found = _run(reader.consumer.beginning_offsets(partitions))
            elif at == LATEST:
                found = _run(reader.consumer.end_offsets(partitions))
            else:
                found = {p: o.offset for p, o in _run(reader.consumer.offsets_for_times(dict.fromkeys(partitions, at))).items()}
        finally:
            reader.close()
        return {p.partition: offset for p, offset in found.items()}

    def reader(self, topic: str, offsets: dict[int, int]) -> _Reader:
        reader = _Reader(self.bootstrap, group_id=None)

        async def assign() -> None:  # assign() makes futures, so it wants to be called on the loop
            reader.consumer.assign([TopicPartition(topic, p) for p in offsets or range(PARTITIONS)])
            for partition, offset in offsets.items():
                reader.consumer.seek(TopicPartition(topic, partition), offset)

        _run(assign())
        return reader

    def member(self, group: str, topic: str, assignor: str) -> _Reader:
        return _Reader(
            self.bootstrap,
            (topic,),
            group_id=group,
            partition_assignment_strategy=[RangePartitionAssignor],
            heartbeat_interval_ms=300,
            session_timeout_ms=10_000,
        )

    def groups(self) -> set[str]:
        return {group[0] for group in _run(self.admin.list_consumer_groups())}

    def describe_group(self, group: str) -> tuple[str, int]:
        _error, _group, state, _type, _protocol, members, *_ = _run(self.admin.describe_consumer_groups([group]))[0].groups[0]
        return state, len(members)

    def delete_group(self, group: str) -> None:
        raise NotImplementedError
