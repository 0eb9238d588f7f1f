"""confluent-kafka (librdkafka) for scenario.py."""

from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from model import EARLIEST, LATEST, PARTITIONS, REPLICAS, Record

TIMEOUT_S = 15


class _Producer:
    def __init__(self, config: dict) -> None:
        self.producer, self.errors = Producer(config), []

    def _delivered(self, error, _message) -> None:
        if error is not None:
            self.errors.append(error)

    def send(self, topic: str, record: Record) -> None:
        self.producer.produce(
            topic,
            value=record.value,
            key=record.key,
            partition=record.partition,
            timestamp=record.timestamp,
            headers=record.headers,
            on_delivery=self._delivered,
        )

    def close(self) -> None:
        left = self.producer.flush(TIMEOUT_S)
        if left or self.errors:
            raise RuntimeError(f"{left} records not delivered, errors {self.errors[:3]}")


class _Reader:
    def __init__(self, config: dict, group: str, **more) -> None:
        self.consumer = Consumer({**config, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest", **more})

    def poll(self, timeout_s: float) -> list[tuple[int, Record]]:
        records = []
        for message in self.consumer.consume(500, timeout_s):
            if message.error():
                raise KafkaException(message.error())
            records.append(
                (
                    message.offset(),
                    Record(message.partition(), message.key(), message.value(), message.headers() or [], message.timestamp()[1]),
                )
            )
        return records

    def assignment(self) -> set[int]:
        return {p.partition for p in self.consumer.assignment()}

    def commit(self) -> None:
        self.consumer.commit(asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


class Client:
    cannot: dict[str, str] = {}

    def __init__(self, bootstrap: str) -> None:
        self.config = {"bootstrap.servers": bootstrap, "broker.address.family": "v4"}
        self.admin = AdminClient(self.config)

    def create_topic(self, topic: str, partitions: int) -> None:
        self.admin.create_topics([NewTopic(topic, partitions, REPLICAS)])[topic].result(TIMEOUT_S)

    def delete_topic(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(TIMEOUT_S)

    def topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=TIMEOUT_S).topics)

    def producer(self, acks: int, codec: str, idempotent: bool) -> _Producer:
        return _Producer(
            {
                **self.config,
                "acks": acks,
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "linger.ms": 5,
                "message.max.bytes": 1_048_576,
            }
        )

    def offsets(self, topic: str, at: int) -> dict[int, int]:
        spec = {EARLIEST: OffsetSpec.earliest, LATEST: OffsetSpec.latest}.get(at, lambda: OffsetSpec.for_timestamp(at))()
        found = self.admin.list_offsets({TopicPartition(topic, p): spec for p in range(PARTITIONS)}, request_timeout=TIMEOUT_S)
        return {partition.partition: future.result().offset for partition, future in found.items()}

    def reader(self, topic: str, offsets: dict[int, int]) -> _Reader:
        reader = _Reader(self.config, "unused", **{"fetch.wait.max.ms": 100})
        reader.consumer.assign([TopicPartition(topic, p, offset) for p, offset in offsets.items()])
        return reader

    def member(self, group: str, topic: str, assignor: str) -> _Reader:
        reader = _Reader(
            self.config, group, **{"partition.assignment.strategy": assignor, "heartbeat.interval.ms": 300, "session.timeout.ms": 10_000}
        )
        reader.consumer.subscribe([topic])
        return reader

    def groups(self) -> set[str]:
        return {group.group_id for group in self.admin.list_consumer_groups(request_timeout=TIMEOUT_S).result().valid}

    def describe_group(self, group: str) -> tuple[str, int]:
        described = self.admin.describe_consumer_groups([group], request_timeout=TIMEOUT_S)[group].result()
        names = {ConsumerGroupState.STABLE: "Stable", ConsumerGroupState.EMPTY: "Empty"}
        return names.get(described.state, str(described.state)), len(described.members)

    def delete_group(self, group: str) -> None:
        self.admin.delete_consumer_groups([group], request_timeout=TIMEOUT_S)[group].result()
