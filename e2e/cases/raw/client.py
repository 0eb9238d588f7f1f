"""What a test says in one line: make a topic, append, read, look up an offset, commit. One connection, no retries.

The versions are the newest that still name topics by name; tests about versions say theirs.
"""

import dataclasses
import itertools
import os
import uuid

from . import errors
from .batch import read_batches, values_batch
from .wait import eventually

CREATE_TOPICS, DELETE_TOPICS, METADATA = 7, 6, 13
PRODUCE, FETCH, LIST_OFFSETS = 12, 12, 11
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
ADMIN_TIMEOUT_MS = 15_000
PRODUCE_TIMEOUT_MS = 10_000
MAX_BYTES = 1 << 30

_names = itertools.count(1)


def unique(prefix):
    """A name that no other test has."""
    return f"{prefix}-{os.getpid()}-{next(_names)}"


@dataclasses.dataclass(frozen=True)
class Topic:
    name: str
    id: uuid.UUID


def as_configs(configs):
    return [{"name": name, "value": None if value is None else str(value)} for name, value in (configs or {}).items()]


class Client:
    """Requests with the fields that matter; each returns the part of the answer that matters."""

    def __init__(self, broker, **options):
        self.broker = broker
        self.connection = broker.connect(**options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def call(self, api, version, **fields):
        return self.connection.call(api, version, **fields)

    def reconnect(self):
        """A new socket, as after a restart of the broker."""
        self.connection.close()
        self.connection = self.broker.connect()

    # Topics

    def create(self, name, partitions=1, replicas=1, configs=None, validate_only=False, version=CREATE_TOPICS):
        """CreateTopics for one topic; the topic's result, whatever it is."""
        topic = {"name": name, "num_partitions": partitions, "replication_factor": replicas, "configs": as_configs(configs)}
        fields = {"topics": [topic], "timeout_ms": ADMIN_TIMEOUT_MS, "validate_only": validate_only}
        return self.call("CreateTopics", version, **fields).topics[0]

    def new_topic(self, prefix="t", partitions=1, **configs):
        """A new topic under a name of its own. Config names have `_` for `.` here."""
        name = unique(prefix)
        result = self.create(name, partitions, configs={k.replace("_", "."): v for k, v in configs.items()})
        assert result.error_code == errors.NONE, result
        self.wait_until_served(name, partitions)
        return Topic(name, result.topic_id)

    def wait_until_served(self, name, partitions=1):
        """Until every partition answers. Kafka shows a leader a moment before it serves; that ours does not has its own test."""
        for partition in range(partitions):
            eventually(lambda p=partition: self.list_offset(name, LATEST, p).error_code == errors.NONE, what=f"{name}-{partition}")

    def delete_topic(self, name):
        fields = {"topics": [{"name": name}], "timeout_ms": ADMIN_TIMEOUT_MS}
        return self.call("DeleteTopics", DELETE_TOPICS, **fields).responses[0].error_code

    def metadata(self, *names, create=False, version=METADATA):
        topics = [{"name": name} for name in names]
        return self.call("Metadata", version, topics=topics, allow_auto_topic_creation=create)

    def topic_metadata(self, name):
        return self.metadata(name).topics[0]

    def wait_for_topic(self, name):
        """The metadata of a topic once all its partitions have a leader."""

        def ready(topic):
            return topic.error_code == errors.NONE and all(p.leader_id >= 0 for p in topic.partitions)

        return eventually(lambda: self.topic_metadata(name), wanted=ready, what=f"a leader for {name}")

    # Records

    def produce(self, topic, batch, partition=0, acks=-1, version=PRODUCE, timeout_ms=PRODUCE_TIMEOUT_MS):
        """Appends `batch` (a `Batch` or bytes) and returns the partition's answer."""
        fields = produce_fields(topic, batch, partition, acks, timeout_ms)
        return self.call("Produce", version, **fields).responses[0].partition_responses[0]

    def append(self, topic, batch, partition=0, **options):
        """Appends what must succeed, and returns the base offset."""
        answer = self.produce(topic, batch, partition, **options)
        assert answer.error_code == errors.NONE, answer
        return answer.base_offset

    def append_values(self, topic, *values, partition=0, **fields):
        return self.append(topic, values_batch(*values, **fields), partition)

    def fetch(self, topic, offset=0, partition=0, version=FETCH, max_wait_ms=0, min_bytes=1, max_bytes=MAX_BYTES, **more):
        """Fetches from one partition, outside any session, and returns the partition's answer."""
        entry = fetch_partition(partition, offset, **more)
        topics = [{"topic": topic, "partitions": [entry]}]
        fields = {"max_wait_ms": max_wait_ms, "min_bytes": min_bytes, "max_bytes": max_bytes, "topics": topics}
        answer = self.call("Fetch", version, **fields)
        assert answer.get("error_code", 0) == errors.NONE, answer
        return answer.responses[0].partitions[0]

    def read(self, topic, offset=0, partition=0):
        """All batches from `offset` to the high watermark."""
        batches = []
        while True:
            answer = self.fetch(topic, offset, partition)
            assert answer.error_code == errors.NONE, answer
            got = read_batches(answer.records)
            if not got:
                assert offset >= answer.high_watermark, f"nothing at {offset} below {answer.high_watermark}"
                return batches
            batches += got
            offset = got[-1].next_offset

    def read_records(self, topic, offset=0, partition=0):
        """All records from `offset` on, as a consumer would hand them out."""
        return [r for b in self.read(topic, offset, partition) for r in b.records if r.offset >= offset]

    def read_values(self, topic, offset=0, partition=0):
        return [r.value for r in self.read_records(topic, offset, partition)]

    def list_offset(self, topic, timestamp, partition=0, version=LIST_OFFSETS, isolation_level=0):
        """The partition's answer to one offset lookup."""
        entry = {"partition_index": partition, "timestamp": timestamp}
        topics = [{"name": topic, "partitions": [entry]}]
        answer = self.call("ListOffsets", version, replica_id=-1, isolation_level=isolation_level, topics=topics)
        return answer.topics[0].partitions[0]

    def end_offset(self, topic, partition=0):
        return self._known_offset(topic, LATEST, partition)

    def start_offset(self, topic, partition=0):
        return self._known_offset(topic, EARLIEST, partition)

    def _known_offset(self, topic, timestamp, partition):
        answer = self.list_offset(topic, timestamp, partition)
        assert answer.error_code == errors.NONE, answer
        return answer.offset

    def delete_records(self, topic, offset, partition=0):
        """Moves the log start offset; the partition's answer."""
        topics = [{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}]
        return self.call("DeleteRecords", 2, topics=topics, timeout_ms=ADMIN_TIMEOUT_MS).topics[0].partitions[0]

    def producer_id(self):
        """A new producer id; its epoch is 0. A broker that has just started may have none yet."""

        def ask():
            answer = self.call("InitProducerId", 5, transactional_id=None, transaction_timeout_ms=1000)
            assert (answer.error_code, answer.producer_epoch) == (errors.NONE, 0), answer
            return answer

        return eventually(ask, what="a producer id").producer_id

    # Configs

    def describe_configs(self, kind, name, keys=None, version=4, **options):
        """name -> entry, for one resource that must be known."""
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        result = self.call("DescribeConfigs", version, resources=[resource], **options).results[0]
        assert result.error_code == errors.NONE, result
        return {entry.name: entry for entry in result.configs}

    def alter_configs(self, kind, name, *changes, validate_only=False):
        """IncrementalAlterConfigs; a change is (key, operation, value). The resource's error code."""
        configs = [{"name": k, "config_operation": o, "value": v} for k, o, v in changes]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        answer = self.call("IncrementalAlterConfigs", 1, resources=[resource], validate_only=validate_only)
        return answer.responses[0].error_code


def produce_fields(topic, batch, partition=0, acks=-1, timeout_ms=PRODUCE_TIMEOUT_MS):
    """A Produce request for one partition of a topic that is named by name, or by id (a `uuid.UUID`)."""
    records = batch if isinstance(batch, bytes | None) else batch.encode()
    place = {"topic_id": topic} if isinstance(topic, uuid.UUID) else {"name": topic}
    data = [{**place, "partition_data": [{"index": partition, "records": records}]}]
    return {"acks": acks, "timeout_ms": timeout_ms, "topic_data": data}


def fetch_partition(partition=0, offset=0, partition_max_bytes=MAX_BYTES, **more):
    """A partition's entry in a Fetch request."""
    return {"partition": partition, "fetch_offset": offset, "partition_max_bytes": partition_max_bytes, **more}
