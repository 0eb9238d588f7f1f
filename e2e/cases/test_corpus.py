"""Real input: 200 MB of real text from installed packages goes through producer, broker, restart and consumer, and comes back with
equal checksums; the same in each codec."""

import functools
import hashlib
import os
import pathlib

import confluent_kafka
import pytest

from raw.client import Client

CORPUS_BYTES = 200_000_000
RECORD_BYTES_MAX = 500_000
PARTITIONS = 3
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
# Folders of text that every machine with the tests' tools has some of.
FOLDERS = ["/usr/share/doc", "/usr/share/perl", "/usr/lib/python3", "/usr/lib/python3.11", "/usr/share/nodejs", "/usr/local/go/src", "/usr/lib/go/src"]
MORE_FOLDERS = [os.environ.get("CARGO_HOME", str(pathlib.Path.home() / ".cargo")) + "/registry/src"]
ENDINGS = {".txt", ".md", ".html", ".py", ".go", ".rs", ".js", ".json", ".pm", ".pod", ".h", ".c", ".xml", ".rst", ".toml", ""}


def text_files():
    for folder in [*FOLDERS, *MORE_FOLDERS]:
        for parent, folders, names in os.walk(folder):
            folders.sort()
            for name in sorted(names):
                path = pathlib.Path(parent, name)
                if path.suffix in ENDINGS and path.is_file() and not path.is_symlink():
                    yield path


@functools.cache
def corpus():
    """(key, value) pairs of at least 200 MB: the files cut to what a record may hold."""
    records, total = [], 0
    for path in text_files():
        content = path.read_bytes()
        for start in range(0, len(content), RECORD_BYTES_MAX):
            records.append((f"{path}#{start}".encode(), content[start : start + RECORD_BYTES_MAX]))
        total += len(content)
        if total >= CORPUS_BYTES:
            return records
    raise AssertionError(f"only {total} bytes of text in {FOLDERS + MORE_FOLDERS}")


def checksum(pairs):
    """One sum over all pairs, whatever order the partitions come in."""
    return hashlib.sha256(b"".join(sorted(hashlib.sha256(key + b"\0" + value).digest() for key, value in pairs))).hexdigest()


def produce(bootstrap, topic, codec):
    failures = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": 500_000,
            "queue.buffering.max.kbytes": 65_536,
        }
    )

    def delivered(error, _message):
        if error is not None:
            failures.append(error)

    for key, value in corpus():
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failures == [], failures[:3]


def consume(bootstrap, topic):
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "check.crcs": True, "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    records, ended = [], set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None, f"nothing for 30 s after {len(records)} records"
        if message.error() is None:
            records.append((message.key(), message.value()))
        elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        else:
            raise AssertionError(message.error())
    consumer.close()
    return records


@pytest.mark.timeout(240)
def test_200_mb_of_real_text_come_back_after_a_restart_in_every_codec(own_broker):
    broker = own_broker()
    wanted = checksum(corpus())
    for number, codec in enumerate(CODECS):
        with Client(broker) as client:
            topic = client.new_topic(f"corpus-{codec}", partitions=PARTITIONS, segment_bytes=20_000_000).name
            client.wait_for_topic(topic)
        produce(broker.bootstrap, topic, codec)
        (broker.crash if number % 2 else broker.restart)()
        records = consume(broker.bootstrap, topic)
        assert len(records) == len(corpus()), codec
        assert checksum(records) == wanted, codec
        with Client(broker) as client:
            client.delete_topic(topic)
