"""Overload is input too: more connections, partitions and bytes than a broker can take at once. Memory stays bounded, others are
served, and nothing that was acknowledged is lost.
"""

import contextlib
import os
import pathlib
import resource
import threading
import time

import pytest

from raw import errors
from raw.batch import values_batch
from raw.broker import is_kafka
from raw.client import Client, produce_fields, unique
from raw.connection import ConnectionClosed
from raw.wait import eventually

MIB = 1 << 20
# Half of the files that a process may have open is for connections, and 20,000 is a usual limit.
OPEN_FILES = 20_000
CONNECTIONS = 9_500
# Of the broker, beyond what it had before: 7 KiB a connection, and what the allocator makes of it.
CONNECTIONS_MEMORY_BYTES = 80 * MIB
ANSWER_S = 5


@pytest.fixture
def many_files():
    """Lets this process have as many sockets as the test opens."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < OPEN_FILES:
        pytest.skip(f"a process may have {hard} open files here, {OPEN_FILES} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def is_served(broker):
    """One record in and out on a new connection, within the time that a client gives an answer."""
    with Client(broker, timeout_s=ANSWER_S) as client:
        topic = client.new_topic("served").name
        client.append_values(topic, b"here")
        return client.read_values(topic) == [b"here"]


def test_nearly_ten_thousand_connections_cost_little_and_others_are_served(own_broker, many_files):
    broker = own_broker(open_file_limit=OPEN_FILES)
    assert is_served(broker)
    before = broker.rss_bytes()
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            connection = stack.enter_context(broker.connect())
            # The largest request that is allowed is announced, and nothing of it comes.
            connection.send_bytes((100 * MIB).to_bytes(4, "big"))
        assert is_served(broker)
        if not is_kafka():  # a JVM's size says nothing here
            assert broker.rss_bytes() - before < CONNECTIONS_MEMORY_BYTES
    eventually(lambda: broker.open_files() < CONNECTIONS / 10, timeout_s=30, what="closed connections")
    assert is_served(broker)


def test_a_hundred_thousand_partitions_in_one_request_are_refused_and_cost_nothing(client, broker):
    before = broker.rss_bytes()
    refused = client.create(unique("huge"), partitions=100_000)
    assert refused.error_code == errors.POLICY_VIOLATION, refused
    assert is_kafka() or broker.rss_bytes() - before < 16 * MIB
    assert is_served(broker)


# Clients that give only a part

HALVES = 8
HALF_BYTES = 50 * MIB
STUCK_S = 2


def test_large_requests_whose_rest_never_comes_hold_up_no_small_ones(own_broker):
    """Together they are more than all requests may take."""
    broker = own_broker()
    assert is_served(broker)
    half = (2 * HALF_BYTES).to_bytes(4, "big") + bytes(HALF_BYTES)
    with contextlib.ExitStack() as stack:
        for _ in range(HALVES):
            connection = stack.enter_context(broker.connect(timeout_s=STUCK_S))
            # Those for whom there is no room are not read.
            with contextlib.suppress(OSError, ConnectionClosed):
                connection.send_bytes(half)
            assert is_served(broker)
    assert is_served(broker)


# A disk that takes less than is offered

DISK_BYTES_PER_S = 4 * MIB
PRODUCERS = 8
SECONDS = 20
BATCH_BYTES = 256 * 1024


@contextlib.contextmanager
def slow_disk(pid, folder):
    """Lets the process write this fast and no faster, by the blkio controller (cgroup v1)."""
    root = pathlib.Path("/sys/fs/cgroup/blkio")
    if not (root / "blkio.throttle.write_bps_device").exists():
        pytest.skip("no blkio controller that can slow a disk")
    device = os.stat(folder).st_dev
    group = root / unique("taffrail-overload")
    group.mkdir()
    try:
        limit = f"{os.major(device)}:{os.minor(device)} {DISK_BYTES_PER_S}"
        (group / "blkio.throttle.write_bps_device").write_text(limit)
        (group / "cgroup.procs").write_text(str(pid))
        yield
        (root / "cgroup.procs").write_text(str(pid))
    finally:
        # The threads of a process that has ended take a moment to leave.
        eventually(lambda: not (group / "cgroup.procs").read_text().split(), what="an empty control group")
        group.rmdir()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_disk_slower_than_the_producers_holds_them_back_and_loses_nothing(own_broker):
    broker = own_broker()
    with Client(broker) as client:
        topic = client.new_topic("flushed", partitions=PRODUCERS, flush_messages=1).name
    before = broker.rss_bytes()
    acknowledged = [0] * PRODUCERS
    deadline = time.monotonic() + SECONDS

    def produce(partition):
        """Five requests on the way, as clients have, each answered only when it is on the disk."""
        value = os.urandom(BATCH_BYTES)
        with contextlib.suppress(ConnectionClosed), broker.connect(timeout_s=120) as connection:
            fields = produce_fields(topic, values_batch(value), partition)
            waiting = [connection.send("Produce", 12, **fields) for _ in range(5)]
            while waiting:
                answer = connection.receive("Produce", 12, waiting.pop(0))
                assert answer.responses[0].partition_responses[0].error_code == errors.NONE, answer
                acknowledged[partition] += 1
                if time.monotonic() < deadline:
                    waiting.append(connection.send("Produce", 12, **fields))

    with slow_disk(broker.pid(), broker.folder):
        threads = [threading.Thread(target=produce, args=(partition,)) for partition in range(PRODUCERS)]
        for thread in threads:
            thread.start()
        while time.monotonic() < deadline:
            with Client(broker, timeout_s=ANSWER_S) as client:
                assert client.topic_metadata(topic).error_code == errors.NONE
            assert is_kafka() or broker.rss_bytes() - before < 128 * MIB
            time.sleep(0.5)
        for thread in threads:
            thread.join(120)
    total = sum(acknowledged) * BATCH_BYTES
    assert 0 < total < 4 * SECONDS * DISK_BYTES_PER_S, "the disk was not slow"
    assert min(acknowledged) > 0 and max(acknowledged) < 4 * min(acknowledged), f"not fair: {acknowledged}"
    broker.crash()
    with Client(broker) as client:
        for partition, count in enumerate(acknowledged):
            assert client.list_offset(topic, -1, partition).offset >= count
