"""Handshake, versions, connections and malformed input: cases P-01 to P-04 (P-05, quotas, comes with a later part)."""

import contextlib
import json
import os
import pathlib
import socket
import struct
import subprocess
import threading
import time

import pytest
from confluent_kafka import Producer

from raw import bad_requests, errors
from raw.batch import CODECS, GZIP, Batch, Record, now_ms, values_batch
from raw.broker import is_kafka
from raw.client import Client, fetch_partition, produce_fields, unique
from raw.connection import ConnectionClosed, request_header
from raw.every_version import BENIGN
from raw.schema import message
from raw.wait import eventually
from raw.wire import Reader, encode_unsigned_varint

GOLDEN = pathlib.Path(__file__).parent / "golden"
KAFKA_VERSIONS = {int(k): (v["min"], v["max"]) for k, v in json.loads((GOLDEN / "apiversions_4.4.json").read_text()).items()}
KAFKA_ERRORS = json.loads((GOLDEN / "error_codes.json").read_text())
CLIENT = {"client_software_name": "raw", "client_software_version": "1"}
API_VERSIONS, PRODUCE = 18, 0
# The keys that one node without transactions, ACLs, quotas and the new groups serves.
SERVED_KEYS = {0, 1, 2, 3, *range(8, 24), 32, 33, *range(35, 38), *range(42, 48), 55, 60, 64, 75, 80, 81}
CLOSE_WITHIN_S = 5
MIB = 1 << 20
RSS_LIMIT_BYTES = 300 * MIB
UNKNOWN_SERVER_ERROR = -1


@pytest.fixture(scope="module")
def known(broker):
    """What the table of bad requests needs to know of the cluster."""
    return bad_requests.prepare(broker.address)


def versions_of(connection, version=4):
    keys = connection.call("ApiVersions", version, **CLIENT).api_keys
    return {k.api_key: (k.min_version, k.max_version) for k in keys}


# P-01


@pytest.mark.parametrize("version", [KAFKA_VERSIONS[API_VERSIONS][1] + 1, 100, 32767])
def test_newer_apiversions_gets_v0_body_with_error_35(broker, version):
    """P-01: the answer has the layout of version 0, names key 18, and the socket stays usable."""
    with broker.connect() as connection:
        header = struct.pack(">hhih3sB", API_VERSIONS, version, 7, 3, b"raw", 0)
        connection.send_frame(header + message("ApiVersionsRequest").encode(3, CLIENT))
        reader = Reader(connection.receive_frame())
        assert reader.unpack(">i") == 7
        answer = message("ApiVersionsResponse").decode(0, reader.data[4:])
        assert answer.error_code == errors.UNSUPPORTED_VERSION
        ranges = {k.api_key: (k.min_version, k.max_version) for k in answer.api_keys}
        assert ranges[API_VERSIONS] == KAFKA_VERSIONS[API_VERSIONS]
        assert versions_of(connection, 3)[API_VERSIONS] == KAFKA_VERSIONS[API_VERSIONS]


def test_newer_apiversions_body_is_not_parsed(broker):
    """P-01: what a future body looks like is unknown, so any bytes get the same answer."""
    with broker.connect() as connection:
        connection.send_frame(struct.pack(">hhih3sB", API_VERSIONS, 100, 7, 3, b"raw", 0) + b"\xff" * 40)
        answer = message("ApiVersionsResponse").decode(0, connection.receive_frame()[4:])
        assert answer.error_code == errors.UNSUPPORTED_VERSION


def test_version_ranges_are_those_of_kafka_4_4(broker):
    """P-01, P-02: each key served has exactly the range that a running Kafka 4.4 prints; no other key is named."""
    with broker.connect() as connection:
        found = versions_of(connection)
    wanted = KAFKA_VERSIONS if is_kafka() else {k: KAFKA_VERSIONS[k] for k in SERVED_KEYS}
    assert found == wanted


def test_every_apiversions_version_lists_the_same_keys(broker):
    """P-01: header v0 and the right body at each version; the strict decoder finds any byte too many."""
    with broker.connect() as connection:
        lists = [versions_of(connection, v) for v in range(KAFKA_VERSIONS[API_VERSIONS][1] + 1)]
    assert all(one == lists[0] for one in lists)


def test_features_with_minimum_0_show_from_version_4_only(broker):
    """Section 8, features (KAFKA-17492): older clients refuse a minimum of 0."""
    with broker.connect() as connection:
        old = connection.call("ApiVersions", 3, **CLIENT).supported_features
        new = connection.call("ApiVersions", 4, **CLIENT).supported_features
    assert all(f.min_version > 0 for f in old)
    assert {f.name for f in old} == {f.name for f in new if f.min_version > 0}


def test_finalized_features_are_among_the_supported_ones(broker):
    """Section 8, features: levels lie inside the supported ranges, none is 0, and the epoch never goes back."""
    with broker.connect() as connection:
        first, second = (connection.call("ApiVersions", 4, **CLIENT) for _ in range(2))
    supported = {f.name: (f.min_version, f.max_version) for f in first.supported_features}
    for feature in first.finalized_features:
        low, high = supported[feature.name]
        assert low <= feature.max_version_level <= high
        assert feature.max_version_level > 0
    assert second.finalized_features_epoch >= first.finalized_features_epoch >= 0


@pytest.mark.beyond_kafka("Kafka has the parts that these features stand for")
def test_features_of_absent_parts_are_not_advertised(broker):
    """Section 8, features: clients switch to TV2, KIP-848 or share groups by what they read here."""
    absent = {"group.version", "transaction.version", "share.version", "streams.version"}
    with broker.connect() as connection:
        answer = connection.call("ApiVersions", 4, **CLIENT)
    assert not absent & {f.name for f in answer.supported_features if f.max_version > 0}
    assert not absent & {f.name for f in answer.finalized_features}


def test_client_that_knows_the_cluster_and_node_is_let_in(broker):
    """Section 8, ApiVersions v5 (KIP-1242): the right ids are no reason to rebootstrap."""
    with broker.connect() as connection:
        metadata = connection.call("Metadata", 12, topics=[])
        node = metadata.brokers[0].node_id
        answer = connection.call("ApiVersions", 5, **CLIENT, cluster_id=metadata.cluster_id, node_id=node)
    assert answer.error_code == errors.NONE


UNSERVED = {
    "a key that never was": (200, 0),
    "a negative key": (-1, 0),
    "a removed key": (4, 0),
    "a key of controllers": (52, 0),
    "Metadata above its range": (3, 14),
    "Metadata at a negative version": (3, -1),
    "Produce above its range": (0, 14),
    "Fetch below its range": (1, 3),
    "CreateTopics below its range": (19, 1),
}


@pytest.mark.parametrize("key, version", UNSERVED.values(), ids=UNSERVED)
def test_unserved_key_or_version_closes_the_connection(broker, key, version):
    """Section 8, ApiVersions: for anything but ApiVersions there is no layout to answer in."""
    with broker.connect() as connection:
        connection.send_frame(struct.pack(">hhih3sB", key, version, 7, 3, b"raw", 0) + b"\x00" * 16)
        assert connection.is_closed_within(CLOSE_WITHIN_S)


@pytest.mark.parametrize("api", BENIGN)
def test_every_version_of_an_api_is_answered_in_its_layout(broker, known, api):
    """Section 8, ApiVersions: each advertised version decodes to the last byte, on one connection."""
    key = message(f"{api}Request").api_key
    with broker.connect() as connection:
        low, high = versions_of(connection)[key]
        for version in range(max(low, 3) if api == "Produce" else low, high + 1):
            answer = connection.call(api, version, **BENIGN[api](known, version))
            codes = dict(bad_requests.error_codes(answer))
            assert all(code == errors.NONE for code in codes.values()), (version, codes)


@pytest.mark.parametrize("request_", bad_requests.TABLE, ids=lambda r: r.name)
def test_bad_request_gets_the_error_that_kafka_gives(broker, known, request_):
    """Section 8, all areas: the table of raw/bad_requests.py; where Kafka says "unknown server error", any error will do."""
    found = bad_requests.answer(broker.address, request_, known)
    wanted = KAFKA_ERRORS[request_.name]
    if isinstance(wanted, dict) and UNKNOWN_SERVER_ERROR in wanted.values():
        assert isinstance(found, dict) and found.keys() == wanted.keys() and all(found.values())
    else:
        assert found == wanted


# P-02


def test_ranges_switch_on_every_codec_of_old_librdkafka():
    """P-02: librdkafka 1.x looks for these overlaps (rdkafka_feature.c) before it compresses; Produce counts from 0."""
    for key, version in ((PRODUCE, 0), (PRODUCE, 3), (PRODUCE, 7), (1, 4), (1, 10), (10, 0), (17, 0), (22, 0), (2, 1)):
        low, high = KAFKA_VERSIONS[key]
        assert low <= version <= high


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_compresses_with_every_codec(broker, client, codec):
    """P-02, with 500 records of 1 KB in place of 1,000: codec bits in the log, and a log under 30 % of the payload."""
    topic = client.new_topic("codec").name
    lines = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "compression.codec": codec,
            "linger.ms": 50,
            "debug": "feature,msg",
            "logger": _Lines(lines),
        }
    )
    for number in range(500):
        producer.produce(topic, (f"{number:06} " * 147)[:1024])
    assert producer.flush(20) == 0
    batches = client.read(topic)
    assert sum(len(b.records) for b in batches) == 500
    assert {b.codec for b in batches} == {CODECS[codec]}
    assert sum(len(b.raw) for b in batches) < 0.3 * 500 * 1024
    assert not [line for line in lines if "does not support compression" in line]


# What librdkafka 1.9.2 switches on by the ranges of ApiVersions (rdkafka_feature.c), where a broker has no part left out
# that it needs; MsgVer1 and ThrottleTime need requests that Kafka 4 no longer serves.
OLD_FEATURES = {
    "ApiVersion",
    "BrokerBalancedConsumer",
    "BrokerGroupCoordinator",
    "IdempotentProducer",
    "LZ4",
    "MsgVer2",
    "OffsetTime",
    "Sasl",
    "SaslHandshake",
    "ZSTD",
}


def old_librdkafka(broker, *arguments, text=""):
    """Runs kcat on librdkafka 1.9.2, and returns what it printed and what it said."""
    if not pathlib.Path(os.environ.get("LIBRDKAFKA", ""), "librdkafka.so.1").is_file():
        pytest.skip("librdkafka 1.9.2 is missing: e2e/setup/install librdkafka")
    environment = {**os.environ, "LD_LIBRARY_PATH": os.environ["LIBRDKAFKA"]}
    command = ["kcat", "-b", broker.bootstrap, "-X", "broker.address.family=v4", *arguments]
    done = subprocess.run(command, env=environment, input=text, capture_output=True, text=True, timeout=60)
    return done.stdout, done.stderr


@pytest.mark.parametrize("codec", CODECS)
def test_old_librdkafka_compresses_with_every_codec(broker, client, codec):
    """P-02 with librdkafka 1.9.2 itself: nothing it needs is switched off, and 1,000 records arrive compressed."""
    topic = client.new_topic("old").name
    lines = [(f"{number:06} " * 147)[:1023] for number in range(1000)]
    options = ["-P", "-t", topic, "-X", f"compression.codec={codec}", "-X", "enable.idempotence=true", "-d", "feature,msg"]
    _, said = old_librdkafka(broker, *options, text="\n".join(lines))
    enabled = {line.rsplit(" ", 1)[1] for line in said.splitlines() if ": Enabling feature " in line}
    assert "librdkafka v1.9.2" in said
    assert enabled >= OLD_FEATURES
    assert "does not support compression" not in said
    batches = client.read(topic)
    assert [r.value.decode() for b in batches for r in b.records] == lines
    assert {b.codec for b in batches} == {CODECS[codec]}
    assert sum(len(b.raw) for b in batches) < 0.3 * 1000 * 1023


def test_old_librdkafka_finds_offsets_by_time_and_reads_as_a_group(broker, client, coordinator):
    """P-02: the two features that rest on ListOffsets and on the group requests, with the group's offsets kept."""
    topic = client.new_topic("old").name
    now = now_ms()
    client.append(topic, Batch([Record(value=b"early", timestamp=now - 2_000), Record(value=b"late", timestamp=now)]))
    read, _ = old_librdkafka(broker, "-q", "-C", "-t", topic, "-o", f"s@{now - 1_000}", "-e", "-f", "%o %s\n")
    assert read == "1 late\n"
    group = ["-q", "-e", "-X", "auto.offset.reset=earliest", "-f", "%s\n", "-G", unique("old"), topic]
    assert old_librdkafka(broker, *group)[0] == "early\nlate\n"
    assert old_librdkafka(broker, *group)[0] == ""


def test_old_librdkafka_is_told_that_no_sasl_mechanism_is_enabled(broker):
    """P-02: it asks with a handshake, gets an answer to that, and gives up for that reason."""
    sasl = ["security.protocol=sasl_plaintext", "sasl.mechanism=PLAIN", "sasl.username=a", "sasl.password=b"]
    options = [part for option in sasl for part in ("-X", option)]
    _, said = old_librdkafka(broker, "-L", "-m", "3", "-d", "security", *options)
    assert "Broker supported SASL mechanisms: \n" in said


class _Lines:
    """A logger for librdkafka that keeps what it is told."""

    def __init__(self, lines):
        self.lines = lines

    def log(self, _level, form, *arguments):
        self.lines.append(form % arguments if arguments else form)


# P-03


def test_acks_0_gets_no_bytes_and_the_next_answer_is_the_next_requests(broker, client):
    """P-03: exactly one response, Metadata's, follows Produce with acks 0 and Metadata."""
    topic = client.new_topic("acks0").name
    connection = client.connection
    connection.send("Produce", 12, **produce_fields(topic, values_batch(b"one"), acks=0))
    answer = connection.call("Metadata", 12, topics=[{"name": topic}])
    assert answer.topics[0].name == topic
    assert not connection.is_closed_within(0.2)
    with Client(broker) as other:
        eventually(lambda: other.end_offset(topic), wanted=lambda end: end == 1, what="the record sent with acks 0")


def test_acks_1_without_topics_gets_an_empty_answer(client):
    """P-03: a request that owes an answer gets one, also if there is nothing to say."""
    assert client.call("Produce", 12, acks=1, timeout_ms=1000, topic_data=[]).responses == []


def test_acks_5_is_refused_with_21(client):
    """P-03: only -1, 0 and 1 are known."""
    topic = client.new_topic("acks5").name
    assert client.produce(topic, values_batch(b"one"), acks=5).error_code == errors.INVALID_REQUIRED_ACKS
    assert client.end_offset(topic) == 0


def test_failed_acks_0_closes_the_connection(broker):
    """P-03: the client can learn of the failure in no other way."""
    with broker.connect() as connection:
        connection.send("Produce", 12, **produce_fields("no-such-topic", values_batch(b"one"), acks=0))
        assert connection.is_closed_within(CLOSE_WITHIN_S)


def test_10_000_records_with_acks_0_arrive(broker, client):
    """P-03, by librdkafka in place of kafka-producer-perf-test.sh."""
    topic = client.new_topic("acks0").name
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": 0, "linger.ms": 5})
    for number in range(10_000):
        producer.produce(topic, b"%06d" % number)
    assert producer.flush(30) == 0
    eventually(lambda: client.end_offset(topic), wanted=lambda end: end == 10_000, what="10,000 records")


def test_pipelined_requests_are_answered_in_order(client):
    """Section 8, ordering: a fetch that waits holds back the answer of the request behind it."""
    topic = client.new_topic("order").name
    connection = client.connection
    fetch = {"max_wait_ms": 300, "min_bytes": 1, "topics": [{"topic": topic, "partitions": [fetch_partition()]}]}
    waiting = connection.send("Fetch", 12, **fetch)
    quick = [connection.send("Metadata", 12, topics=[]) for _ in range(20)]
    assert connection.receive("Fetch", 12, waiting).responses[0].partitions[0].error_code == errors.NONE
    for correlation_id in quick:
        connection.receive("Metadata", 12, correlation_id)


def test_pipelined_produces_append_in_order(client):
    """Section 8, ordering: offsets follow the order of the requests on one connection."""
    topic = client.new_topic("order").name
    sent = [client.connection.send("Produce", 12, **produce_fields(topic, values_batch(b"%d" % n))) for n in range(50)]
    answers = [client.connection.receive("Produce", 12, i).responses[0].partition_responses[0] for i in sent]
    assert [a.base_offset for a in answers] == list(range(50))


def test_unknown_tagged_fields_are_skipped(broker):
    """Section 8, protocol: a newer client may send fields that this broker does not know."""
    with broker.connect() as connection:
        tagged = encode_unsigned_varint(1) + encode_unsigned_varint(4711) + encode_unsigned_varint(2) + b"xy"
        header = struct.pack(">hhih3s", 3, 12, 9, 3, b"raw") + tagged
        body = message("MetadataRequest").encode(12, {"topics": []})[:-1] + tagged
        connection.send_frame(header + body)
        assert connection.receive("Metadata", 12, 9).brokers


def test_client_id_may_be_null(broker):
    """Section 8, protocol: the header's client id is nullable."""
    with broker.connect() as connection:
        connection.send_frame(request_header("Metadata", 12, 3, client_id=None) + message("MetadataRequest").encode(12, {"topics": []}))
        assert connection.receive("Metadata", 12, 3).brokers


# P-04


@pytest.fixture
def bystander(broker, client):
    """A producer that goes on all the while; at the end every record must have been acknowledged once, in order."""
    topic = client.new_topic("bystander").name
    acknowledged, stop = [], threading.Event()

    def run():
        with Client(broker) as own:
            while not stop.is_set():
                acknowledged.append(own.append_values(topic, b"%d" % len(acknowledged)))
                time.sleep(0.01)

    thread = threading.Thread(target=run)
    before = broker.pid()
    thread.start()
    yield
    stop.set()
    thread.join(30)
    assert acknowledged == list(range(len(acknowledged))) and acknowledged
    assert client.read_values(topic) == [b"%d" % n for n in range(len(acknowledged))]
    assert broker.pid() == before and broker.is_alive()
    if not is_kafka():  # a JVM's size says nothing here
        assert broker.rss_bytes() < RSS_LIMIT_BYTES


def frame(payload, size=None):
    return struct.pack(">i", len(payload) if size is None else size) + payload


def metadata_frame(version, count):
    """A Metadata request whose array count is the bytes `count`."""
    return frame(request_header("Metadata", version, 1) + count + b"\x00" * 8)


NO_REQUESTS = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100c8010000c40303") + b"\x11" * 200,
    "length 2^31-1": frame(b"\x00" * 40, 0x7FFFFFFF),
    "length -1": frame(b"\x00" * 40, -1),
    "length 0": frame(b"", 0) + frame(b"", 0),
    "a header cut short": frame(b"\x00\x03\x00"),
    "a client id longer than the frame": frame(struct.pack(">hhih", 3, 8, 1, 3000) + b"raw"),
    "an array count of 2^31-1": metadata_frame(8, struct.pack(">i", 2**31 - 1)),
    "a compact count of 2^31-1": metadata_frame(12, encode_unsigned_varint(2**31 - 1)),
    "a varint of 6 bytes": metadata_frame(12, b"\xff" * 5 + b"\x01"),
    "a string of 32767 bytes in a short frame": metadata_frame(8, struct.pack(">ih", 1, 32767)),
    "a name that is not UTF-8 text, cut short": metadata_frame(12, b"\x02" + b"\x00" * 16 + b"\x7f\xff"),
}


@pytest.mark.parametrize("data", NO_REQUESTS.values(), ids=NO_REQUESTS)
def test_bytes_that_are_no_request_close_the_connection(broker, bystander, data):
    """P-04: 30 connections each; nobody else notices, and no memory is taken for the lengths that they claim."""
    for _ in range(30):
        with broker.connect() as connection:
            with contextlib.suppress(ConnectionClosed):
                connection.send_bytes(data)
            assert connection.is_closed_within(CLOSE_WITHIN_S)


@pytest.mark.beyond_kafka("Apache Kafka's log has lines of its own shape")
def test_connection_closed_for_its_bytes_leaves_one_log_line(broker):
    """P-04: it names the client, so that an operator can find who sends them."""
    with broker.connect() as connection:
        ours = f"{connection.socket.getsockname()[0]}:{connection.socket.getsockname()[1]}"
        connection.send_bytes(NO_REQUESTS["HTTP"])
        assert connection.is_closed_within(CLOSE_WITHIN_S)
    lines = eventually(lambda: [line for line in broker.log_text().splitlines() if ours in line], what="a log line")
    assert len(lines) == 1


def test_many_parallel_http_requests_are_turned_away(broker, bystander):
    """P-04, with 200 in place of 1,000 connections at once."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(broker.connect()) for _ in range(200)]
        for connection in connections:
            connection.send_bytes(NO_REQUESTS["HTTP"])
        assert all(c.is_closed_within(CLOSE_WITHIN_S) for c in connections)


@pytest.mark.beyond_kafka("it takes the memory that 100 frames of 50 MiB claim before their bytes are there, and its heap is gone")
def test_half_sent_frames_and_silent_connections_disturb_nobody(broker, bystander):
    """P-04: a half-open client holds its own connection and nothing else."""
    with contextlib.ExitStack() as stack:
        for number in range(200):
            connection = stack.enter_context(broker.connect())
            if number % 2:
                connection.send_bytes(struct.pack(">i", 50 * MIB) + b"\x00\x03\x00\x0c" + b"\x00" * 100)
        with broker.connect() as other:
            assert other.call("Metadata", 12, topics=[]).brokers


def test_request_sent_byte_by_byte_is_answered(broker):
    """P-04: frames may arrive in any pieces."""
    with broker.connect() as connection:
        payload = request_header("Metadata", 12, 5) + message("MetadataRequest").encode(12, {"topics": []})
        for byte in frame(payload):
            connection.send_bytes(bytes([byte]))
        assert connection.receive("Metadata", 12, 5).brokers


def test_connection_closed_before_its_answer_disturbs_nobody(broker, client, bystander):
    """P-04: the broker loses a client while it waits for data on its behalf."""
    topic = client.new_topic("gone").name
    for _ in range(50):
        with broker.connect() as connection:
            fields = {"max_wait_ms": 1000, "min_bytes": 1, "topics": [{"topic": topic, "partitions": [fetch_partition()]}]}
            connection.send("Fetch", 12, **fields)
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_gzip_batch_that_expands_1000_times_takes_no_memory(broker, client, bystander):
    """P-04: an opaque batch is kept as it is; it is read back unchanged."""
    topic = client.new_topic("bomb").name
    batch = values_batch(b"\x00" * (60 * MIB), codec=GZIP)
    assert len(batch.encode()) < 70 * 1024
    for expected in range(3):
        assert client.append(topic, batch) == expected


@pytest.mark.parametrize("codec", CODECS)
def test_batch_above_max_decompressed_message_bytes_is_refused_where_it_is_opened(client, bystander, codec):
    """P-04: a topic that recompresses opens every batch, within its limit."""
    topic = client.new_topic("bomb", compression_type="lz4" if codec != "lz4" else "gzip", max_decompressed_message_bytes=2 * MIB).name
    answer = client.produce(topic, values_batch(b"\x00" * (8 * MIB), codec=CODECS[codec]))
    assert answer.error_code != errors.NONE
    assert client.end_offset(topic) == 0
    assert client.append(topic, values_batch(b"\x00" * MIB, codec=CODECS[codec])) == 0


def test_compressed_garbage_is_refused_where_it_is_opened(client):
    """P-04: records that do not decompress never reach a log that must open them."""
    topic = client.new_topic("garbage", compression_type="gzip").name
    for codec in CODECS.values():
        answer = client.produce(topic, Batch(values_batch(b"x").records, codec=codec, payload=b"\xde\xad\xbe\xef" * 20))
        assert answer.error_code != errors.NONE
    assert client.end_offset(topic) == 0


def test_produce_with_null_records_is_not_taken_for_data(client):
    """P-04. Beyond Kafka in one point: Kafka never answers it; an error or a closed connection is wanted."""
    if is_kafka():
        pytest.skip("beyond Kafka: Apache Kafka 4.4 leaves this request without an answer for ever")
    topic = client.new_topic("null").name
    try:
        assert client.produce(topic, None).error_code != errors.NONE
    except ConnectionClosed:
        client.reconnect()
    assert client.end_offset(topic) == 0


def test_record_batch_count_is_checked_before_memory_is_taken(broker, client, bystander):
    """P-04: a count of 2^31-1 in a batch header, alone and with a matching last offset delta."""
    topic = client.new_topic("count").name
    for fields in ({"record_count": 2**31 - 1}, {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2}):
        for codec in (0, *CODECS.values()):
            answer = client.produce(topic, values_batch(b"x", codec=codec, **fields))
            assert answer.error_code in (errors.INVALID_RECORD, errors.CORRUPT_MESSAGE)
    assert client.end_offset(topic) == 0
