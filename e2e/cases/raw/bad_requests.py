"""A table of requests that a broker must refuse, and how to write down what it answered.

`golden/generate.py` asks Apache Kafka and keeps the answers in `golden/error_codes.json`; `test_protocol.py` asks the broker
under test and compares. The table needs the topics that `prepare` makes, and changes nothing that it does not make.
"""

import dataclasses
import uuid

from .batch import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, Batch, Record, now_ms, values_batch
from .connection import Connection, ConnectionClosed
from .wait import eventually

TOPIC = "bad-requests"
COMPACTED_TOPIC = "bad-requests-compacted"
GROUP = "bad-requests-group"
UNKNOWN_GROUP = "no-such-group"
UNKNOWN_ID = uuid.UUID("11111111-2222-3333-4444-555555555555")
ZERO_ID = uuid.UUID(int=0)
HOUR_MS = 3_600_000
CONNECTION_CLOSED = "connection closed"


@dataclasses.dataclass(frozen=True)
class Known:
    """What the table needs to know of the cluster: the id of `TOPIC`, and of its only broker."""

    topic_id: uuid.UUID
    node_id: int


@dataclasses.dataclass(frozen=True)
class BadRequest:
    """A request by its fields; `fields` is called with what differs from run to run (`Known`)."""

    name: str
    api: str
    version: int
    fields: object


def prepare(address):
    """Makes the topics that the table names and waits for the coordinator of `GROUP`; returns what is `Known`."""
    with Connection(address) as connection:
        one = {"num_partitions": 1, "replication_factor": 1}
        compacted = {**one, "configs": [{"name": "cleanup.policy", "value": "compact"}]}
        topics = [{"name": TOPIC, **one}, {"name": COMPACTED_TOPIC, **compacted}]
        connection.call("CreateTopics", 7, topics=topics, timeout_ms=10_000)
        eventually(lambda: _coordinator_error(connection), wanted=lambda code: code == 0, what="a group coordinator")
        eventually(lambda: _producer_id_error(connection), wanted=lambda code: code == 0, what="producer ids")
        metadata = connection.call("Metadata", 12, topics=[{"name": TOPIC}])
        return Known(metadata.topics[0].topic_id, metadata.brokers[0].node_id)


def _coordinator_error(connection):
    for group in (GROUP, ""):
        code = connection.call("FindCoordinator", 4, key_type=0, coordinator_keys=[group]).coordinators[0].error_code
        code = code or connection.call("DescribeGroups", 5, groups=[group]).groups[0].error_code
        if code:
            return code
    return 0


def _producer_id_error(connection):
    return connection.call("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1000).error_code


def answer(address, request, known):
    """What the broker says: `{path: code}` for each error code in the answer, or that the connection was closed."""
    with Connection(address) as connection:
        try:
            reply = connection.call(request.api, request.version, **request.fields(known))
        except ConnectionClosed:
            return CONNECTION_CLOSED
        return dict(error_codes(reply))


def error_codes(value, path=""):
    """(path, code) of every error code inside a decoded answer, depth first."""
    if isinstance(value, dict):
        for name, entry in value.items():
            here = f"{path}.{name}" if path else name
            if name.endswith("error_code"):
                yield here, entry
            else:
                yield from error_codes(entry, here)
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from error_codes(entry, f"{path}[{index}]")


TABLE = []


def _short(name):
    return repr(name) if len(name) < 20 else f"of {len(name)} characters"


def _add(name, api, version, fields):
    TABLE.append(BadRequest(name, api, version, fields if callable(fields) else lambda _: fields))


# Produce


def _produce_fields(records, topic=TOPIC, partition=0, acks=-1, **more):
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    return {"acks": acks, "timeout_ms": 5000, "topic_data": data, **more}


def _add_produce(name, batch, version=11, **more):
    """`batch` is made when asked for, since its timestamps must be of then."""

    def fields(_):
        records = batch().encode() if callable(batch) else batch
        return _produce_fields(records, **more)

    _add(f"produce {name}", "Produce", version, fields)


def _one():
    return values_batch(b"one")


def _batch(**fields):
    return lambda: values_batch(b"one", b"two", **fields)


_add_produce("to an unknown topic", _one, topic="no-such-topic")
_add_produce("to an unknown partition", _one, partition=7)
_add_produce("to a negative partition", _one, partition=-1)
_add_produce("to a topic with a bad name", _one, topic="no such topic")
_add_produce("with acks 2", _one, acks=2)
_add_produce("with acks -2", _one, acks=-2)
_add_produce("with a wrong CRC", _batch(crc=1))
_add_produce("with magic 3", _batch(magic=3))
_add_produce("with magic 1", _batch(magic=1))
_add_produce("with magic 0", _batch(magic=0))
_add_produce("with a length that is too long", _batch(length=4000))
_add_produce("with a length that is too short", _batch(length=20))
_add_produce("with a negative length", _batch(length=-1))
_add_produce("with empty records", b"")
_add_produce("with half a header", b"\x00" * 30)
_add_produce("with two batches", lambda: _Raw(_one().encode() + _one().encode()))
_add_produce("with a batch without records", lambda: Batch([], record_count=0, last_offset_delta=0))
_add_produce("with a record count above the records", _batch(record_count=3))
_add_produce("with a record count below the records", _batch(record_count=1))
_add_produce("with a record count of 2^31-1", _batch(record_count=2**31 - 1))
_add_produce("with count and delta of 2^31-1", _batch(record_count=2**31 - 1, last_offset_delta=2**31 - 2))
_add_produce("with a negative record count", _batch(record_count=-1))
_add_produce("with a wrong last offset delta", _batch(last_offset_delta=5))
_add_produce("with a negative last offset delta", _batch(last_offset_delta=-1))
_add_produce("with record offsets that jump", lambda: Batch([Record(b"a", offset=0), Record(b"b", offset=2)]))
_add_produce("with a control batch", _batch(attributes=CONTROL))
_add_produce("with the log append time bit", _batch(attributes=LOG_APPEND_TIME))
_add_produce("with codec 5", _batch(attributes=5))
_add_produce("with codec 7", _batch(attributes=7))
_add_produce("with a transactional batch but no transactional id", _batch(attributes=TRANSACTIONAL))
_add_produce("with a producer id and no sequence", _batch(producer_id=1000, producer_epoch=0))
_add_produce("with a producer id and a negative epoch", _batch(producer_id=1000, producer_epoch=-1, base_sequence=0))
_add_produce("with zstd at version 6", _batch(codec=4), version=6)
_add_produce("without a key to a compacted topic", _one, topic=COMPACTED_TOPIC)
_add_produce("with a time two hours ahead", lambda: Batch([Record(b"x", timestamp=now_ms() + 2 * HOUR_MS)]))
_add_produce("with a negative time", lambda: Batch([Record(b"x", timestamp=-5)]))
_add_produce("with a batch above max.message.bytes", lambda: values_batch(b"x" * (1 << 20)))
_add("produce to an unknown topic id", "Produce", 13, lambda _: _produce_by_id(UNKNOWN_ID))
_add("produce to the zero topic id", "Produce", 13, lambda _: _produce_by_id(ZERO_ID))
_add("produce to an unknown partition by id", "Produce", 13, lambda known: _produce_by_id(known.topic_id, 7))
_add("produce at version 2", "Produce", 2, _produce_fields(b""))


class _Raw:
    """Bytes that pass for a batch."""

    def __init__(self, data):
        self.data = data

    def encode(self):
        return self.data


def _produce_by_id(topic_id, partition=0):
    data = [{"topic_id": topic_id, "partition_data": [{"index": partition, "records": _one().encode()}]}]
    return {"acks": -1, "timeout_ms": 5000, "topic_data": data}


# Fetch


def _fetch(topic=TOPIC, partition=0, offset=0, topic_id=ZERO_ID, more=None, **top):
    entry = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **(more or {})}
    return {"max_wait_ms": 10, "min_bytes": 0, "topics": [{"topic": topic, "topic_id": topic_id, "partitions": [entry]}], **top}


_add("fetch an unknown topic", "Fetch", 12, _fetch(topic="no-such-topic"))
_add("fetch a topic with a bad name", "Fetch", 12, _fetch(topic="no such topic"))
_add("fetch an unknown partition", "Fetch", 12, _fetch(partition=7))
_add("fetch an unknown topic id", "Fetch", 13, _fetch(topic_id=UNKNOWN_ID))
_add("fetch the zero topic id", "Fetch", 13, _fetch())
_add("fetch an unknown partition by id", "Fetch", 13, lambda known: _fetch(topic_id=known.topic_id, partition=7))
_add("fetch past the end", "Fetch", 12, _fetch(offset=1 << 40))
_add("fetch a negative offset", "Fetch", 12, _fetch(offset=-1))
_add("fetch with a newer leader epoch", "Fetch", 12, _fetch(more={"current_leader_epoch": 99}))
_add("fetch past the end with a newer leader epoch", "Fetch", 12, _fetch(offset=1 << 40, more={"current_leader_epoch": 99}))
_add("fetch in an unknown session", "Fetch", 12, _fetch(session_id=12345, session_epoch=1))
_add("fetch in an unknown session at epoch 0", "Fetch", 12, _fetch(session_id=12345, session_epoch=0))
_add("close an unknown fetch session", "Fetch", 12, _fetch(session_id=12345, session_epoch=-1))
_add("fetch as an unknown replica", "Fetch", 12, _fetch(replica_id=77))
_add("fetch at version 3", "Fetch", 3, _fetch())


# ListOffsets, OffsetForLeaderEpoch


def _list_offsets(*entries, topic=TOPIC, **top):
    partitions = [{"partition_index": 0, "timestamp": -1, **e} for e in entries or ({},)]
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": partitions}], **top}


_add("list offsets of an unknown topic", "ListOffsets", 7, _list_offsets(topic="no-such-topic"))
_add("list offsets of a topic with a bad name", "ListOffsets", 7, _list_offsets(topic="no such topic"))
_add("list offsets of an unknown partition", "ListOffsets", 7, _list_offsets({"partition_index": 7}))
_add("list offsets of one partition twice", "ListOffsets", 7, _list_offsets({}, {}))
_add("list offsets with a newer leader epoch", "ListOffsets", 7, _list_offsets({"current_leader_epoch": 99}))
for _timestamp, _version in ((-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11), (-100, 11)):
    _add(
        f"list offsets at timestamp {_timestamp} and version {_version}", "ListOffsets", _version, _list_offsets({"timestamp": _timestamp})
    )
for _timestamp in (-4, -5, -6):
    _add(f"list offsets at timestamp {_timestamp} without tiered storage", "ListOffsets", 11, _list_offsets({"timestamp": _timestamp}))


def _epoch_end(topic=TOPIC, partition=0, **more):
    entry = {"partition": partition, "leader_epoch": 0, **more}
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": [entry]}]}


_add("end of epoch of an unknown topic", "OffsetForLeaderEpoch", 4, _epoch_end(topic="no-such-topic"))
_add("end of epoch of an unknown partition", "OffsetForLeaderEpoch", 4, _epoch_end(partition=7))
_add("end of epoch with a newer leader epoch", "OffsetForLeaderEpoch", 4, _epoch_end(current_leader_epoch=99))
_add("end of an unknown epoch", "OffsetForLeaderEpoch", 4, _epoch_end(leader_epoch=99))


# Metadata and finding brokers


def _metadata(*topics, create=False):
    return {"topics": list(topics), "allow_auto_topic_creation": create}


_add("metadata of an unknown topic", "Metadata", 12, _metadata({"name": "no-such-topic"}))
_add("metadata of an unknown topic id", "Metadata", 12, _metadata({"name": None, "topic_id": UNKNOWN_ID}))
_add("metadata of an unknown topic id, creation allowed", "Metadata", 12, _metadata({"name": None, "topic_id": UNKNOWN_ID}, create=True))
_add("metadata with neither name nor id", "Metadata", 12, _metadata({"name": None}))
_add("metadata with a null name at version 10", "Metadata", 10, _metadata({"name": None}))
_add("metadata with name and id", "Metadata", 12, lambda known: _metadata({"name": TOPIC, "topic_id": known.topic_id}))
for _name in ("", ".", "..", "../x", "a/b", "a b", "ä", "x" * 250):
    _add(f"metadata of topic {_short(_name)}", "Metadata", 12, _metadata({"name": _name}))
    _add(f"metadata of topic {_short(_name)}, creation allowed", "Metadata", 12, _metadata({"name": _name}, create=True))
_add("find coordinator of type 9", "FindCoordinator", 4, {"key_type": 9, "coordinator_keys": ["g"]})
_add("find coordinator of type 9 at version 1", "FindCoordinator", 1, {"key_type": 9, "key": "g"})
_add("find coordinator of the empty group", "FindCoordinator", 4, {"key_type": 0, "coordinator_keys": [""]})
_add("find coordinator of the empty group at version 3", "FindCoordinator", 3, {"key_type": 0, "key": ""})
_add("find coordinator of no group", "FindCoordinator", 4, {"key_type": 0, "coordinator_keys": []})
_add("describe the cluster's controllers at a broker", "DescribeCluster", 1, {"endpoint_type": 2})
_add("describe endpoints of type 9", "DescribeCluster", 1, {"endpoint_type": 9})
_add(
    "describe partitions of an unknown topic",
    "DescribeTopicPartitions",
    0,
    {"topics": [{"name": "no-such-topic"}], "response_partition_limit": 10},
)
_add(
    "describe partitions of a topic with a bad name",
    "DescribeTopicPartitions",
    0,
    {"topics": [{"name": "a b"}], "response_partition_limit": 10},
)
_add("describe partitions with limit 0", "DescribeTopicPartitions", 0, {"topics": [{"name": TOPIC}], "response_partition_limit": 0})
_add(
    "describe partitions from a negative one",
    "DescribeTopicPartitions",
    0,
    {"topics": [{"name": TOPIC}], "response_partition_limit": 10, "cursor": {"topic_name": TOPIC, "partition_index": -1}},
)
_add("log directories of an unknown topic", "DescribeLogDirs", 4, {"topics": [{"topic": "no-such-topic", "partitions": [0]}]})

# Handshake

_CLIENT = {"client_software_name": "raw", "client_software_version": "1"}
_add("versions with a bad client name", "ApiVersions", 3, {**_CLIENT, "client_software_name": "r w"})
_add("versions with an empty client name", "ApiVersions", 3, {**_CLIENT, "client_software_name": ""})
_add("versions with a bad client version", "ApiVersions", 3, {**_CLIENT, "client_software_version": "1 2"})
_add(
    "versions for another cluster",
    "ApiVersions",
    5,
    lambda known: {**_CLIENT, "cluster_id": "AAAAAAAAAAAAAAAAAAAAAA", "node_id": known.node_id},
)
_add("versions for another cluster and any node", "ApiVersions", 5, {**_CLIENT, "cluster_id": "AAAAAAAAAAAAAAAAAAAAAA"})
_add("versions for another node and any cluster", "ApiVersions", 5, {**_CLIENT, "node_id": 4711})
for _version in (0, 1):
    _add(f"SASL handshake at version {_version}", "SaslHandshake", _version, {"mechanism": "PLAIN"})
_add("SASL handshake with an unknown mechanism", "SaslHandshake", 1, {"mechanism": "NO-SUCH"})

# Groups

_JOIN = {
    "group_id": GROUP,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "member_id": "",
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b""}],
}
_add("join the empty group", "JoinGroup", 5, {**_JOIN, "group_id": ""})
_add("join without a member id", "JoinGroup", 4, _JOIN)
_add("join with an unknown member id", "JoinGroup", 5, {**_JOIN, "member_id": "stranger"})
_add("join with a session timeout too short", "JoinGroup", 5, {**_JOIN, "session_timeout_ms": 1})
_add("join with a session timeout too long", "JoinGroup", 5, {**_JOIN, "session_timeout_ms": 2**31 - 1})
_add("join without protocols", "JoinGroup", 3, {**_JOIN, "protocols": []})
_add("join without a protocol type", "JoinGroup", 3, {**_JOIN, "protocol_type": ""})
_SYNC = {"group_id": UNKNOWN_GROUP, "generation_id": 1, "member_id": "stranger", "assignments": []}
_MEMBER = {"group_id": UNKNOWN_GROUP, "generation_id": 1, "member_id": "stranger"}
_add("sync in an unknown group", "SyncGroup", 3, _SYNC)
_add("sync in the empty group", "SyncGroup", 3, {**_SYNC, "group_id": ""})
_add("sync with an instance id in an unknown group", "SyncGroup", 3, {**_SYNC, "group_instance_id": "i"})
_add("heartbeat in an unknown group", "Heartbeat", 3, _MEMBER)
_add("heartbeat in the empty group", "Heartbeat", 3, {**_MEMBER, "group_id": ""})
_add("leave an unknown group", "LeaveGroup", 1, {"group_id": UNKNOWN_GROUP, "member_id": "stranger"})
_add("leave an unknown group at version 3", "LeaveGroup", 3, {"group_id": UNKNOWN_GROUP, "members": [{"member_id": "stranger"}]})
_add(
    "leave an unknown group by instance id",
    "LeaveGroup",
    3,
    {"group_id": UNKNOWN_GROUP, "members": [{"member_id": "", "group_instance_id": "i"}]},
)
_add("leave the empty group", "LeaveGroup", 3, {"group_id": "", "members": [{"member_id": "stranger"}]})
for _version in (0, 5, 6):
    _add(f"describe an unknown group at version {_version}", "DescribeGroups", _version, {"groups": [UNKNOWN_GROUP]})
_add("describe the empty group", "DescribeGroups", 5, {"groups": [""]})
for _version in (0, 2, 3):
    _add(f"delete an unknown group at version {_version}", "DeleteGroups", _version, {"groups_names": [UNKNOWN_GROUP]})
_add("delete the empty group", "DeleteGroups", 2, {"groups_names": [""]})


def _commit(group=GROUP + "-commits", topic=TOPIC, partition=0, offset=0, topic_id=ZERO_ID, metadata="", **top):
    entry = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
    topics = [{"name": topic, "topic_id": topic_id, "partitions": [entry]}]
    return {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics, **top}


_add("commit for an unknown topic", "OffsetCommit", 8, _commit(topic="no-such-topic"))
_add("commit for an unknown partition", "OffsetCommit", 8, _commit(partition=7))
_add("commit with metadata that is too large", "OffsetCommit", 8, _commit(metadata="m" * 5000))
_add(
    "commit as a stranger to an unknown group",
    "OffsetCommit",
    8,
    _commit(UNKNOWN_GROUP, generation_id_or_member_epoch=5, member_id="stranger"),
)
_add("commit for an unknown topic id", "OffsetCommit", 10, _commit(topic_id=UNKNOWN_ID))
_add("commit for the zero topic id", "OffsetCommit", 10, _commit())


def _offset_fetch(group, topic, topic_id=ZERO_ID, **more):
    topics = [{"name": topic, "topic_id": topic_id, "partition_indexes": [0]}]
    return {"groups": [{"group_id": group, "topics": topics, **more}]}


_add("fetch offsets of an unknown group", "OffsetFetch", 8, _offset_fetch(UNKNOWN_GROUP, TOPIC))
_add("fetch offsets of the empty group", "OffsetFetch", 8, _offset_fetch("", TOPIC))
_add("fetch offsets of an unknown topic", "OffsetFetch", 8, _offset_fetch(UNKNOWN_GROUP, "no-such-topic"))
_add("fetch offsets of an unknown topic id", "OffsetFetch", 10, _offset_fetch(UNKNOWN_GROUP, "", UNKNOWN_ID))
_add("fetch offsets as a stranger", "OffsetFetch", 9, _offset_fetch(UNKNOWN_GROUP, TOPIC, member_id="stranger", member_epoch=3))


def _offset_delete(group, topic=TOPIC):
    return {"group_id": group, "topics": [{"name": topic, "partitions": [{"partition_index": 0}]}]}


_add("delete offsets of an unknown group", "OffsetDelete", 0, _offset_delete(UNKNOWN_GROUP))
_add("delete offsets of the empty group", "OffsetDelete", 0, _offset_delete(""))


# Topics


def _create(name, partitions=1, replicas=1, configs=None, assignments=()):
    topic = {"name": name, "num_partitions": partitions, "replication_factor": replicas}
    topic["configs"] = [{"name": k, "value": v} for k, v in (configs or {}).items()]
    topic["assignments"] = [{"partition_index": i, "broker_ids": b} for i, b in assignments]
    return topic


def _add_create(name, *topics, validate_only=False):
    _add(f"create {name}", "CreateTopics", 7, {"topics": list(topics), "timeout_ms": 10_000, "validate_only": validate_only})


for _name in ("", ".", "..", "../x", "a/b", "a b", "ä", "x" * 250, "a\x00b", "a\nb"):
    _add_create(f"topic {_short(_name)}", _create(_name))
_add_create("a topic that exists", _create(TOPIC))
_add_create("a topic that exists, validating only", _create(TOPIC), validate_only=True)
_add_create("a topic twice", _create("twice"), _create("twice"))
_add_create("a topic of 0 partitions", _create("bad-partitions", partitions=0))
_add_create("a topic of -2 partitions", _create("bad-partitions", partitions=-2))
_add_create("a topic with replication factor 0", _create("bad-replicas", replicas=0))
_add_create("a topic with replication factor 2", _create("bad-replicas", replicas=2))
_add_create("a topic with replication factor -2", _create("bad-replicas", replicas=-2))
_add_create("a topic with count and assignment", _create("bad-assignment", assignments=[(0, [1])]))
_add_create("a topic on an unknown broker", _create("bad-assignment", -1, -1, assignments=[(0, [77])]))
_add_create("a topic on one broker twice", _create("bad-assignment", -1, -1, assignments=[(0, [1, 1])]))
_add_create("a topic on no broker", _create("bad-assignment", -1, -1, assignments=[(0, [])]))
_add_create("a topic without partition 0", _create("bad-assignment", -1, -1, assignments=[(1, [1])]))
for _key, _value in (
    ("no.such.key", "1"),
    ("retention.ms", "soon"),
    ("retention.ms", "-2"),
    ("retention.ms", None),
    ("segment.bytes", "1"),
    ("cleanup.policy", "shred"),
    ("cleanup.policy", ""),
    ("compression.type", "rar"),
    ("message.timestamp.type", "Tuesday"),
    ("min.insync.replicas", "0"),
    ("min.cleanable.dirty.ratio", "1.5"),
    ("preallocate", "maybe"),
    ("max.message.bytes", "-1"),
    ("segment.bytes", "1.5"),
    ("segment.bytes", str(2**31)),
    ("log.retention.ms", "1000"),
    ("compression.gzip.level", "0"),
    ("compression.zstd.level", "99"),
    ("message.timestamp.before.max.ms", "-1"),
    ("unclean.leader.election.enable", "yes"),
    ("remote.storage.enable", "true"),
    ("message.format.version", "3.0"),
):
    _add_create(f"a topic with {_key}={_value}", _create("bad-config", configs={_key: _value}), validate_only=True)
_add("delete an unknown topic", "DeleteTopics", 5, {"topic_names": ["no-such-topic"], "timeout_ms": 5000})
_add("delete a topic with a bad name", "DeleteTopics", 5, {"topic_names": ["a b"], "timeout_ms": 5000})
_add("delete an unknown topic id", "DeleteTopics", 6, {"topics": [{"name": None, "topic_id": UNKNOWN_ID}], "timeout_ms": 5000})
_add(
    "delete a topic by name and id",
    "DeleteTopics",
    6,
    lambda known: {"topics": [{"name": TOPIC, "topic_id": known.topic_id}], "timeout_ms": 5000},
)
_add("delete a topic by neither name nor id", "DeleteTopics", 6, {"topics": [{"name": None}], "timeout_ms": 5000})
_add(
    "delete an unknown topic twice",
    "DeleteTopics",
    6,
    {"topics": [{"name": "no-such-topic"}, {"name": "no-such-topic"}], "timeout_ms": 5000},
)


def _grow(name, count, assignments=None):
    topic = {"name": name, "count": count, "assignments": assignments}
    return {"topics": [topic], "timeout_ms": 5000, "validate_only": False}


_add("grow an unknown topic", "CreatePartitions", 3, _grow("no-such-topic", 3))
_add("grow a topic to the same count", "CreatePartitions", 3, _grow(TOPIC, 1))
_add("grow a topic to fewer", "CreatePartitions", 3, _grow(TOPIC, 0))
_add("grow a topic with too few assignments", "CreatePartitions", 3, _grow(TOPIC, 3, [{"broker_ids": [1]}]))
_add("grow a topic onto an unknown broker", "CreatePartitions", 3, _grow(TOPIC, 2, [{"broker_ids": [77]}]))


def _delete_records(offset, topic=TOPIC, partition=0):
    return {"topics": [{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}], "timeout_ms": 5000}


_add("delete records of an unknown topic", "DeleteRecords", 2, _delete_records(0, "no-such-topic"))
_add("delete records of an unknown partition", "DeleteRecords", 2, _delete_records(0, partition=7))
_add("delete records past the end", "DeleteRecords", 2, _delete_records(1 << 40))
_add("delete records before -2", "DeleteRecords", 2, _delete_records(-2))
_add("delete records of a compacted topic", "DeleteRecords", 2, _delete_records(0, COMPACTED_TOPIC))

# Configs

TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def _describe(kind, name, keys=None):
    return {"resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}]}


_add("describe configs of an unknown topic", "DescribeConfigs", 4, _describe(TOPIC_RESOURCE, "no-such-topic"))
_add("describe configs of a topic with a bad name", "DescribeConfigs", 4, _describe(TOPIC_RESOURCE, "a b"))
_add("describe configs of the empty topic", "DescribeConfigs", 4, _describe(TOPIC_RESOURCE, ""))
_add("describe configs of an unknown broker", "DescribeConfigs", 4, _describe(BROKER_RESOURCE, "77"))
_add("describe configs of a broker that is no number", "DescribeConfigs", 4, _describe(BROKER_RESOURCE, "one"))
_add("describe loggers of an unknown broker", "DescribeConfigs", 4, _describe(LOGGER_RESOURCE, "77"))
_add("describe loggers of every broker", "DescribeConfigs", 4, _describe(LOGGER_RESOURCE, ""))
_add("describe configs of type 99", "DescribeConfigs", 4, _describe(99, "x"))
_add("describe configs of type 0", "DescribeConfigs", 4, _describe(0, "x"))


def _alter(kind, name, *changes):
    configs = [{"name": n, "config_operation": o, "value": v} for n, o, v in changes]
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}], "validate_only": False}


def _add_alter(name, *arguments):
    _add(f"alter {name}", "IncrementalAlterConfigs", 1, _alter(*arguments))


_add_alter("an unknown topic", TOPIC_RESOURCE, "no-such-topic", ("retention.ms", SET, "1000"))
_add_alter("a topic with a bad name", TOPIC_RESOURCE, "a b", ("retention.ms", SET, "1000"))
_add_alter("an unknown broker", BROKER_RESOURCE, "77", ("log.cleaner.threads", SET, "2"))
_add_alter("a broker that is no number", BROKER_RESOURCE, "one", ("log.cleaner.threads", SET, "2"))
_add_alter("type 99", 99, "x", ("retention.ms", SET, "1000"))
_add_alter("an unknown key", TOPIC_RESOURCE, TOPIC, ("no.such.key", SET, "1"))
_add_alter("a key to a bad value", TOPIC_RESOURCE, TOPIC, ("retention.ms", SET, "soon"))
_add_alter("a key to null", TOPIC_RESOURCE, TOPIC, ("retention.ms", SET, None))
_add_alter("a key twice", TOPIC_RESOURCE, TOPIC, ("retention.ms", SET, "1000"), ("retention.ms", SET, "2000"))
_add_alter("a number by append", TOPIC_RESOURCE, TOPIC, ("retention.ms", APPEND, "1000"))
_add_alter("a number by subtract", TOPIC_RESOURCE, TOPIC, ("retention.ms", SUBTRACT, "1000"))
_add_alter("a list by appending a bad word", TOPIC_RESOURCE, TOPIC, ("cleanup.policy", APPEND, "shred"))
_add_alter("by operation 9", TOPIC_RESOURCE, TOPIC, ("retention.ms", 9, "1000"))
_add_alter("a read-only key of all brokers", BROKER_RESOURCE, "", ("process.roles", SET, "broker"))
_add_alter("a key of all brokers to a bad value", BROKER_RESOURCE, "", ("log.retention.ms", SET, "soon"))


def _alter_whole(name, *configs):
    entries = [{"name": n, "value": v} for n, v in configs]
    return {"resources": [{"resource_type": TOPIC_RESOURCE, "resource_name": name, "configs": entries}], "validate_only": False}


_add("replace configs of an unknown topic", "AlterConfigs", 2, _alter_whole("no-such-topic", ("retention.ms", "1000")))
_add("replace configs by an unknown key", "AlterConfigs", 2, _alter_whole(TOPIC, ("no.such.key", "1")))
_add("replace configs by a bad value", "AlterConfigs", 2, _alter_whole(TOPIC, ("retention.ms", "soon")))
_add("replace configs by null", "AlterConfigs", 2, _alter_whole(TOPIC, ("retention.ms", None)))

# Producer ids

_add("producer id for the empty transactional id", "InitProducerId", 4, {"transactional_id": "", "transaction_timeout_ms": 1000})
_add("producer id with id and no epoch", "InitProducerId", 4, {"transactional_id": None, "producer_id": 5, "producer_epoch": -1})
_add("producer id with epoch and no id", "InitProducerId", 4, {"transactional_id": None, "producer_id": -1, "producer_epoch": 5})
_add("producer id with id and epoch", "InitProducerId", 4, {"transactional_id": None, "producer_id": 5, "producer_epoch": 5})
