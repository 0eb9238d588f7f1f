"""Incremental fetch sessions (KIP-227): case F-07 with one node, and the rules of section 8."""

import time

from raw import errors
from raw.batch import read_batches
from raw.client import Client, unique
from raw.sessions import FetchSession, partitions_in
from raw.wait import eventually

# F-07 and fetch sessions


def test_session_tells_of_data_in_a_partition_that_was_idle(client, broker):
    """F-07 a: data is seen within 1 s of its acknowledgement, through a session that waits."""
    topic = client.new_topic("idle", partitions=30)
    with broker.connect() as connection:
        session = FetchSession(connection)
        assert len(partitions_in(session.fetch([(topic.id, p, 0) for p in range(30)]))) == 30
        for partition in (17, 3, 17):
            assert partitions_in(session.fetch()) == {}
            waiting = connection.send("Fetch", session.version, **session.fields((), (), 10_000))
            offset = client.append_values(topic.name, b"fresh", partition=partition)
            acknowledged = time.monotonic()
            answer = connection.receive("Fetch", session.version, waiting)
            assert time.monotonic() - acknowledged < 1
            session.epoch += 1
            assert list(partitions_in(answer)) == [(topic.id, partition)]
            session.fetch([(topic.id, partition, offset + 1)])


def test_session_adds_and_forgets_topics(client, broker):
    """F-07 b: what is added is served, what is forgotten is not."""
    first, second = client.new_topic("first"), client.new_topic("second")
    with broker.connect() as connection:
        session = FetchSession(connection)
        session.fetch([(first.id, 0, 0)])
        client.append_values(second.name, b"x")
        assert list(partitions_in(session.fetch([(second.id, 0, 0)]))) == [(second.id, 0)]
        session.fetch(forget=[(second.id, 0)])
        client.append_values(second.name, b"y")
        client.append_values(first.name, b"z")
        assert list(partitions_in(session.fetch())) == [(first.id, 0)]


def test_recreated_topic_gives_a_session_a_definite_error_and_then_its_new_data(client, broker):
    """F-07 c: 100 or 103 for the old id; after a refresh the new topic is read, and the others are served all along."""
    name, other = unique("again"), client.new_topic("other")
    client.create(name)
    client.wait_until_served(name)
    old = client.topic_metadata(name).topic_id
    client.append_values(name, b"old")
    with broker.connect() as connection:
        session = FetchSession(connection)
        session.fetch([(old, 0, 1), (other.id, 0, 0)])
        assert client.delete_topic(name) == errors.NONE
        eventually(lambda: client.create(name).error_code == errors.NONE, what="the topic made again")
        client.wait_until_served(name)
        client.append_values(name, b"new")
        client.append_values(other.name, b"other")
        entries = partitions_in(session.fetch())
        assert entries[(old, 0)].error_code in (errors.UNKNOWN_TOPIC_ID, errors.INCONSISTENT_TOPIC_ID)
        assert read_batches(entries[(other.id, 0)].records)[0].records[0].value == b"other"
        new = client.topic_metadata(name).topic_id
        assert new != old
        entries = partitions_in(session.fetch([(new, 0, 0)], forget=[(old, 0)]))
        assert read_batches(entries[(new, 0)].records)[0].records[0].value == b"new"


def test_deleted_topic_wakes_a_waiting_session(client, broker):
    """F-07 c: a consumer that waits for data of a topic that goes is told, not left to its full wait."""
    topic = client.new_topic("doomed")
    with broker.connect() as connection:
        session = FetchSession(connection)
        session.fetch([(topic.id, 0, 0)])
        assert client.delete_topic(topic.name) == errors.NONE
        eventually(
            lambda: partitions_in(session.fetch(max_wait_ms=100)).get((topic.id, 0), {}).get("error_code"),
            wanted=lambda code: code in (errors.UNKNOWN_TOPIC_ID, errors.UNKNOWN_TOPIC_OR_PARTITION),
            what="an error for the deleted topic",
        )


def test_session_lost_in_a_restart_gives_70_and_heals(restartable):
    """F-07 e: the session's partitions are not served half; a full fetch makes a new session."""
    with Client(restartable) as client:
        topic = client.new_topic("session")
        client.append_values(topic.name, b"x")
        session = FetchSession(client.connection)
        session.fetch([(topic.id, 0, 1)])
        restartable.restart()
        client.reconnect()
        session.connection = client.connection
        assert session.fetch().error_code == errors.FETCH_SESSION_ID_NOT_FOUND
        client.wait_until_served(topic.name)
        healed = FetchSession(client.connection)
        (batch,) = read_batches(partitions_in(healed.fetch([(topic.id, 0, 0)]))[(topic.id, 0)].records)
        assert batch.records[0].value == b"x"
        assert healed.id


def test_session_lists_only_what_has_news(client, broker):
    """Section 8, sessions: the first answer lists all, later ones what has data, a moved start or an error."""
    topic = client.new_topic("news", partitions=3)
    with broker.connect() as connection:
        session = FetchSession(connection)
        assert len(partitions_in(session.fetch([(topic.id, p, 0) for p in range(3)]))) == 3
        assert partitions_in(session.fetch()) == {}
        client.append_values(topic.name, b"a", b"b", partition=1)
        assert list(partitions_in(session.fetch())) == [(topic.id, 1)]
        assert list(partitions_in(session.fetch([(topic.id, 1, 2)]))) == []
        client.delete_records(topic.name, 2, partition=1)
        entries = partitions_in(session.fetch())
        assert [(place, e.log_start_offset, e.records) for place, e in entries.items()] == [((topic.id, 1), 2, b"")]


def test_session_epoch_must_be_the_next_one(client, broker):
    """Section 8, sessions: wrong epoch 71, and the session goes on with the right one."""
    topic = client.new_topic("epoch")
    with broker.connect() as connection:
        session = FetchSession(connection)
        session.fetch([(topic.id, 0, 0)])
        session.epoch = 9
        assert session.fetch().error_code == errors.INVALID_FETCH_SESSION_EPOCH
        session.epoch = 1
        assert session.fetch().error_code == errors.NONE


def test_session_cannot_change_between_names_and_ids(client, broker):
    """Section 8, sessions: error 106 when a session by id is asked by name."""
    topic = client.new_topic("mixed")
    with broker.connect() as connection:
        session = FetchSession(connection)
        session.fetch([(topic.id, 0, 0)])
        session.version = 12
        assert session.fetch().error_code == errors.FETCH_SESSION_TOPIC_ID_ERROR


def test_final_epoch_closes_the_session(client, broker):
    """Section 8, sessions: epoch -1 ends it, and its id is unknown from then on."""
    topic = client.new_topic("close")
    with broker.connect() as connection:
        session = FetchSession(connection)
        session.fetch([(topic.id, 0, 0)])
        closing = FetchSession(connection)
        closing.id, closing.epoch = session.id, -1
        assert closing.fetch([(topic.id, 0, 0)]).session_id == 0
        assert session.fetch().error_code == errors.FETCH_SESSION_ID_NOT_FOUND


def test_session_repeats_an_error_until_it_is_gone(client, broker):
    """Section 8, sessions: an error is not "no change"."""
    topic = client.new_topic("errors")
    with broker.connect() as connection:
        session = FetchSession(connection)
        for wanted in ([(topic.id, 0, 99)], [], []):
            assert partitions_in(session.fetch(wanted))[(topic.id, 0)].error_code == errors.OFFSET_OUT_OF_RANGE
        assert partitions_in(session.fetch([(topic.id, 0, 0)])).get((topic.id, 0), {}).get("error_code", 0) == 0
