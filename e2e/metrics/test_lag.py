"""Lag against ground truth (cases M-01 to M-03), and what becomes of a scrape that stalls."""

import contextlib
import socket
import subprocess

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec
from raw.wait import eventually

LAG = "kafka_consumergroup_lag"
# Names that break what does not escape them.
HOSTILE = ['quoted "x"', "back\\slash", "line\nfeed", "emoji 🦀", '"} 1\nfake_metric{a="b']
# More than scrapes at a time.
STALLED = 12


def commit(cluster, group, topic, offset, partition=0):
    consumer = cluster.consumer(group)
    consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
    consumer.close()


def delete_records(cluster, topic, before):
    admin = cluster.admin()
    for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(30)


def end_of(cluster, topic):
    admin = cluster.admin()
    partition = TopicPartition(topic, 0)
    return admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(30).offset


def test_lag_is_what_is_left_to_read(cluster):
    cluster.create_topic("truth")
    cluster.produce("truth", 50)
    for committed in (0, 20, 50):
        commit(cluster, "reader", "truth", committed)
        left = end_of(cluster, "truth") - committed
        eventually(lambda: cluster.value(LAG, consumergroup="reader", topic="truth"), lambda lag, left=left: lag == left)
    seconds = cluster.value("kafka_consumergroup_group_lag_seconds", group="reader", topic="truth")
    assert seconds == 0


def test_deleted_records_are_no_backlog_and_nothing_committed_is_no_lag(cluster):
    """M-01."""
    cluster.create_topic("expires")
    cluster.produce("expires", 100)
    commit(cluster, "early", "expires", 10)
    eventually(lambda: cluster.value(LAG, consumergroup="early"), lambda lag: lag == 90)
    delete_records(cluster, "expires", 100)
    eventually(lambda: cluster.value(LAG, consumergroup="early"), lambda lag: lag == 0)
    assert cluster.value("taffrail_consumer_group_unread_deleted_records", group="early") == 90
    assert cluster.value(LAG, consumergroup="never") is None


def test_what_is_gone_leaves_no_series(cluster):
    """M-02."""
    for number in range(5):
        topic = f"passing-{number}"
        cluster.create_topic(topic)
        commit(cluster, f"group-of-{topic}", topic, 0)
    eventually(lambda: "group-of-passing-4" in cluster.metrics())
    admin = cluster.admin()
    for future in admin.delete_consumer_groups([f"group-of-passing-{number}" for number in range(5)]).values():
        future.result(30)
    for future in admin.delete_topics([f"passing-{number}" for number in range(5)]).values():
        future.result(30)
    eventually(cluster.metrics, lambda text: "passing-" not in text, what="a scrape without series of what is gone")


def test_a_topic_made_anew_begins_without_lag(cluster):
    cluster.create_topic("reborn")
    cluster.produce("reborn", 30)
    commit(cluster, "survivor", "reborn", 5)
    eventually(lambda: cluster.value(LAG, consumergroup="survivor"), lambda lag: lag == 25)
    admin = cluster.admin()
    admin.delete_topics(["reborn"])["reborn"].result(30)
    cluster.create_topic("reborn")
    cluster.produce("reborn", 3)
    eventually(lambda: cluster.value(LAG, consumergroup="survivor"), lambda lag: lag is None)


def test_hostile_names_break_no_scrape(cluster):
    """M-03."""
    cluster.create_topic("a.b")
    cluster.create_topic("a-b")
    for group in HOSTILE:
        commit(cluster, group, "a.b", 0)
    text = eventually(cluster.metrics, lambda text: all(f'consumergroup="{escaped(group)}"' in text for group in HOSTILE))
    assert not [line for line in text.splitlines() if line.startswith("fake_metric")]
    for path in ("/metrics", "/metrics/summary"):
        parsed = subprocess.run(["promtool", "check", "metrics"], input=cluster.metrics(path), text=True, capture_output=True)
        # Status 3 is about style, which Kafka's names do not have.
        assert parsed.returncode in (0, 3) and "error while linting" not in parsed.stderr, parsed.stderr[-2000:]
    series = [line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series)), "a series stands twice"


def escaped(label):
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def test_the_summary_does_not_grow_with_topics_and_groups(cluster):
    names = {line.split("{")[0] for line in cluster.metrics("/metrics/summary").splitlines() if 'topic="' in line or 'group="' in line}
    assert names == set()
    assert "taffrail_consumer_groups_lag_max_records" in cluster.metrics("/metrics/summary")


def test_clients_that_stall_keep_nobody_from_scraping(cluster):
    with contextlib.ExitStack() as stack:
        for _ in range(STALLED):
            stalled = stack.enter_context(socket.create_connection(("127.0.0.1", cluster.metrics_port)))
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stalled.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20)

        def scraped():
            with contextlib.suppress(OSError):
                return "kafka_brokers" in cluster.metrics()
            return False

        eventually(scraped, timeout_s=30, poll_s=0.5, what="a scrape beside clients that read nothing")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_told(cluster, path):
    assert cluster.metrics(path)
