"""Files, retention, damage and limits: cases S-01 to S-06 with one node (S-02, tombstones, comes with a later part)."""

import contextlib
import os
import pathlib
import subprocess
import time
import urllib.request

import pytest

from raw import errors
from raw.batch import HEADER_BYTES, Batch, Record, now_ms, values_batch
from raw.broker import is_kafka
from raw.client import Client, unique
from raw.damage import INDEX_DAMAGE, fetch_or_error, flip_byte, segments, spoil_tail
from raw.disk import small_volume
from raw.process import environment
from raw.wait import eventually

MIB = 1 << 20
YEAR_2050_MS = 2_524_608_000_000
FOREVER_MS = 2**63 - 1
RETENTION_MS = 1500
SMALL_SEGMENT = {"segment_bytes": MIB, "retention_ms": RETENTION_MS}
DATA_ERRORS = (errors.KAFKA_STORAGE_ERROR, errors.CORRUPT_MESSAGE)


def fill(client, topic, batches, value_bytes=100_000, partition=0):
    """Appends that many batches of one record each."""
    for _ in range(batches):
        client.append_values(topic, b"x" * value_bytes, partition=partition)


def wait_for_start(client, topic, at_least, timeout_s=20):
    eventually(lambda: client.start_offset(topic), wanted=lambda o: o >= at_least, timeout_s=timeout_s, what=f"a start past {at_least}")


# S-01


@pytest.mark.parametrize("timestamp", [YEAR_2050_MS, now_ms() * 1000], ids=["in 2050", "in microseconds"])
def test_record_dated_far_ahead_is_refused(client, timestamp):
    """S-01: message.timestamp.after.max.ms is 1 h unless said otherwise: error 32."""
    topic = client.new_topic("s01").name
    assert client.produce(topic, Batch([Record(b"x", timestamp=timestamp)])).error_code == errors.INVALID_TIMESTAMP


def test_log_append_time_is_immune_to_records_dated_ahead(client):
    """S-01, with 3 MB in place of 20: the record is taken, its date is not, and retention passes it."""
    topic = client.new_topic("s01", message_timestamp_type="LogAppendTime", **SMALL_SEGMENT).name
    client.append(topic, Batch([Record(b"x", timestamp=YEAR_2050_MS)]))
    fill(client, topic, 30)
    wait_for_start(client, topic, 20)


@pytest.mark.beyond_kafka("there the segment with the record dated 2050 stays until 2050, and all behind it")
def test_retention_works_although_a_record_dated_2050_was_let_in(client):
    """S-01: where the window is raised, one such record does not stop retention by time."""
    topic = client.new_topic("s01", message_timestamp_after_max_ms=FOREVER_MS, **SMALL_SEGMENT).name
    client.append(topic, Batch([Record(b"x", timestamp=YEAR_2050_MS)]))
    fill(client, topic, 30)
    wait_for_start(client, topic, 10, timeout_s=30)


def test_retention_by_time_reaches_the_active_segment(client):
    """Section 4 of the plan: a quiet topic gets empty too; its offsets go on."""
    topic = client.new_topic("quiet", retention_ms=RETENTION_MS).name
    client.append_values(topic, b"a", b"b", b"c")
    wait_for_start(client, topic, 3)
    assert client.append_values(topic, b"next") == 3


def test_retention_by_size_keeps_no_more_than_asked_and_a_segment(broker, client):
    """Section 4 of the plan: the oldest whole segments go; records that are left are read."""
    topic = client.new_topic("size", segment_bytes=MIB, retention_bytes=2 * MIB).name
    fill(client, topic, 60)

    def size():
        return sum(f.stat().st_size for f in segments(broker, topic))

    wait_for_start(client, topic, 20)
    eventually(size, wanted=lambda n: n <= 3 * MIB + 200_000, what="the log's size")
    start = client.start_offset(topic)
    assert len(client.read_values(topic, start)) == 60 - start


def test_segments_roll_by_size_and_are_named_by_their_first_offset(broker, client):
    """Section 4 of the plan: names of 20 digits, one index and one time index each."""
    topic = client.new_topic("roll", segment_bytes=MIB).name
    fill(client, topic, 30)
    files = segments(broker, topic)
    assert len(files) >= 3
    for file in files:
        base = int.from_bytes(file.read_bytes()[:8], "big")
        assert file.name == f"{base:020}.log"
        assert file.stat().st_size <= MIB
        assert file.with_suffix(".index").exists() and file.with_suffix(".timeindex").exists()


# S-03


def fill_until_refused(client, topic, limit=500):
    """Appends 1 MB at a time until it is refused; returns what was acknowledged and the error (None: no answer in time)."""
    for number in range(limit):
        try:
            answer = client.produce(topic, values_batch(b"%d" % number * 100_000), timeout_ms=3000)
        except TimeoutError:
            client.reconnect()
            return number, None
        if answer.error_code != errors.NONE:
            return number, answer.error_code
    raise AssertionError("the disk did not get full")


@pytest.mark.beyond_kafka("its broker halts when its only log directory fails")
def test_full_disk_stops_writes_only_and_space_brings_them_back(own_broker, tmp_path):
    """S-03, on 64 MB in place of 300: reads, metadata, deletes and /metrics go on; it starts while full; writes resume."""
    folder = tmp_path / "broker"
    with small_volume(folder / "data", 64) as grow:
        broker = own_broker({"log.segment.bytes": 4 * MIB}, folder=folder)
        with Client(broker) as client:
            kept, doomed = (client.new_topic("s03").name for _ in range(2))
            fill(client, doomed, 20)
            acknowledged, code = fill_until_refused(client, kept)
            assert code in (errors.KAFKA_STORAGE_ERROR, None)
            for again in (lambda: None, broker.crash):
                again()
                client.reconnect()
                check_serves_while_full(broker, client, kept, acknowledged)
            assert client.delete_records(kept, 1).error_code == errors.NONE
            assert client.delete_topic(doomed) == errors.NONE
            grow(160)
            resumed = eventually(lambda: client.produce(kept, values_batch(b"y")), wanted=lambda a: a.error_code == 0, timeout_s=30)
            assert resumed.base_offset >= acknowledged
        broker.stop()


def check_serves_while_full(broker, client, topic, acknowledged):
    assert broker.is_alive()
    client.wait_until_served(topic)
    values = client.read_values(topic)
    assert values[:acknowledged] == [b"%d" % n * 100_000 for n in range(acknowledged)]
    assert client.topic_metadata(topic).error_code == errors.NONE
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics", timeout=10) as answer:
        assert answer.status == 200


# S-04


def append_numbers(client, topic, first, last):
    for number in range(first, last):
        client.append(topic, Batch([Record(b"%d" % number * 100, timestamp=now_ms())]))


def assert_dense_prefix(client, topic, at_least, at_most):
    """The log is the first n of the numbers appended, each at its offset; returns n."""
    values = client.read_values(topic)
    assert values == [b"%d" % n * 100 for n in range(len(values))]
    assert at_least <= len(values) <= at_most
    return len(values)


CUTS = [1, 17, HEADER_BYTES, 300, 500]


@pytest.mark.parametrize("damage", ["cut", "zeroed"])
def test_torn_tail_is_cut_back_to_the_last_whole_batch(restartable, damage):
    """S-04: after a kill the last bytes are gone or zero; what stands before them is served, and offsets go on from there."""
    with Client(restartable) as client:
        topic, end = client.new_topic("s04").name, 0
        for size in CUTS:
            append_numbers(client, topic, end, end + 20)
            restartable.kill()
            spoil_tail(segments(restartable, topic)[-1], size, damage)
            restartable.start_again()
            client.reconnect()
            client.wait_until_served(topic)
            end = assert_dense_prefix(client, topic, end + 20 - 1 - size // 200, end + 19)
            assert client.end_offset(topic) == end


@pytest.mark.parametrize("damage", INDEX_DAMAGE.values(), ids=INDEX_DAMAGE)
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_damaged_indexes_are_rebuilt(restartable, damage, how):
    """S-04: reads and time lookups are right after indexes were deleted, cut or garbled, of old and of active segments."""
    if is_kafka() and how == "stop" and damage is not pathlib.Path.unlink:
        pytest.skip("beyond Kafka: after a clean stop it takes indexes of old segments as they are")
    with Client(restartable) as client:
        topic = client.new_topic("s04", segment_bytes=MIB, index_interval_bytes=4096).name
        times = [now_ms() - 1_000_000 + 1000 * n for n in range(40)]
        for timestamp in times:
            client.append(topic, Batch([Record(b"x" * 100_000, timestamp=timestamp)]))
        getattr(restartable, how)()
        for file in segments(restartable, topic, "index"):
            damage(file)
        restartable.start_again()
        client.reconnect()
        client.wait_until_served(topic)
        assert len(client.read_values(topic)) == 40
        for number in range(0, 40, 3):
            assert client.list_offset(topic, times[number] - 500).offset == number
            assert client.read_records(topic, number)[0].offset == number


def test_start_after_a_kill_with_many_partitions_is_fast(restartable):
    """S-04, with 200 partitions in place of 500: start and first answer of each within the bound of 60 s, shown by waiting."""
    with Client(restartable) as client:
        topic = client.new_topic("s04", partitions=200).name
        for partition in range(200):
            client.append_values(topic, b"x", partition=partition)
        started = time.monotonic()
        restartable.crash()
        client.reconnect()
        client.wait_until_served(topic, 200)
        assert time.monotonic() - started < 60
        assert [client.end_offset(topic, p) for p in range(200)] == [1] * 200


@pytest.mark.beyond_kafka("it hands out the damaged bytes and leaves the finding to the consumer")
def test_flipped_byte_in_old_data_is_never_served_as_good(restartable):
    """S-04: the partition says which file is damaged; no batch with a wrong CRC leaves the broker; others are served."""
    with Client(restartable) as client:
        damaged, sound = (client.new_topic("s04", segment_bytes=MIB).name for _ in range(2))
        for topic in (damaged, sound):
            fill(client, topic, 30)
        restartable.stop()
        file = segments(restartable, damaged)[0]
        flip_byte(file, file.stat().st_size // 2)
        restartable.start_again()
        client.reconnect()
        client.wait_until_served(sound)
        assert len(client.read_values(sound)) == 30
        answer = eventually(lambda: fetch_or_error(client, damaged), wanted=lambda a: a in DATA_ERRORS, what="an error for the damage")
        assert answer in DATA_ERRORS
        assert file.name in restartable.log_text()


@pytest.mark.beyond_kafka("it writes the floor down once a minute")
def test_delete_records_floor_survives_a_kill_right_after_the_answer(restartable):
    """Section 4 of the plan: an acknowledged DeleteRecords is durable."""
    with Client(restartable) as client:
        topic = client.new_topic("floor").name
        append_numbers(client, topic, 0, 20)
        for floor in (5, 11):
            assert client.delete_records(topic, floor).low_watermark == floor
            restartable.crash()
            client.reconnect()
            client.wait_until_served(topic)
            assert (client.start_offset(topic), client.end_offset(topic)) == (floor, 20)


@pytest.mark.beyond_kafka("it refuses to start beside a folder that it does not know")
def test_unknown_folders_are_left_alone(restartable):
    """Section 4 of the plan: neither served nor deleted, and no reason not to start."""
    with Client(restartable) as client:
        topic = client.new_topic("known").name
        append_numbers(client, topic, 0, 3)
        parent = restartable.partition_folder(topic).parent
        restartable.stop()
        strangers = [parent / "lost+found", parent / "never-heard-of-0"]
        for stranger in strangers:
            stranger.mkdir()
            (stranger / "precious").write_text("data")
        restartable.start_again()
        client.reconnect()
        client.wait_until_served(topic)
        assert client.topic_metadata("never-heard-of").error_code == errors.UNKNOWN_TOPIC_OR_PARTITION
        kept = [p.read_text() for p in restartable.data_folder.glob("**/precious")]
        assert kept == ["data", "data"]
        for place in {p.parent for p in restartable.data_folder.glob("**/precious")}:
            (place / "precious").unlink()
            place.rmdir()


# S-05


OPEN_FILE_LIMIT = 256


def hold_the_open_file_limit(broker, topics):
    """Makes up to `topics` topics of 20 partitions until one is refused clearly; then all that stand are served, thrice restarted."""
    with Client(broker) as client:
        made = create_until_refused(client, topics)
        with contextlib.ExitStack() as idle:
            for _ in range(100):
                idle.enter_context(broker.connect())
            for topic in made[:: max(1, len(made) // 10)]:
                client.append_values(topic, b"x", partition=19)
        counts = [files_after_restart(broker, client, made[0]) for _ in range(3)]
        assert max(counts) - min(counts) <= max(2, 0.05 * max(counts))
        assert max(counts) < OPEN_FILE_LIMIT


def create_until_refused(client, limit):
    """The names of the topics made; only 44 and 37 may refuse one."""
    made = []
    for _ in range(limit):
        name = unique("s05")
        code = client.create(name, partitions=20).error_code
        if code:
            assert code in (errors.POLICY_VIOLATION, errors.INVALID_PARTITIONS)
            return made
        made.append(name)
    return made


@pytest.mark.beyond_kafka("the JVM meets the limit with a crash")
def test_open_files_stay_below_the_limit_and_do_not_grow(own_broker):
    """S-05, with a limit of 256 in place of 4,096 and 600 partitions, which would need more: served by turns, or refused by 44 or 37."""
    hold_the_open_file_limit(own_broker(open_file_limit=OPEN_FILE_LIMIT), topics=30)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.beyond_kafka("the JVM meets the limit with a crash")
def test_open_files_stay_below_the_limit_with_10_000_partitions(own_broker):
    """S-05 until it is refused, or 10,000 partitions stand: the metadata must not be what meets the limit first."""
    hold_the_open_file_limit(own_broker(open_file_limit=OPEN_FILE_LIMIT), topics=500)


def files_after_restart(broker, client, topic):
    broker.restart()
    client.reconnect()
    client.wait_until_served(topic, 20)
    assert client.read_values(topic, partition=19)[0] == b"x"
    client.append_values(topic, b"y", partition=1)
    return broker.open_files()


def test_restarts_do_not_add_open_files(restartable):
    """S-05: the same count after each of three restarts, within 5 %."""
    with Client(restartable) as client:
        topic = client.new_topic("s05", partitions=50).name
        for partition in range(50):
            client.append_values(topic, b"x", partition=partition)
        counts = []
        for _ in range(3):
            restartable.restart()
            client.reconnect()
            client.wait_until_served(topic, 50)
            counts.append(restartable.open_files())
        assert max(counts) - min(counts) <= max(5, 0.05 * max(counts))


# S-06


def test_largest_batches_are_recovered_also_after_the_limit_was_lowered(restartable):
    """S-06, with 5 other topics in place of 20: batches of 8 MB under a limit of 16 MiB; kill; lower to 1 MiB; kill again."""
    with Client(restartable) as client:
        large = client.new_topic("s06", max_message_bytes=16 * MIB).name
        others = [client.new_topic("s06").name for _ in range(5)]
        for topic in others:
            append_numbers(client, topic, 0, 10)
        values = [bytes([n]) * 8_000_000 for n in range(3)]
        for value in values:
            client.append_values(large, value)
        for lower in (False, True):
            if lower:
                assert client.alter_configs(2, large, ("max.message.bytes", 0, str(MIB))) == errors.NONE
                eventually(
                    lambda: client.produce(large, values_batch(b"x" * 2 * MIB)).error_code, wanted=lambda c: c == errors.MESSAGE_TOO_LARGE
                )
            restartable.crash()
            client.reconnect()
            client.wait_until_served(large)
            assert client.read_values(large)[:3] == values
            for topic in others:
                assert_dense_prefix(client, topic, 10, 10)


@pytest.mark.beyond_kafka("it does not look at old segments when it starts")
def test_damage_in_one_partition_leaves_all_others_served(restartable):
    """S-06, third start: all but the damaged partition are served; one line says why, with file and offset."""
    with Client(restartable) as client:
        damaged, *others = (client.new_topic("s06", segment_bytes=MIB).name for _ in range(4))
        for topic in (damaged, *others):
            fill(client, topic, 25)
        restartable.kill()
        file = segments(restartable, damaged)[0]
        flip_byte(file, file.stat().st_size // 2)
        restartable.start_again()
        client.reconnect()
        for topic in others:
            client.wait_until_served(topic)
            assert len(client.read_values(topic)) == 25
        assert eventually(lambda: fetch_or_error(client, damaged), wanted=lambda c: c in DATA_ERRORS)
        lines = [line for line in restartable.log_text().splitlines() if file.name in line and damaged in line]
        assert lines


# Starting and stopping


def test_everything_is_found_again_after_a_clean_stop_and_after_a_kill(restartable):
    """S-04 at rest: records, topics, ids and leader's answers are the same before and after."""
    with Client(restartable) as client:
        topic = client.new_topic("again", partitions=3)
        for partition in range(3):
            client.append_values(topic.name, b"%d" % partition, partition=partition)
        cluster = client.call("Metadata", 12, topics=[]).cluster_id
        for again in (restartable.restart, restartable.crash):
            again()
            client.reconnect()
            client.wait_until_served(topic.name, 3)
            assert client.call("Metadata", 12, topics=[]).cluster_id == cluster
            assert client.topic_metadata(topic.name).topic_id == topic.id
            assert [client.read_values(topic.name, partition=p) for p in range(3)] == [[b"0"], [b"1"], [b"2"]]


@pytest.mark.beyond_kafka("the fixture starts `taffrail up` a second time")
def test_second_process_on_one_data_directory_is_refused_by_name(restartable):
    """Section 2 of the plan: it ends with an error that names the directory; the first is not disturbed."""
    binary = os.environ.get("TAFFRAIL_BIN", "taffrail")
    command = [binary, "up", "-f", str(restartable.cluster_file), "--data-dir", str(restartable.data_folder)]
    command += ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment(restartable.settings))
    assert second.returncode != 0
    assert str(restartable.data_folder) in second.stdout + second.stderr
    with Client(restartable) as client:
        assert client.metadata().brokers


@pytest.mark.beyond_kafka("Apache Kafka ends with 143 on SIGTERM, as every JVM does")
def test_sigterm_ends_the_broker_cleanly(own_broker):
    """Section 2 of the plan: exit status 0, and soon."""
    broker = own_broker()
    started = time.monotonic()
    broker.stop()
    assert broker.process.returncode == 0
    assert time.monotonic() - started < 10
