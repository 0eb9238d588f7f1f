"""Offsets by time and committed ones: cases G-01 and G-03, ListOffsets, OffsetForLeaderEpoch, OffsetCommit and OffsetFetch."""

import time

import pytest

from raw import errors
from raw.batch import ALL_CODECS, CODECS, HOUR_AGO, Batch, Record, now_ms
from raw.client import EARLIEST, LATEST, MAX_TIMESTAMP, Client, unique
from raw.groups import (
    DEAD,
    EMPTY,
    Member,
    commit,
    committed,
    committed_topics,
    delete_group,
    fetch_offset,
    form_group,
    listed,
    wait_for_coordinator,
    wait_for_state,
)
from raw.wait import eventually

# G-01

TIMES = [10, 50, 20]


@pytest.mark.parametrize("codec", [0, *CODECS.values()], ids=["none", *CODECS])
def test_newest_time_points_at_its_record_and_not_at_the_batchs_last(client, codec):
    """G-01: offset 1 for times 10, 50, 20, compressed or not."""
    topic = client.new_topic("g01").name
    client.append(topic, Batch([Record(b"x", timestamp=HOUR_AGO + t) for t in TIMES], codec=codec))
    answer = client.list_offset(topic, MAX_TIMESTAMP)
    assert (answer.offset, answer.timestamp) == (1, HOUR_AGO + 50)


@pytest.mark.parametrize("codec", [0, CODECS["lz4"]], ids=["none", "lz4"])
def test_newest_log_append_time_points_at_the_batchs_first_record(client, codec):
    """G-01: with LogAppendTime all records of a batch share the time, and the first one counts."""
    topic = client.new_topic("g01", message_timestamp_type="LogAppendTime").name
    client.append_values(topic, b"first")
    time.sleep(0.002)  # so that the next batch has a newer time
    client.append(topic, Batch([Record(b"x", timestamp=HOUR_AGO + t) for t in TIMES], codec=codec))
    assert client.list_offset(topic, MAX_TIMESTAMP).offset == 1


@pytest.mark.parametrize("codec", [0, CODECS["zstd"]], ids=["none", "zstd"])
def test_of_several_newest_records_the_earliest_counts(client, codec):
    """G-01: inside a batch and between batches."""
    topic = client.new_topic("g01").name
    for times in ([10, 50, 50], [50, 20], [5]):
        client.append(topic, Batch([Record(b"x", timestamp=HOUR_AGO + t) for t in times], codec=codec))
    assert client.list_offset(topic, MAX_TIMESTAMP).offset == 1


def test_newest_time_is_the_same_after_a_restart_and_a_kill(restartable):
    """G-01: from the index and the log on disk as from memory."""
    with Client(restartable) as client:
        topics = [client.new_topic("g01").name for _ in range(2)]
        for topic, codec in zip(topics, (0, CODECS["gzip"]), strict=True):
            client.append(topic, Batch([Record(b"x", timestamp=HOUR_AGO + t) for t in TIMES], codec=codec))
            client.append(topic, Batch([Record(b"x", timestamp=HOUR_AGO + 30)], codec=codec))
        for again in (lambda: None, restartable.restart, restartable.crash):
            again()
            client.reconnect()
            for topic in topics:
                client.wait_until_served(topic)
                assert client.list_offset(topic, MAX_TIMESTAMP).offset == 1


# Section 8, ListOffsets and OffsetForLeaderEpoch


@pytest.mark.parametrize("codec", ALL_CODECS.values(), ids=ALL_CODECS)
def test_time_lookup_finds_the_first_record_at_or_after(client, codec):
    """Section 8, ListOffsets: against brute force, inside compressed batches too."""
    topic = client.new_topic("lookup").name
    times = [[HOUR_AGO + t for t in batch] for batch in ([100, 50, 300], [200, 250, 250], [400], [380, 390])]
    for batch in times:
        client.append(topic, Batch([Record(b"x", timestamp=t) for t in batch], codec=codec))
    flat = [t for batch in times for t in batch]
    for asked in (0, *(HOUR_AGO + t for t in (0, 50, 51, 100, 101, 200, 300, 301, 380, 400, 401))):
        wanted = next(((i, t) for i, t in enumerate(flat) if t >= asked), (-1, -1))
        answer = client.list_offset(topic, asked)
        assert (answer.error_code, (answer.offset, answer.timestamp)) == (errors.NONE, wanted), asked


def test_special_offsets_of_a_log_without_tiers(client):
    """Section 8, ListOffsets: latest, earliest, newest time, and the tiered ones as Kafka answers them without tiers."""
    topic = client.new_topic("special").name
    for start in (0, 10):
        client.append(topic, Batch([Record(b"x", timestamp=HOUR_AGO + start + i) for i in range(10)]))
    client.delete_records(topic, 5)
    answers = {t: client.list_offset(topic, t) for t in (-1, -2, -3, -4, -5, -6)}
    assert {t: (a.error_code, a.offset, a.timestamp) for t, a in answers.items()} == {
        -1: (errors.NONE, 20, -1),
        -2: (errors.NONE, 5, -1),
        -3: (errors.NONE, 19, HOUR_AGO + 19),
        -4: (errors.NONE, 5, -1),
        -5: (errors.NONE, -1, -1),
        -6: (errors.NONE, -1, -1),
    }


def test_newest_time_counts_deleted_records_whose_segment_is_there(client):
    """As Kafka: DeleteRecords hides records from every other lookup, and not from this one."""
    topic = client.new_topic("newest").name
    for time in (10, 50, 30):
        client.append(topic, Batch([Record(b"x", timestamp=HOUR_AGO + time)]))
    for start in (1, 2, 3):
        client.delete_records(topic, start)
        newest = client.list_offset(topic, MAX_TIMESTAMP)
        assert (newest.error_code, newest.offset, newest.timestamp) == (errors.NONE, 1, HOUR_AGO + 50), start
    assert client.list_offset(topic, HOUR_AGO).offset == -1


def test_empty_log_has_no_offset_for_any_time(client):
    """Section 8, ListOffsets: offset -1 and time -1 without an error."""
    topic = client.new_topic("empty").name
    for timestamp in (0, now_ms(), MAX_TIMESTAMP):
        answer = client.list_offset(topic, timestamp)
        assert (answer.error_code, answer.offset, answer.timestamp) == (errors.NONE, -1, -1)
    for timestamp in (LATEST, EARLIEST):
        assert client.list_offset(topic, timestamp, isolation_level=1).offset == 0


def test_list_offsets_tells_the_leader_epoch(client):
    """Section 8, ListOffsets v4+: the epoch of the record found, or of the leader."""
    topic = client.new_topic("epoch").name
    client.append_values(topic, b"x")
    epoch = client.topic_metadata(topic).partitions[0].leader_epoch
    for timestamp in (LATEST, EARLIEST, 0):
        assert client.list_offset(topic, timestamp).leader_epoch == epoch


def test_leader_epoch_is_known_before_the_first_record(client):
    """Section 8, ListOffsets and OffsetForLeaderEpoch: a leader's epoch begins with its leadership, not with its first record."""
    topic = client.new_topic("epoch").name
    epoch = client.topic_metadata(topic).partitions[0].leader_epoch
    for timestamp in (LATEST, EARLIEST):
        assert client.list_offset(topic, timestamp).leader_epoch == epoch
    topics = [{"topic": topic, "partitions": [{"partition": 0, "leader_epoch": epoch}]}]
    answer = client.call("OffsetForLeaderEpoch", 4, replica_id=-1, topics=topics).topics[0].partitions[0]
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (errors.NONE, epoch, 0)


def test_end_of_the_current_epoch_is_the_logs_end(client):
    """Section 8, OffsetForLeaderEpoch: largest epoch at or below the asked one; an unknown one gives (-1, -1)."""
    topic = client.new_topic("end").name
    client.append_values(topic, *[b"x"] * 7)
    epoch = client.topic_metadata(topic).partitions[0].leader_epoch

    def end_of(asked):
        topics = [{"topic": topic, "partitions": [{"partition": 0, "leader_epoch": asked}]}]
        answer = client.call("OffsetForLeaderEpoch", 4, replica_id=-1, topics=topics).topics[0].partitions[0]
        return (answer.error_code, answer.leader_epoch, answer.end_offset)

    assert end_of(epoch) == (errors.NONE, epoch, 7)
    assert end_of(epoch + 1) == (errors.NONE, -1, -1)


# G-03


def test_commit_with_its_own_retention_expires_only_without_members(coordinator, topic, members, group):
    """G-03 by the retention that OffsetCommit v2 to v4 can carry (1.5 s): the clock of a member's group stands still."""
    connection = coordinator.connection
    lonely = unique("lonely")
    (member,) = members()
    form_group(member)
    fields = {"retention_time_ms": 1500, "topics": [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 5}]}]}
    for name, generation, member_id in ((group, member.generation, member.member_id), (lonely, -1, "")):
        answer = connection.call("OffsetCommit", 4, group_id=name, generation_id_or_member_epoch=generation, member_id=member_id, **fields)
        assert answer.topics[0].partitions[0].error_code == errors.NONE
    eventually(lambda: committed(connection, lonely, topic), wanted=lambda o: o == -1, what="the expiry of a group without members")
    wait_for_state(connection, lonely, DEAD)
    assert lonely not in listed(connection)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_offsets_of_an_idle_member_stay_and_those_of_empty_groups_expire(own_broker):
    """G-03 in full, with retention of 1 minute: A connected and idle, B left, C never had members; a restart in the middle."""
    broker = own_broker({"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 5000})
    with Client(broker) as client, Member(broker, "A", session_timeout_ms=60_000) as idle, Member(broker, "B") as left:
        topic = client.new_topic("g03").name
        wait_for_coordinator(client.connection, "A")
        for member in (idle, left):
            form_group(member)
            assert member.commit(topic, 5) == errors.NONE
        assert commit(client.connection, "C", topic, 5) == errors.NONE
        assert left.leave() == errors.NONE
        keep_alive(idle, 40)
        broker.restart()
        client.reconnect()
        idle.connection = broker.connect()
        wait_for_coordinator(client.connection, "A")
        keep_alive(idle, 120)
        offsets = {g: committed(client.connection, g, topic) for g in "ABC"}
        assert offsets == {"A": 5, "B": -1, "C": -1}
        assert set(listed(client.connection)) == {"A"}


def keep_alive(member, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert member.heartbeat() == errors.NONE
        time.sleep(1)


# Section 8, offsets


def test_commits_metadata_comes_back_as_it_was(coordinator, group, topic):
    """Section 8, OffsetCommit: null and empty metadata, text, and the leader epoch."""
    connection = coordinator.connection
    for offset, (metadata, wanted) in enumerate((("", ""), ("text ä", "text ä"), (None, ""), ("x" * 4096, "x" * 4096))):
        assert commit(connection, group, topic, offset, committed_metadata=metadata, committed_leader_epoch=offset) == errors.NONE
        entry = fetch_offset(connection, group, topic)
        assert (entry.committed_offset, entry.metadata, entry.committed_leader_epoch) == (offset, wanted, offset)
    assert commit(connection, group, topic, 9, committed_metadata="x" * 4097) == errors.OFFSET_METADATA_TOO_LARGE


def test_missing_offset_is_minus_1_without_an_error(coordinator, group, topic):
    """Section 8, OffsetFetch: known topic or not, known group or not."""
    entry = fetch_offset(coordinator.connection, group, topic)
    assert (entry.error_code, entry.committed_offset, entry.metadata) == (errors.NONE, -1, "")


def test_all_offsets_of_several_groups_in_one_request(coordinator, topic):
    """Section 8, OffsetFetch v8+: null topics mean all, each group gets its own."""
    names = [unique("several") for _ in range(3)]
    for number, name in enumerate(names):
        assert commit(coordinator.connection, name, topic, number) == errors.NONE
    groups = [{"group_id": name, "topics": None} for name in [*names, "no-such-group"]]
    answer = coordinator.call("OffsetFetch", 9, groups=groups)
    found = {g.group_id: [(t.name, p.committed_offset) for t in g.topics for p in t.partitions] for g in answer.groups}
    assert found == {**{name: [(topic, n)] for n, name in enumerate(names)}, "no-such-group": []}


def test_offsets_by_topic_id(coordinator, group):
    """Section 8, OffsetCommit and OffsetFetch v10: ids in place of names."""
    topic = coordinator.new_topic("by-id")
    entry = {"partition_index": 0, "committed_offset": 11}
    fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
    answer = coordinator.call("OffsetCommit", 10, **fields, topics=[{"topic_id": topic.id, "partitions": [entry]}])
    assert (answer.topics[0].topic_id, answer.topics[0].partitions[0].error_code) == (topic.id, errors.NONE)
    groups = [{"group_id": group, "topics": [{"topic_id": topic.id, "partition_indexes": [0]}]}]
    fetched = coordinator.call("OffsetFetch", 10, groups=groups).groups[0].topics[0]
    assert (fetched.topic_id, fetched.partitions[0].committed_offset) == (topic.id, 11)


def test_require_stable_reads_the_same_without_transactions(coordinator, group, topic):
    """Section 8, OffsetFetch v7+."""
    assert commit(coordinator.connection, group, topic, 8) == errors.NONE
    groups = [{"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}]
    answer = coordinator.call("OffsetFetch", 9, groups=groups, require_stable=True)
    assert answer.groups[0].topics[0].partitions[0].committed_offset == 8


def test_simple_commit_needs_a_group_without_members(coordinator, members, group, topic):
    """Section 8, OffsetCommit: no member id and generation -1 while members live gets 25."""
    connection = coordinator.connection
    assert commit(connection, group, topic, 1) == errors.NONE
    (member,) = members()
    form_group(member)
    assert commit(connection, group, topic, 2) == errors.UNKNOWN_MEMBER_ID
    member.leave()
    wait_for_state(connection, group, EMPTY)
    assert commit(connection, group, topic, 3) == errors.NONE


def test_simple_consumer_may_use_the_empty_group_id(coordinator, topic):
    """Section 8, OffsetCommit: as Kafka has it."""
    assert commit(coordinator.connection, "", topic, 4) == errors.NONE
    assert committed(coordinator.connection, "", topic) == 4
    assert delete_group(coordinator.connection, "") == errors.NONE


def test_commit_for_several_partitions_answers_each(coordinator, group):
    """Section 8, OffsetCommit: a bad partition spoils no other."""
    topic = coordinator.new_topic("several", partitions=2).name
    partitions = [{"partition_index": i, "committed_offset": 5} for i in (0, 1, 9)]
    fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
    answer = coordinator.call("OffsetCommit", 9, **fields, topics=[{"name": topic, "partitions": partitions}])
    codes = {p.partition_index: p.error_code for p in answer.topics[0].partitions}
    assert codes == {0: errors.NONE, 1: errors.NONE, 9: errors.UNKNOWN_TOPIC_OR_PARTITION}
    assert committed_topics(coordinator.connection, group) == {topic: {0: 5, 1: 5}}


SUBSCRIPTION_VERSION = b"\x00\x00"


def subscription(topic):
    """A consumer's subscription to one topic, as the consumer protocol encodes it."""
    name = topic.encode()
    return SUBSCRIPTION_VERSION + b"\x00\x00\x00\x01" + len(name).to_bytes(2, "big") + name + b"\xff\xff\xff\xff"


def test_offsets_of_a_subscribed_topic_cannot_be_deleted(coordinator, members, group, topic):
    """Section 8, OffsetDelete: 86 for the subscribed topic, 0 for another."""
    other = coordinator.new_topic("other").name
    (member,) = members()
    form_group(member, protocols=(("range", subscription(topic)),))
    for name in (topic, other):
        assert member.commit(name, 5) == errors.NONE
    entry = [{"partition_index": 0}]
    answer = coordinator.call("OffsetDelete", 0, group_id=group, topics=[{"name": n, "partitions": entry} for n in (topic, other)])
    codes = {t.name: t.partitions[0].error_code for t in answer.topics}
    assert (answer.error_code, codes) == (errors.NONE, {topic: errors.GROUP_SUBSCRIBED_TO_TOPIC, other: errors.NONE})
    assert committed_topics(coordinator.connection, group) == {topic: {0: 5}}


def test_offsets_of_an_empty_group_can_be_deleted(coordinator, group, topic):
    """Section 8, OffsetDelete: one partition at a time."""
    assert commit(coordinator.connection, group, topic, 5) == errors.NONE
    topics = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    answer = coordinator.call("OffsetDelete", 0, group_id=group, topics=topics)
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (errors.NONE, errors.NONE)
    assert committed(coordinator.connection, group, topic) == -1


def test_deleted_topic_takes_its_offsets_along(coordinator, group):
    """Section 8, OffsetFetch: of a topic that is gone nothing is left; of the others all."""
    doomed, kept = (coordinator.new_topic("t").name for _ in range(2))
    for name in (doomed, kept):
        assert commit(coordinator.connection, group, name, 5) == errors.NONE
    assert coordinator.delete_topic(doomed) == errors.NONE
    eventually(lambda: committed_topics(coordinator.connection, group), wanted=lambda t: t == {kept: {0: 5}}, what="the offsets to go")
