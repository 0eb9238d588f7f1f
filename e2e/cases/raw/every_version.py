"""For each API a request that must succeed at every version, to see that each version has its own right layout.

`BENIGN[api](known, version)` returns the request's fields; `known` is what `bad_requests.prepare` returns.
"""

from .bad_requests import TOPIC, TOPIC_RESOURCE
from .batch import values_batch
from .client import unique

CLIENT = {"client_software_name": "raw", "client_software_version": "1"}
BY_ID = {"Produce": 13, "Fetch": 13, "OffsetCommit": 10, "OffsetFetch": 10}
MULTI_GROUP_OFFSET_FETCH = 8
BATCHED_FIND_COORDINATOR = 4
ONE = {"num_partitions": 1, "replication_factor": 1}


def _place(api, known, version, name="name"):
    return {"topic_id": known.topic_id} if version >= BY_ID[api] else {name: TOPIC}


def _produce(known, version):
    partition = {"index": 0, "records": values_batch(b"v%d" % version).encode()}
    return {"acks": -1, "timeout_ms": 5000, "topic_data": [{**_place("Produce", known, version), "partition_data": [partition]}]}


def _fetch(known, version):
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{**_place("Fetch", known, version, "topic"), "partitions": [partition]}]
    return {"max_wait_ms": 0, "min_bytes": 0, "topics": topics}


def _offset_commit(known, version):
    partition = {"partition_index": 0, "committed_offset": version, "committed_metadata": "m"}
    topics = [{**_place("OffsetCommit", known, version), "partitions": [partition]}]
    fields = {"group_id": "every-version", "member_id": "", "topics": topics, "retention_time_ms": -1}
    return {**fields, "generation_id_or_member_epoch": -1}


def _offset_fetch(known, version):
    topics = [{**_place("OffsetFetch", known, version), "partition_indexes": [0]}]
    if version >= MULTI_GROUP_OFFSET_FETCH:
        return {"groups": [{"group_id": "every-version", "topics": topics}]}
    return {"group_id": "every-version", "topics": topics}


def _find_coordinator(_, version):
    return {"coordinator_keys": ["g"]} if version >= BATCHED_FIND_COORDINATOR else {"key": "g"}


def _delete_topics(_, version):
    # A topic that is not there would be an error, and making one is CreateTopics' test: nothing to delete is enough.
    return {"topics": [], "timeout_ms": 5000} if version >= 6 else {"topic_names": [], "timeout_ms": 5000}


BENIGN = {
    "Produce": _produce,
    "Fetch": _fetch,
    "ListOffsets": lambda k, v: {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
    "Metadata": lambda k, v: {"topics": [{"name": TOPIC}]},
    "OffsetCommit": _offset_commit,
    "OffsetFetch": _offset_fetch,
    "FindCoordinator": _find_coordinator,
    "DescribeGroups": lambda k, v: {"groups": ["every-version"]},
    "ListGroups": lambda k, v: {},
    "ApiVersions": lambda k, v: CLIENT,
    "CreateTopics": lambda k, v: {"topics": [{"name": unique("every"), **ONE}], "timeout_ms": 10_000},
    "DeleteTopics": _delete_topics,
    "DeleteRecords": lambda k, v: {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout_ms": 5000},
    "InitProducerId": lambda k, v: {"transactional_id": None, "transaction_timeout_ms": 1000},
    "OffsetForLeaderEpoch": lambda k, v: {
        "replica_id": -1,
        "topics": [{"topic": TOPIC, "partitions": [{"partition": 0, "leader_epoch": 0}]}],
    },
    "DescribeConfigs": lambda k, v: {"resources": [{"resource_type": TOPIC_RESOURCE, "resource_name": TOPIC, "configuration_keys": None}]},
    "AlterConfigs": lambda k, v: {"resources": [{"resource_type": TOPIC_RESOURCE, "resource_name": TOPIC, "configs": []}]},
    "DescribeLogDirs": lambda k, v: {"topics": [{"topic": TOPIC, "partitions": [0]}]},
    "CreatePartitions": lambda k, v: {"topics": [], "timeout_ms": 5000},
    "DeleteGroups": lambda k, v: {"groups_names": []},
    "IncrementalAlterConfigs": lambda k, v: {"resources": [{"resource_type": TOPIC_RESOURCE, "resource_name": TOPIC, "configs": []}]},
    "OffsetDelete": lambda k, v: {"group_id": "every-version", "topics": []},
    "DescribeCluster": lambda k, v: {},
    "DescribeTopicPartitions": lambda k, v: {"topics": [{"name": TOPIC}], "response_partition_limit": 10},
}
