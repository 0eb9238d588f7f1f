"""What users report beside S-03 and S-04: a disk that is full to the last byte, and files that somebody has taken away."""

import shutil
import subprocess
import threading
import time

import pytest

from raw import errors
from raw.batch import values_batch
from raw.client import Client, unique
from raw.damage import segments
from raw.disk import fill_volume, small_volume
from raw.wait import eventually

MIB = 1 << 20
RESUMES_WITHIN_S = 10
STAYS_FULL_S = 2
STOPS_WITHIN_S = 15


def fill(client, topic, batches, value_bytes=100_000):
    for number in range(batches):
        client.append_values(topic, b"%d" % number * (value_bytes // len(b"%d" % number)))


def error_of_a_produce(client, topic, partition=0, value=b"x"):
    return client.produce(topic, values_batch(value), partition).error_code


# Full to the last byte


@pytest.mark.beyond_kafka("its broker halts when its only log directory fails")
def test_topic_made_on_a_full_disk_serves_soon_after_there_is_room(own_broker):
    """Only the volume of the partitions is full, so the metadata take the topic; it must not need a restart then."""
    broker = own_broker()
    broker.stop()
    logs = broker.data_folder / "logs"
    shutil.rmtree(logs)
    with small_volume(logs, 64):
        broker.start_again()
        with Client(broker) as client:
            filler = fill_volume(logs)
            name = unique("full")
            assert client.create(name, partitions=3).error_code == errors.NONE
            assert {error_of_a_produce(client, name, p) for p in range(3)} == {errors.KAFKA_STORAGE_ERROR}
            broker.crash()
            client.reconnect()
            assert error_of_a_produce(client, name) in (errors.KAFKA_STORAGE_ERROR, errors.UNKNOWN_TOPIC_OR_PARTITION)
            filler.unlink()
            for partition in range(3):
                resumes(client, name, partition)
        broker.stop()


def resumes(client, topic, partition=0):
    eventually(
        lambda: error_of_a_produce(client, topic, partition),
        wanted=lambda code: code == errors.NONE,
        timeout_s=RESUMES_WITHIN_S,
        what=f"a produce to {topic}-{partition}",
    )


@pytest.mark.beyond_kafka("it neither starts on a full disk nor goes on without a restart")
def test_start_on_a_disk_without_a_free_byte_serves_reads_and_resumes_by_itself(own_broker, tmp_path):
    """S-03, with the metadata on the same volume: changes of them are refused clearly meanwhile, and taken again."""
    folder = tmp_path / "broker"
    with small_volume(folder / "data", 96):
        broker = own_broker(folder=folder)
        with Client(broker) as client:
            topic = client.new_topic("full").name
            fill(client, topic, 20)
            filler = fill_volume(folder / "data")
            for again in (lambda: None, broker.crash, broker.crash):
                again()
                client.reconnect()
                client.wait_until_served(topic)
                assert len(client.read_values(topic)) == 20
                # More than fits into the room that a file system has left at the end of a file.
                assert error_of_a_produce(client, topic, value=b"x" * 100_000) == errors.KAFKA_STORAGE_ERROR
            fill_volume(folder / "data")
            broker.kill()
            # The room that was kept back is taken, too: nothing can be opened until there is some again.
            threading.Timer(STAYS_FULL_S, filler.unlink).start()
            broker.start_again()
            client.reconnect()
            resumes(client, topic)
            taken = eventually(
                lambda: client.create(unique("again")).error_code,
                wanted=lambda code: code == errors.NONE,
                timeout_s=RESUMES_WITHIN_S,
                what="a change of the metadata",
            )
            assert taken == errors.NONE
        broker.stop()


# Files that are not there any more


def pick(files, which):
    return files[{"first": 0, "middle": len(files) // 2, "last": -1}[which]]


@pytest.mark.beyond_kafka("it serves what is left, or begins anew")
@pytest.mark.parametrize(("how", "which"), [("stop", "first"), ("stop", "middle"), ("stop", "last"), ("kill", "middle")])
def test_segment_that_was_taken_away_is_missed_by_name(restartable, how, which):
    """After a stop at the start; after a kill at the latest by the reader that gets there. Others are served."""
    with Client(restartable) as client:
        damaged, sound = (client.new_topic("gone", segment_bytes=MIB).name for _ in range(2))
        for topic in (damaged, sound):
            fill(client, topic, 35)
        getattr(restartable, how)()
        file = pick(segments(restartable, damaged), which)
        file.unlink()
        restartable.start_again()
        client.reconnect()
        client.wait_until_served(sound)
        assert len(client.read_values(sound)) == 35
        with pytest.raises(AssertionError, match=f"'error_code': {errors.KAFKA_STORAGE_ERROR}"):
            client.read_values(damaged)
        assert error_of_a_produce(client, damaged) == errors.KAFKA_STORAGE_ERROR
        assert file.name in restartable.log_text()


@pytest.mark.beyond_kafka("it serves what is left, or begins anew")
def test_partition_folder_without_its_segments_does_not_begin_anew(restartable):
    with Client(restartable) as client:
        topic = client.new_topic("gone").name
        client.append_values(topic, b"precious")
        folder = restartable.partition_folder(topic)
        restartable.stop()
        for file in folder.glob("0*"):
            file.unlink()
        restartable.start_again()
        client.reconnect()
        answer = eventually(lambda: client.list_offset(topic, -1).error_code, wanted=lambda code: code != errors.NONE)
        assert answer == errors.KAFKA_STORAGE_ERROR
        assert error_of_a_produce(client, topic) == errors.KAFKA_STORAGE_ERROR
        assert str(folder) in restartable.log_text()


@pytest.mark.beyond_kafka("it begins anew without a word")
def test_partition_whose_folder_is_gone_waits_for_it_until_the_topic_is_deleted(restartable, tmp_path):
    with Client(restartable) as client:
        topic = client.new_topic("gone").name
        client.append_values(topic, b"precious")
        folder = restartable.partition_folder(topic)
        restartable.stop()
        shutil.move(folder, tmp_path / "backup")
        restartable.start_again()
        client.reconnect()
        assert error_of_a_produce(client, topic) == errors.KAFKA_STORAGE_ERROR
        assert f"{folder} is gone" in restartable.log_text()
        shutil.move(tmp_path / "backup", folder)
        resumes(client, topic)
        assert client.read_values(topic) == [b"precious", b"x"]
        restartable.stop()
        shutil.rmtree(folder)
        restartable.start_again()
        client.reconnect()
        assert client.delete_topic(topic) == errors.NONE
        assert client.create(topic).error_code == errors.NONE
        client.wait_until_served(topic)
        assert client.append_values(topic, b"anew") == 0


def move_away(logs):
    logs.rename(logs.with_name("moved"))


def replace(logs):
    move_away(logs)
    logs.mkdir()


def empty(logs):
    for entry in logs.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


@pytest.mark.parametrize("take_away", [shutil.rmtree, replace, empty], ids=["removed", "replaced", "emptied"])
@pytest.mark.beyond_kafka("it goes on acknowledging until a segment is full")
def test_data_directory_that_goes_away_ends_the_broker_with_its_name(own_broker, take_away):
    """No record is acknowledged for long that nobody can find again, and no partition is put into what took the place."""
    broker = own_broker()
    with Client(broker) as client:
        topic = client.new_topic("lost").name
        client.append_values(topic, b"x")
        logs = broker.data_folder / "logs"
        take_away(logs)
        assert broker.process.wait(STOPS_WITHIN_S) not in (0, None)
    text = broker.log_text()
    assert f"the data directory {logs} is gone" in text
    assert not list(logs.glob("*-[0-9]*"))


@pytest.mark.beyond_kafka("the volume is that of taffrail's layout")
def test_data_directory_whose_volume_is_unmounted_ends_the_broker(own_broker, tmp_path):
    """Below the mount point is another, empty directory: what is written there would hide, and be hidden."""
    folder = tmp_path / "broker"
    with small_volume(folder / "data", 64):
        broker = own_broker(folder=folder)
        started = time.monotonic()
        subprocess.run(["umount", "-l", str(folder / "data")], check=True)
        assert broker.process.wait(STOPS_WITHIN_S) not in (0, None)
        assert time.monotonic() - started < STOPS_WITHIN_S
        assert "is gone" in broker.log_text()
        subprocess.run(["mount", "-t", "tmpfs", "taffrail-cases", str(folder / "data")], check=True)
