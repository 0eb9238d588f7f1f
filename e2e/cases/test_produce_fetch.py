"""Produce and fetch: cases F-01 to F-08 with one node (F-04 needs three, F-09 and F-03's compaction step come later)."""

import contextlib
import threading
import time
import uuid

import confluent_kafka
import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from raw import errors
from raw.batch import ALL_CODECS, CODECS, HOUR_AGO, SNAPPY, Batch, Record, compress, now_ms, raw_snappy, read_batches, values_batch
from raw.broker import is_kafka
from raw.client import MAX_TIMESTAMP, Client, fetch_partition, produce_fields, unique
from raw.sessions import partitions_in
from raw.wait import eventually

MIB = 1 << 20
HOUR_MS = 3_600_000
CLOCK_SLACK_MS = 5_000
RSS_LIMIT_BYTES = 300 * MIB
BROKER_FETCH_MAX_BYTES = 57_671_680  # fetch.max.bytes, Kafka's default
PRODUCER_EXPIRATION_MS = 2_000


# F-01 and idempotence


def sequenced(producer_id, sequence, count=5, epoch=0, **fields):
    """A batch of `count` records of an idempotent producer."""
    values = [b"%d" % (sequence + i) for i in range(count)]
    return values_batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)


@pytest.fixture
def forgetful(own_broker):
    """A broker that forgets idle producers soon."""
    return own_broker({"producer.id.expiration.ms": PRODUCER_EXPIRATION_MS})


def test_idempotent_producer_survives_deleted_records_expiry_and_restart(forgetful):
    """F-01: 20 records before and after each of DeleteRecords, expiry and a restart; sequences go on, nothing is fatal."""
    with Client(forgetful) as client:
        topic, producer = client.new_topic("f01").name, client.producer_id()
        steps = [
            lambda: client.delete_records(topic, 20),
            lambda: time.sleep(PRODUCER_EXPIRATION_MS / 1000 + 1),
            lambda: (forgetful.restart(), client.reconnect()),
            lambda: None,
        ]
        for number, step in enumerate(steps):
            base = number * 20
            for sequence in range(base, base + 20, 5):
                assert client.append(topic, sequenced(producer, sequence)) == sequence
            step()
        assert (client.start_offset(topic), client.end_offset(topic)) == (20, 80)
        assert client.read_values(topic, 20) == [b"%d" % n for n in range(20, 80)]


def test_librdkafkas_idempotent_producer_survives_deleted_records_and_restart(forgetful):
    """F-01: one producer object, no fatal error, 60 records acknowledged and their offsets contiguous."""
    offsets, failures = [], []

    def report(error, message):
        failures.append(error) if error else offsets.append(message.offset())

    with Client(forgetful) as client:
        topic = client.new_topic("f01").name
        settings = {"bootstrap.servers": forgetful.bootstrap, "enable.idempotence": True, "reconnect.backoff.max.ms": 200}
        producer = Producer({**settings, "error_cb": lambda e: failures.append(e) if e.fatal() else None})
        for step in (lambda: client.delete_records(topic, 20), forgetful.restart, lambda: None):
            for number in range(20):
                producer.produce(topic, b"%d" % number, on_delivery=report)
            assert producer.flush(30) == 0
            step()
    assert (failures, offsets) == ([], list(range(60)))


def test_retry_of_the_last_five_batches_gets_its_first_offset_again(client):
    """Section 8, idempotence: a duplicate is a success with the original offset and appends nothing."""
    topic, producer = client.new_topic("dup").name, client.producer_id()
    offsets = [client.append(topic, sequenced(producer, s)) for s in range(0, 30, 5)]
    for sequence, offset in list(zip(range(0, 30, 5), offsets, strict=True))[1:]:
        answer = client.produce(topic, sequenced(producer, sequence))
        assert (answer.error_code, answer.base_offset) == (errors.NONE, offset)
    assert client.end_offset(topic) == 30


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_retry_is_told_the_time_of_the_batch_that_is_there(client, timestamp_type):
    """F-02: whichever clock the time is from."""
    topic, producer = client.new_topic("dup", message_timestamp_type=timestamp_type).name, client.producer_id()
    client.append(topic, sequenced(producer, 0))
    (there,) = client.read(topic)
    assert client.produce(topic, sequenced(producer, 0)).log_append_time_ms == max(r.timestamp for r in there.records)


def test_retry_of_a_batch_older_than_the_last_five_is_refused(client):
    """Section 8, idempotence: its offset is no longer known, and it must not be appended twice."""
    topic, producer = client.new_topic("dup").name, client.producer_id()
    for sequence in range(0, 30, 5):
        client.append(topic, sequenced(producer, sequence))
    assert client.produce(topic, sequenced(producer, 0)).error_code == errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.end_offset(topic) == 30


def test_gap_in_the_sequence_is_refused_and_can_be_filled(client):
    """Section 8, idempotence: error 45 for the gap; the missing batch is then taken."""
    topic, producer = client.new_topic("gap").name, client.producer_id()
    client.append(topic, sequenced(producer, 0))
    assert client.produce(topic, sequenced(producer, 10)).error_code == errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.append(topic, sequenced(producer, 5)) == 5
    assert client.append(topic, sequenced(producer, 10)) == 10


def test_older_producer_epoch_is_refused_with_47(client):
    """Section 8, idempotence: never 90 in Produce."""
    topic, producer = client.new_topic("epoch").name, client.producer_id()
    client.append(topic, sequenced(producer, 0, epoch=3))
    assert client.produce(topic, sequenced(producer, 5, epoch=2)).error_code == errors.INVALID_PRODUCER_EPOCH
    assert client.append(topic, sequenced(producer, 5, epoch=3)) == 5


def test_new_producer_epoch_starts_at_sequence_0(client):
    """Section 8, idempotence: any other first sequence of a new epoch is out of order."""
    topic, producer = client.new_topic("epoch").name, client.producer_id()
    client.append(topic, sequenced(producer, 0))
    assert client.produce(topic, sequenced(producer, 5, epoch=1)).error_code == errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.append(topic, sequenced(producer, 0, epoch=1)) == 5


def test_unknown_producer_may_start_anywhere(client):
    """Section 8, idempotence: where no state is known, any first sequence is taken, and counted from."""
    topic, producer = client.new_topic("start").name, client.producer_id()
    assert client.append(topic, sequenced(producer, 1000)) == 0
    assert client.produce(topic, sequenced(producer, 1006)).error_code == errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.append(topic, sequenced(producer, 1005)) == 5


def test_sequence_wraps_to_0_after_2_to_the_31(client):
    """Section 8, idempotence: inside a batch, and between two."""
    topic, producer = client.new_topic("wrap").name, client.producer_id()
    assert client.append(topic, sequenced(producer, 2**31 - 3)) == 0
    assert client.append(topic, sequenced(producer, 2)) == 5
    duplicate = client.produce(topic, sequenced(producer, 2**31 - 3))
    assert (duplicate.error_code, duplicate.base_offset) == (errors.NONE, 0)


def test_producer_ids_are_never_handed_out_twice(restartable):
    """Section 8, idempotence: not by two requests, and not by a broker that was killed in between."""
    with Client(restartable) as client:
        before = [client.producer_id() for _ in range(5)]
        restartable.crash()
        client.reconnect()
        after = [client.producer_id() for _ in range(5)]
    assert len({*before, *after}) == 10


def test_sequences_are_remembered_across_a_kill(restartable):
    """Section 8, idempotence: a retry after a crash is still recognised."""
    with Client(restartable) as client:
        topic, producer = client.new_topic("kill").name, client.producer_id()
        for sequence in (0, 5, 10):
            client.append(topic, sequenced(producer, sequence))
        restartable.crash()
        client.reconnect()
        eventually(lambda: client.end_offset(topic), wanted=lambda end: end == 15, what="the three batches")
        retry = client.produce(topic, sequenced(producer, 10))
        assert (retry.error_code, retry.base_offset) == (errors.NONE, 10)
        assert client.append(topic, sequenced(producer, 15)) == 15


# F-02


@pytest.mark.parametrize("codec", ALL_CODECS.values(), ids=ALL_CODECS)
def test_log_append_time_is_the_same_in_answer_batch_and_records(client, codec):
    """F-02: records dated 2; the answer, the bit, the batch's maximum, every record and the CRC agree."""
    topic = client.new_topic("lat", message_timestamp_type="LogAppendTime").name
    batch = Batch([Record(b"%d" % n, timestamp=2) for n in range(10)], codec=codec)
    answer = client.produce(topic, batch)
    assert answer.error_code == errors.NONE
    assert abs(answer.log_append_time_ms - now_ms()) < CLOCK_SLACK_MS
    (read,) = client.read(topic)
    assert (read.crc_is_right, read.has_log_append_time, read.codec) == (True, True, codec)
    assert read.max_timestamp == answer.log_append_time_ms
    assert {r.timestamp for r in read.records} == {answer.log_append_time_ms}


def test_create_time_is_kept_and_the_answer_says_minus_1(client):
    """F-02, the other way: without LogAppendTime the producer's times stand."""
    topic = client.new_topic("create").name
    answer = client.produce(topic, Batch([Record(b"x", timestamp=HOUR_AGO)]))
    assert (answer.error_code, answer.log_append_time_ms) == (errors.NONE, -1)
    (read,) = client.read(topic)
    assert (read.has_log_append_time, read.records[0].timestamp) == (False, HOUR_AGO)


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_librdkafkas_report_and_consumer_agree_on_log_append_time(broker, client, codec):
    """F-02: the delivery report's time is log append time and what a CRC-checking consumer sees."""
    topic = client.new_topic("lat", message_timestamp_type="LogAppendTime").name
    reports = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.codec": codec})
    producer.produce(topic, b"x" * 500, timestamp=2, on_delivery=lambda error, m: reports.append((error, m.timestamp())))
    assert producer.flush(20) == 0
    (seen,) = confluent_read(broker, topic, 1, **{"check.crcs": True})
    assert reports == [(None, seen.timestamp())]
    assert seen.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME
    assert abs(seen.timestamp()[1] - now_ms()) < CLOCK_SLACK_MS


def confluent_read(broker, topic, count, timeout_s=20, offset=0, **settings):
    """`count` messages of partition 0 by librdkafka, without a group."""
    base = {"bootstrap.servers": broker.bootstrap, "group.id": unique("reader"), "enable.auto.commit": False}
    consumer = Consumer({**base, "auto.offset.reset": "earliest", "fetch.max.bytes": 50 * MIB, **settings})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, offset)])
    messages, deadline = [], time.monotonic() + timeout_s
    with contextlib.closing(consumer):
        while len(messages) < count and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None:
                assert message.error() is None, message.error()
                messages.append(message)
    assert len(messages) == count
    return messages


def kafka_python_read(broker, topic, count, timeout_s=20):
    """`count` records of partition 0 by kafka-python, without a group."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False, check_crcs=True)
    records, deadline = [], time.monotonic() + timeout_s
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, 0)])
        while len(records) < count and time.monotonic() < deadline:
            for batch in consumer.poll(timeout_ms=200).values():
                records.extend(batch)
    assert len(records) == count
    return records


# F-03

PAYLOADS = [b"", b"x", b"0123456789abcdef" * 4096, bytes(range(256)) * 3600]
HEADERS = [("first", b"1"), ("null", None), ("first", b"again"), ("empty", b"")]
HEADERS_WITH_VALUES = [h for h in HEADERS if h[1] is not None]  # kafka-python's producer takes no null
KEY = b"key"


def confluent_write(broker, topic, codec):
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.codec": codec})
    for payload in PAYLOADS:
        producer.produce(topic, payload, KEY, headers=HEADERS)
    assert producer.flush(20) == 0


def kafka_python_write(broker, topic, codec):
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, compression_type=None if codec == "none" else codec)
    with contextlib.closing(producer):
        for payload in PAYLOADS:
            producer.send(topic, payload, KEY, headers=HEADERS_WITH_VALUES).get(20)


WRITERS = {"librdkafka": (confluent_write, HEADERS), "kafka-python": (kafka_python_write, HEADERS_WITH_VALUES)}


def as_confluent_sees(broker, topic):
    return [(m.key(), m.value(), m.headers()) for m in confluent_read(broker, topic, len(PAYLOADS))]


def as_kafka_python_sees(broker, topic):
    return [(r.key, r.value, list(r.headers)) for r in kafka_python_read(broker, topic, len(PAYLOADS))]


READERS = [as_confluent_sees, as_kafka_python_sees]


def test_every_codec_of_each_client_is_read_by_each_client_also_after_a_restart(restartable):
    """F-03: librdkafka and kafka-python, both ways (the client matrix has the others); bytes, headers and nulls are equal."""
    with Client(restartable) as client:
        topics = {(writer, codec): client.new_topic("f03").name for writer in WRITERS for codec in ALL_CODECS}
    for (writer, codec), topic in topics.items():
        WRITERS[writer][0](restartable, topic, codec)
    for restart in (lambda: None, restartable.restart):
        restart()
        for (writer, codec), topic in topics.items():
            wanted = [(KEY, payload, WRITERS[writer][1]) for payload in PAYLOADS]
            for reader in READERS:
                assert reader(restartable, topic) == wanted, (writer, codec, reader.__name__)


SNAPPY_FORMS = {"raw snappy": raw_snappy, "snappy in Java's frame": lambda data: compress(SNAPPY, data)}


@pytest.mark.parametrize("compress_", SNAPPY_FORMS.values(), ids=SNAPPY_FORMS)
def test_both_forms_of_snappy_are_opened_where_the_broker_must_look(client, compress_):
    """F-03: time lookup inside the batch, and a topic with LogAppendTime and recompression."""
    uncompressed = Batch([Record(b"%d" % t, timestamp=HOUR_AGO + t) for t in (100, 300, 200)])
    records = uncompressed.encode()[61:]
    batch = Batch(uncompressed.records, codec=SNAPPY, payload=compress_(records))
    plain = client.new_topic("snappy").name
    client.append(plain, batch)
    assert client.list_offset(plain, HOUR_AGO + 250).offset == 1
    assert client.list_offset(plain, MAX_TIMESTAMP).offset == 1
    rebuilt = client.new_topic("snappy", message_timestamp_type="LogAppendTime", compression_type="gzip").name
    client.append(rebuilt, batch)
    (read,) = client.read(rebuilt)
    assert (read.codec, read.crc_is_right) == (CODECS["gzip"], True)
    assert [r.value for r in read.records] == [b"100", b"300", b"200"]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_topic_with_a_codec_of_its_own_recompresses(client, codec):
    """Section 8, Produce: `compression.type` other than producer; values, keys, headers and times stay."""
    name = next(k for k, v in CODECS.items() if v == codec)
    topic = client.new_topic("recompress", compression_type=name).name
    sent = [
        Record(b"v", b"k", ((b"h", None),), HOUR_AGO),
        Record(None, b"k", (), HOUR_AGO - 1),
        Record(b"", None, (), HOUR_AGO + 1),
    ]
    for source in (0, *CODECS.values()):
        base = client.append(topic, Batch(sent, codec=source))
        (read,) = client.read(topic, base)
        assert (read.codec, read.crc_is_right, read.max_timestamp) == (codec, True, HOUR_AGO + 1)
        assert [(r.value, r.key, r.headers, r.timestamp) for r in read.records] == [(r.value, r.key, r.headers, r.timestamp) for r in sent]


def test_uncompressed_topic_unpacks(client):
    """Section 8, Produce: `compression.type=uncompressed`."""
    topic = client.new_topic("unpack", compression_type="uncompressed").name
    client.append_values(topic, b"one", b"two", codec=CODECS["zstd"])
    (read,) = client.read(topic)
    assert (read.codec, read.crc_is_right, [r.value for r in read.records]) == (0, True, [b"one", b"two"])


# F-05


@pytest.fixture(scope="module")
def wide_topic(broker):
    """A topic of 40 partitions with 2 MB each."""
    with Client(broker) as client:
        topic = client.new_topic("wide", partitions=40).name
        for partition in range(40):
            for _ in range(2):
                client.append_values(topic, b"x" * 1_000_000, partition=partition)
    return topic


def wide_fetch(topic):
    partitions = [fetch_partition(p) for p in range(40)]
    return {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 2**31 - 1, "topics": [{"topic": topic, "partitions": partitions}]}


def test_one_fetch_is_bounded_by_the_brokers_fetch_max_bytes(client, wide_topic):
    """F-05, with 40 partitions of 2 MB in place of 1,000: the request asks for 2^31-1 bytes."""
    answer = client.call("Fetch", 12, **wide_fetch(wide_topic))
    size = sum(len(p.records) for p in answer.responses[0].partitions)
    assert BROKER_FETCH_MAX_BYTES / 2 < size <= BROKER_FETCH_MAX_BYTES + MIB


def test_readers_that_do_not_read_pin_no_memory(broker, client, wide_topic):
    """F-05: 20 clients ask for 55 MB each and take nothing; others are served, and the memory stays bounded."""
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            connection = stack.enter_context(broker.connect(receive_buffer_bytes=4096))
            connection.send("Fetch", 12, **wide_fetch(wide_topic))
        for partition in range(0, 40, 8):
            assert [len(v) for v in client.read_values(wide_topic, partition=partition)] == [1_000_000] * 2
        if not is_kafka():  # a JVM's size says nothing here
            assert broker.rss_bytes() < RSS_LIMIT_BYTES


@pytest.mark.long
@pytest.mark.timeout(900)
def test_1000_partitions_are_read_by_ten_readers_within_900_mb(own_broker):
    """F-05 in full: 1,000 partitions of 2 MB, ten readers from the beginning at the same time."""
    broker = own_broker()
    with Client(broker) as client:
        topic = client.new_topic("wide", partitions=1000).name
        for partition in range(1000):
            client.append_values(topic, b"x" * 1_000_000, partition=partition)
            client.append_values(topic, b"x" * 1_000_000, partition=partition)
    counts = []

    def read_all():
        with Client(broker) as own:
            counts.append(sum(len(own.read_values(topic, partition=p)) for p in range(1000)))

    threads = [threading.Thread(target=read_all) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert counts == [2000] * 10
    assert is_kafka() or broker.rss_bytes() < 900 * MIB


# F-06


def test_fetch_answers_once_its_own_limits_allow_no_more(client):
    """F-06, with 20 MB in place of 200: min_bytes 5 MB can never be met under a partition limit of 1 MB."""
    topic = client.new_topic("limits", partitions=10).name
    for _ in range(20):
        client.append_values(topic, b"x" * 1_000_000)
    partitions = [fetch_partition(p, partition_max_bytes=MIB) for p in range(10)]
    fields = {"max_wait_ms": 2000, "min_bytes": 5 * MIB, "max_bytes": 50 * MIB, "topics": [{"topic": topic, "partitions": partitions}]}
    started = time.monotonic()
    answer = client.call("Fetch", 12, **fields)
    assert len(answer.responses[0].partitions[0].records) > 900_000
    if not is_kafka():  # beyond Kafka: it waits when all the data lies in one segment
        assert time.monotonic() - started < 1


# F-08


def test_log_start_inside_a_batch_is_what_every_reader_starts_at(restartable):
    """F-08: one batch of 100, DeleteRecords to 37; the first record anyone sees is 37, also after restarts."""
    with Client(restartable) as client:
        topic = client.new_topic("f08").name
        client.append_values(topic, *(b"%d" % n for n in range(100)))
        client.append_values(topic, *(b"%d" % n for n in range(100, 120)))
        assert client.delete_records(topic, 37).low_watermark == 37
        for restart in (lambda: None, restartable.restart, restartable.crash):
            restart()
            client.reconnect()
            eventually(lambda: client.end_offset(topic), wanted=lambda end: end == 120, what="the log's end")
            if not (is_kafka() and restart == restartable.crash):  # Kafka writes the floor down once a minute
                assert client.start_offset(topic) == 37
                assert client.read_records(topic, 37)[0].value == b"37"
                assert client.fetch(topic, 36).error_code == errors.OFFSET_OUT_OF_RANGE
                assert first_offsets_of_clients(restartable, topic) == [37, 37]


def first_offsets_of_clients(broker, topic):
    return [confluent_read(broker, topic, 1, offset=confluent_kafka.OFFSET_BEGINNING)[0].offset(), kafka_python_first_offset(broker, topic)]


def kafka_python_first_offset(broker, topic):
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, 0)])
        records = eventually(lambda: consumer.poll(timeout_ms=200), what="a first record")
        return next(iter(records.values()))[0].offset


def test_delete_records_to_minus_1_means_the_high_watermark(client):
    """Section 8, admin: all records go, the offsets go on, and time lookups find nothing."""
    topic = client.new_topic("floor").name
    client.append_values(topic, *[b"x"] * 10)
    assert client.delete_records(topic, -1).low_watermark == 10
    assert (client.start_offset(topic), client.end_offset(topic)) == (10, 10)
    assert client.list_offset(topic, 0).offset == -1
    assert client.append_values(topic, b"next") == 10


def test_delete_records_never_moves_the_start_back(client):
    """Section 8, admin: a lower offset is no error and changes nothing."""
    topic = client.new_topic("floor").name
    client.append_values(topic, *[b"x"] * 10)
    client.delete_records(topic, 6)
    answer = client.delete_records(topic, 3)
    assert (answer.error_code, answer.low_watermark, client.start_offset(topic)) == (errors.NONE, 6, 6)


# Section 8, Produce


@pytest.mark.beyond_kafka("Kafka shows a leader a moment before it serves, and answers 6 in between")
def test_produce_right_after_creation_is_not_refused(client):
    """Section 8, topics: a leader shows in Metadata only when it serves."""
    for _ in range(30):
        name = unique("right-after")
        assert client.create(name, partitions=3).error_code == errors.NONE
        assert client.append(name, values_batch(b"x"), partition=2) == 0


def test_produce_by_topic_id(client):
    """Section 8, Produce v13: the id in place of the name, there and back."""
    topic = client.new_topic("by-id")
    answer = client.call("Produce", 13, **produce_fields(topic.id, values_batch(b"x"))).responses[0]
    assert (answer.topic_id, answer.partition_responses[0].base_offset) == (topic.id, 0)


def test_produce_to_several_partitions_answers_each(client):
    """Section 8, Produce: one bad partition spoils no other."""
    topic = client.new_topic("several", partitions=3).name
    batches = {0: values_batch(b"a"), 1: values_batch(b"b", crc=1), 2: values_batch(b"c"), 9: values_batch(b"d")}
    data = [{"name": topic, "partition_data": [{"index": i, "records": b.encode()} for i, b in batches.items()]}]
    answer = client.call("Produce", 12, acks=-1, timeout_ms=5000, topic_data=data).responses[0]
    codes = {p.index: p.error_code for p in answer.partition_responses}
    assert codes == {0: errors.NONE, 1: errors.CORRUPT_MESSAGE, 2: errors.NONE, 9: errors.UNKNOWN_TOPIC_OR_PARTITION}


def test_keyless_records_on_a_compacted_topic_are_named_by_index(client):
    """Section 8, Produce v8+: error 87 with the index of each bad record, and nothing is appended."""
    topic = client.new_topic("keyless", cleanup_policy="compact").name
    answer = client.produce(topic, Batch([Record(b"a", b"k"), Record(b"b"), Record(b"c", b"k"), Record(b"d")]))
    assert answer.error_code == errors.INVALID_RECORD
    assert [e.batch_index for e in answer.record_errors] == [1, 3]
    assert answer.error_message.startswith("One or more records have been rejected due to 2 record errors in total, and only showing")
    assert client.end_offset(topic) == 0


def test_time_outside_the_window_is_refused_by_index(client):
    """Section 8, Produce: error 32 for both ends of the topic's window."""
    topic = client.new_topic("window", message_timestamp_before_max_ms=HOUR_MS, message_timestamp_after_max_ms=HOUR_MS).name
    now = now_ms()
    for wrong in (now - 2 * HOUR_MS, now + 2 * HOUR_MS):
        answer = client.produce(topic, Batch([Record(b"a", timestamp=now), Record(b"b", timestamp=wrong)]))
        assert answer.error_code == errors.INVALID_TIMESTAMP
        assert [e.batch_index for e in answer.record_errors] == [1]
        assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
    assert client.end_offset(topic) == 0


def test_batch_limit_counts_the_batch_after_compression(client):
    """Section 8, Produce: `max.message.bytes` is about what would be appended."""
    topic = client.new_topic("large", max_message_bytes=10_000).name
    assert client.produce(topic, values_batch(b"x" * 20_000)).error_code == errors.MESSAGE_TOO_LARGE
    for codec in CODECS.values():
        assert client.produce(topic, values_batch(b"x" * 20_000, codec=codec)).error_code == errors.NONE


def test_batch_of_exactly_the_limit_is_taken(client):
    """Section 8, Produce: the limit itself is allowed, one byte more is not."""
    size = len(values_batch(b"x" * 1000).encode())
    topic = client.new_topic("exact", max_message_bytes=size).name
    assert client.produce(topic, values_batch(b"x" * 1001)).error_code == errors.MESSAGE_TOO_LARGE
    assert client.produce(topic, values_batch(b"x" * 1000)).error_code == errors.NONE


def test_min_insync_replicas_never_asks_for_more_than_there_are(client):
    """Section 8, Produce: with one replica a minimum of 2 counts as 1, as Kafka has it; error 19 needs more nodes than one."""
    topic = client.new_topic("min-isr", min_insync_replicas=2).name
    for acks in (-1, 1):
        assert client.produce(topic, values_batch(b"x"), acks=acks).error_code == errors.NONE


def test_answer_carries_the_log_start_offset(client):
    """Section 8, Produce v5+."""
    topic = client.new_topic("start").name
    client.append_values(topic, *[b"x"] * 10)
    client.delete_records(topic, 4)
    answer = client.produce(topic, values_batch(b"y"))
    assert (answer.base_offset, answer.log_start_offset) == (10, 4)


def test_appended_batch_gets_offset_and_leader_epoch_and_keeps_its_bytes(client):
    """Section 8, Produce: outside the CRC the broker sets two fields; all else is as sent, whatever the client wrote there."""
    topic = client.new_topic("bytes").name
    client.append_values(topic, b"first")
    epoch = client.topic_metadata(topic).partitions[0].leader_epoch
    batch = values_batch(b"a", b"b", codec=CODECS["lz4"], leader_epoch=77)
    sent = batch.encode()
    assert client.append(topic, sent) == 1
    read = client.read(topic, 1)[0]
    assert (read.base_offset, read.leader_epoch, read.crc_is_right) == (1, epoch, True)
    assert (read.raw[8:12], read.raw[16:]) == (sent[8:12], sent[16:])


# Section 8, Fetch


def test_fetch_inside_a_batch_returns_the_whole_batch(client):
    """Section 8, Fetch: the client skips what it did not ask for."""
    topic = client.new_topic("middle").name
    client.append_values(topic, *[b"x"] * 10)
    client.append_values(topic, *[b"y"] * 10)
    batches = read_batches(client.fetch(topic, 15).records)
    assert [b.base_offset for b in batches] == [10]


def test_fetch_returns_a_first_batch_that_is_larger_than_every_limit(client):
    """Section 8, Fetch: else a consumer could never pass it; the second partition is then empty."""
    topic = client.new_topic("first", partitions=2).name
    for partition in (0, 1):
        client.append_values(topic, b"x" * 100_000, partition=partition)
    partitions = [fetch_partition(p, partition_max_bytes=10) for p in (0, 1)]
    answer = client.call("Fetch", 12, max_wait_ms=0, min_bytes=1, max_bytes=10, topics=[{"topic": topic, "partitions": partitions}])
    sizes = {p.partition_index: len(p.records or b"") for p in answer.responses[0].partitions}
    assert sizes[0] > 100_000
    assert sizes[1] == 0


def test_fetch_serves_partitions_in_the_order_of_the_request(client):
    """Section 8, Fetch: what comes first in the request gets the bytes."""
    topic = client.new_topic("order", partitions=3).name
    for partition in range(3):
        client.append_values(topic, b"x" * 1000, partition=partition)
    for order in ([2, 0, 1], [1, 2, 0]):
        topics = [{"topic": topic, "partitions": [fetch_partition(p) for p in order]}]
        answer = client.call("Fetch", 12, max_wait_ms=0, min_bytes=1, max_bytes=500, topics=topics)
        filled = [p.partition_index for p in answer.responses[0].partitions if p.records]
        assert filled == [order[0]]


def test_fetch_limits_whole_batches_to_the_partitions_limit(client):
    """Section 8, Fetch: more than the limit comes only as a cut-off batch or not at all."""
    topic = client.new_topic("limit").name
    for _ in range(10):
        client.append_values(topic, b"x" * 1000)
    answer = client.fetch(topic, partition_max_bytes=3500)
    assert len(answer.records) <= 3500
    assert [b.base_offset for b in read_batches(answer.records)] == [0, 1, 2]


def test_fetch_waits_for_its_time_when_there_is_nothing(client):
    """Section 8, Fetch: max_wait_ms is kept, neither much shorter nor much longer."""
    topic = client.new_topic("wait").name
    started = time.monotonic()
    answer = client.fetch(topic, max_wait_ms=400)
    assert 0.35 < time.monotonic() - started < 3
    assert (answer.records, answer.high_watermark) == (b"", 0)


def test_fetch_waits_until_min_bytes_are_there(broker, client):
    """Section 8, Fetch: too little does not wake it, enough does, at once."""
    topic = client.new_topic("min-bytes").name
    with broker.connect() as connection:
        topics = [{"topic": topic, "partitions": [fetch_partition()]}]
        waiting = connection.send("Fetch", 12, max_wait_ms=10_000, min_bytes=5000, max_bytes=MIB, topics=topics)
        client.append_values(topic, b"x" * 1000)
        assert not connection.has_answer_within(0.3)
        client.append_values(topic, b"x" * 5000)
        filled = time.monotonic()
        answer = connection.receive("Fetch", 12, waiting)
        assert time.monotonic() - filled < 1
        assert len(read_batches(answer.responses[0].partitions[0].records)) == 2


def test_error_in_one_partition_is_answered_at_once(client):
    """Section 8, Fetch: an error ends the wait of the whole request."""
    topic = client.new_topic("error").name
    started = time.monotonic()
    assert client.fetch(topic, offset=5, max_wait_ms=5000).error_code == errors.OFFSET_OUT_OF_RANGE
    assert time.monotonic() - started < 2


def test_out_of_range_answer_still_tells_the_marks(client):
    """Section 8, Fetch: error 1 below the start and above the end, none at the end itself."""
    topic = client.new_topic("range").name
    client.append_values(topic, *[b"x"] * 10)
    client.delete_records(topic, 4)
    assert client.fetch(topic, 3).error_code == errors.OFFSET_OUT_OF_RANGE
    assert client.fetch(topic, 11).error_code == errors.OFFSET_OUT_OF_RANGE
    answer = client.fetch(topic, 10)
    assert (answer.error_code, answer.high_watermark, answer.log_start_offset) == (errors.NONE, 10, 4)


def test_read_committed_sees_plain_records_up_to_the_last_stable_offset(client):
    """Section 8, Fetch: without transactions LSO and HW are one, and no transaction is aborted."""
    topic = client.new_topic("committed").name
    client.append_values(topic, b"a", b"b")
    topics = [{"topic": topic, "partitions": [fetch_partition()]}]
    answer = client.call("Fetch", 12, max_wait_ms=0, min_bytes=1, isolation_level=1, topics=topics).responses[0].partitions[0]
    assert (answer.high_watermark, answer.last_stable_offset, answer.aborted_transactions or []) == (2, 2, [])
    assert len(read_batches(answer.records)) == 1


def test_fetch_names_no_preferred_replica_without_racks(client):
    """Section 8, Fetch v11+."""
    topic = client.new_topic("rack").name
    topics = [{"topic": topic, "partitions": [fetch_partition()]}]
    answer = client.call("Fetch", 12, max_wait_ms=0, min_bytes=1, rack_id="a", topics=topics)
    assert answer.responses[0].partitions[0].preferred_read_replica == -1


def test_diverging_epoch_is_reported_at_once(client):
    """Section 8, Fetch v12+: a last fetched epoch that this log never had."""
    topic = client.new_topic("diverge").name
    client.append_values(topic, b"a", b"b")
    epoch = client.topic_metadata(topic).partitions[0].leader_epoch
    answer = client.fetch(topic, 2, last_fetched_epoch=epoch, max_wait_ms=0)
    assert (answer.error_code, answer.diverging_epoch.get("end_offset", -1)) == (errors.NONE, -1)
    answer = client.fetch(topic, 5, last_fetched_epoch=epoch, max_wait_ms=5000)
    assert (answer.error_code, answer.diverging_epoch) == (errors.NONE, {"epoch": epoch, "end_offset": 2})


def test_leader_epochs_fence_reads(restartable):
    """Section 8, Fetch and ListOffsets: the current epoch passes, a newer one gets 75, an older one 74."""
    with Client(restartable) as client:
        topic = client.new_topic("fence").name
        client.append_values(topic, b"a")
        restartable.restart()
        client.reconnect()
        client.wait_until_served(topic)
        epoch = client.topic_metadata(topic).partitions[0].leader_epoch
        wanted = {epoch: errors.NONE, epoch + 1: errors.UNKNOWN_LEADER_EPOCH, -1: errors.NONE}
        if epoch > 0:
            wanted[epoch - 1] = errors.FENCED_LEADER_EPOCH
        for asked, code in wanted.items():
            assert client.fetch(topic, current_leader_epoch=asked).error_code == code


def test_unknown_topic_id_is_refused_and_others_are_served(client):
    """Section 8, Fetch v13+: one unknown id spoils no other partition."""
    topic = client.new_topic("ids")
    client.append_values(topic.name, b"x")
    unknown = uuid.uuid4()
    topics = [{"topic_id": i, "partitions": [fetch_partition()]} for i in (unknown, topic.id)]
    entries = partitions_in(client.call("Fetch", 17, max_wait_ms=0, min_bytes=1, topics=topics))
    assert entries[(unknown, 0)].error_code == errors.UNKNOWN_TOPIC_ID
    assert len(read_batches(entries[(topic.id, 0)].records)) == 1
