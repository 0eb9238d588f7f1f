"""What must be refused by name and change nothing: a disk of another cluster, stale epochs, forged followers, factors and moves that
cannot be, calls of absurd size. Real sockets and real processes."""

import contextlib
import socket
import struct

import pytest

from cluster.node import ControllerNode
from raw import errors
from raw.batch import values_batch
from raw.broker import free_ports
from raw.client import Client, fetch_partition, unique
from raw.sessions import FETCH_BY_ID
from raw.wait import eventually

PARTITIONS = 3
ENDS_TIMEOUT_S = 30
ANSWER_TIMEOUT_S = 10
NO_REASSIGNMENT_IN_PROGRESS = 85
REASSIGN = 0
TOLD_MAX_KIB = 64 << 10


@pytest.fixture
def standing(cluster):
    """Everything that a broker tells of the topics, before and after."""
    topic = cluster.new_topic(partitions=PARTITIONS)
    with Client(cluster.leader(topic)) as client:
        client.append_values(topic, *[b"%d" % number for number in range(20)])

    def told():
        answer = cluster.metadata()
        return [
            (t.name, p.partition_index, p.leader_id, p.leader_epoch, tuple(p.replica_nodes), tuple(sorted(p.isr_nodes)))
            for t in sorted(answer.topics, key=lambda t: t.name)
            for p in sorted(t.partitions, key=lambda p: p.partition_index)
        ]

    cluster.wait_until_in_sync()
    before = told()
    yield topic
    cluster.wait_until_in_sync()
    assert told() == before
    with Client(cluster.leader(topic)) as client:
        assert client.end_offset(topic) == 20


def test_a_controller_on_a_disk_of_another_cluster_says_whose_it_is_and_leaves_it_alone(cluster, new_cluster):
    theirs = new_cluster(brokers=0, controllers=1)
    theirs.start()
    theirs.stop()
    ports = free_ports(2)
    stranger = ControllerNode(101, cluster.settings, cluster.folder / "stranger", *ports)
    stranger.data_folder = theirs.controllers[0].data_folder
    before = {path: path.read_bytes() for path in stranger.data_folder.rglob("*.properties")}
    stranger.launch([*cluster.servers, stranger.server], "--cluster-id", cluster.cluster_id, "--bootstrap")
    assert stranger.process.wait(ENDS_TIMEOUT_S) == 1, stranger.log_text()
    said = stranger.log_text()
    assert f"belongs to cluster {theirs.cluster_id}, not {cluster.cluster_id}" in said, said[-2000:]
    assert {path: path.read_bytes() for path in stranger.data_folder.rglob("*.properties")} == before
    assert cluster.voters() == {101, 102, 103}


def test_stale_and_future_epochs_are_fenced(cluster, standing):
    leader = cluster.leader(standing)
    epoch = cluster.partitions(standing)[0].leader_epoch
    cases = [(epoch - 1, errors.FENCED_LEADER_EPOCH), (epoch + 1, errors.UNKNOWN_LEADER_EPOCH), (epoch, errors.NONE)]
    with Client(leader) as client:
        for named, code in cases:
            if named < 0:
                continue
            assert client.fetch(standing, current_leader_epoch=named).error_code == code, named
            entry = {"partition": 0, "current_leader_epoch": named, "leader_epoch": epoch}
            topics = [{"topic": standing, "partitions": [entry]}]
            answer = client.call("OffsetForLeaderEpoch", 4, replica_id=-1, topics=topics)
            assert answer.topics[0].partitions[0].error_code == code, named


def test_forged_fetches_of_followers_move_nothing(cluster, standing):
    """A follower that keeps no replica, one that is the leader itself, one of an earlier life, one that does not exist."""
    lonely = cluster.new_topic(prefix="lonely", partitions=1, replicas=1)
    leader = cluster.leader(lonely)
    other = next(node for node in cluster.brokers if node is not leader)
    with Client(leader) as client:
        client.append_values(lonely, b"mine")
        topic_id = client.topic_metadata(lonely).topic_id
        replicated = client.topic_metadata(standing).topic_id
        far = 1 << 62

        def fetch(topic, replica, epoch, partition=0, offset=20):
            entry = fetch_partition(partition, offset)
            answer = client.call(
                "Fetch",
                FETCH_BY_ID,
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1 << 20,
                session_epoch=-1,
                replica_state={"replica_id": replica, "replica_epoch": epoch},
                topics=[{"topic_id": topic, "partitions": [entry]}],
            )
            return answer.responses[0].partitions[0]

        for replica, epoch in [(other.number, far), (leader.number, far), (77, far), (other.number, -1), (other.number, 0)]:
            answer = fetch(topic_id, replica, epoch, offset=1)
            assert answer.error_code == errors.NOT_LEADER_OR_FOLLOWER, (replica, epoch, answer)
            assert not answer.records
        # Of a partition that it does keep: an earlier life of it is not heard, and the end of the log is the end for all.
        led = next(p for p in range(PARTITIONS) if cluster.leader(standing, p) is leader)
        assert fetch(replicated, other.number, 0, led).error_code == errors.NOT_LEADER_OR_FOLLOWER
        assert fetch(replicated, other.number, far, led, offset=1 << 40).error_code == errors.OFFSET_OUT_OF_RANGE
        assert client.end_offset(lonely) == 1
    cluster.delete_topic(lonely)


@pytest.mark.parametrize("replicas", [4, 0, -2, 32767])
def test_a_replication_factor_that_cannot_be_is_refused(cluster, standing, replicas):
    name = unique("factor")
    with cluster.client() as client:
        result = client.create(name, replicas=replicas)
        assert result.error_code == errors.INVALID_REPLICATION_FACTOR and result.error_message, result
        assert client.topic_metadata(name).error_code == errors.UNKNOWN_TOPIC_OR_PARTITION


def reassign(client, topic, replicas, partition=0):
    topics = [{"name": topic, "partitions": [{"partition_index": partition, "replicas": replicas}]}]
    answer = client.call("AlterPartitionReassignments", REASSIGN, timeout_ms=5000, topics=topics)
    assert answer.error_code == errors.NONE, answer
    return answer.responses[0].partitions[0]


def test_a_reassignment_that_cannot_be_is_refused(cluster, standing):
    cases = [
        ([], errors.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1, 2], errors.INVALID_REPLICA_ASSIGNMENT),
        ([-1, 2, 3], errors.INVALID_REPLICA_ASSIGNMENT),
        ([1, 2, 77], errors.INVALID_REPLICA_ASSIGNMENT),
        (None, NO_REASSIGNMENT_IN_PROGRESS),
    ]
    with cluster.client() as client:
        for replicas, code in cases:
            answer = reassign(client, standing, replicas)
            assert answer.error_code == code and answer.error_message, (replicas, answer)
        for topic, partition in [(standing, PARTITIONS), (unique("nowhere"), 0)]:
            assert reassign(client, topic, [1, 2], partition).error_code == errors.UNKNOWN_TOPIC_OR_PARTITION
        answer = client.call("ListPartitionReassignments", 0, timeout_ms=5000, topics=None)
        assert answer.topics == []


def test_a_batch_for_a_follower_is_refused_and_taken_by_the_leader_only(cluster, standing):
    with Client(cluster.follower(standing)) as client:
        assert client.produce(standing, values_batch(b"not here")).error_code == errors.NOT_LEADER_OR_FOLLOWER


# gRPC

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload=b"", length=None):
    """A frame of HTTP/2; `length` lies about the payload's."""
    return struct.pack(">I", len(payload) if length is None else length)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header(name, value):
    """A header that is in no table, as it is."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def call(path):
    headers = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"), ("content-type", "application/grpc")]
    return PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, b"".join(header(*pair) for pair in headers))


def has_status(node, request):
    """Sends bytes, and reads until the call has a status (True) or the connection ends."""
    got = b""
    with socket.create_connection(node.address, timeout=ANSWER_TIMEOUT_S) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(request)
        while piece := connection.recv(1 << 16):
            got += piece
            if any(kind == HEADERS and flags & END_STREAM for kind, flags in frames(got)):
                return True
    return False


def frames(data):
    while len(data) >= 9:
        length, kind, flags = int.from_bytes(data[:3], "big"), data[3], data[4]
        yield kind, flags
        data = data[9 + length :]


@pytest.mark.parametrize("service", ["Controller/Propose", "Controller/Heartbeat", "Raft/AppendEntries", "Raft/InstallSnapshot"])
def test_a_call_of_absurd_size_is_ended_before_memory_is_taken_for_it(cluster, standing, service):
    node = cluster.active_controller()
    before = rss_kib(node)
    opening = call(f"/taffrail.v1.{service}")
    huge = struct.pack(">BI", 0, 0xFFFFFFFF)
    for request in [huge + bytes(1000), huge]:
        assert has_status(node, opening + frame(DATA, 0, 1, request)), "the call is refused, not the connection"
    # What is no HTTP/2 ends the connection: frames that say they are longer than any may be, and another protocol.
    for request in [
        opening + frame(DATA, 0, 1, bytes(1000), length=0xFFFFFF),
        opening + frame(HEADERS, END_HEADERS, 1, bytes(1000), length=0xFFFFFF),
        b"GET / HTTP/1.1\r\n\r\n" + bytes(1000),
    ]:
        has_status(node, request)
    assert node.is_alive() and rss_kib(node) - before < TOLD_MAX_KIB
    assert eventually(cluster.quorum, what="a quorum that answers").leader_id == node.number


def rss_kib(node):
    with open(f"/proc/{node.pid()}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
