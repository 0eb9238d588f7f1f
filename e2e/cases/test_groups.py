"""Classic groups: cases G-02 and G-04 to G-08 with one node (G-09, the new protocol, comes later)."""

import contextlib
import threading
import time

import pytest
from confluent_kafka import Consumer

from raw import errors
from raw.batch import values_batch
from raw.client import Client, unique
from raw.connection import ConnectionClosed
from raw.groups import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    BackgroundMember,
    Member,
    commit,
    committed,
    delete_group,
    describe,
    fetch_offset,
    form_group,
    join_all,
    listed,
    state_of,
    sync_all,
    wait_for_coordinator,
    wait_for_members,
    wait_for_state,
)
from raw.wait import eventually

SHORT_SESSION_MS = 600
RETRIABLE = {errors.COORDINATOR_LOAD_IN_PROGRESS, errors.COORDINATOR_NOT_AVAILABLE, errors.NOT_COORDINATOR}


# G-02


def kill_while_offsets_are_watched(broker, rounds):
    """Kills the coordinator `rounds` times; a RAW poller asserts on every reply, a fresh consumer starts each time."""
    with Client(broker) as client:
        topic, group = client.new_topic("g02").name, unique("g02")
        client.append_values(topic, *[b"x"] * 1000)
        wait_for_coordinator(client.connection, group)
        for others in range(200):  # so that there is something to load
            assert commit(client.connection, f"{group}-{others}", topic, others) == errors.NONE
        watcher = OffsetWatcher(broker, group, topic)
        for number in range(1, rounds + 1):
            assert commit(client.connection, group, topic, number) == errors.NONE
            watcher.acknowledged = number
            with watcher.running():
                broker.kill()
                broker.start_again()
                assert first_position(broker, group, topic) >= number
            client.reconnect()
            wait_for_coordinator(client.connection, group)
            assert committed(client.connection, f"{group}-77", topic) == 77


class OffsetWatcher:
    """Asks for a committed offset each 20 ms: the true one or a retriable error, never "nothing"."""

    def __init__(self, broker, group, topic):
        self.broker, self.group, self.topic = broker, group, topic
        self.acknowledged = 0

    @contextlib.contextmanager
    def running(self):
        stop, wrong = threading.Event(), []
        thread = threading.Thread(target=self._watch, args=(stop, wrong))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(30)
        assert not wrong

    def _watch(self, stop, wrong):
        while not stop.wait(0.02):
            with contextlib.suppress(OSError, ConnectionClosed), self.broker.connect(timeout_s=5) as connection:
                entry = fetch_offset(connection, self.group, self.topic)
                if entry["error_code"] not in RETRIABLE and (entry["error_code"], entry["committed_offset"]) != (0, self.acknowledged):
                    wrong.append(entry)


def first_position(broker, group, topic):
    """Where a fresh consumer of the group begins."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**settings, "session.timeout.ms": 1000, "heartbeat.interval.ms": 200})
    with contextlib.closing(consumer):
        consumer.subscribe([topic])
        message = eventually(
            lambda: consumer.poll(0.2), wanted=lambda m: m is not None and not m.error(), timeout_s=30, what="a first record"
        )
        return message.offset()


def test_killed_coordinator_never_says_nothing_committed(restartable):
    """G-02, 3 rounds in place of 30: 14, 15, 16 or the true offset; a fresh consumer begins where the group was."""
    kill_while_offsets_are_watched(restartable, 3)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_killed_coordinator_never_says_nothing_committed_in_30_rounds(restartable):
    """G-02 in full."""
    kill_while_offsets_are_watched(restartable, 30)


# G-04


def test_recreated_topic_has_neither_old_records_nor_old_offsets(restartable):
    """G-04: a new id, a log from 0 with only the new records, no committed offset; the same after a restart."""
    with Client(restartable) as client:
        topic, group = client.new_topic("g04"), unique("g04")
        client.append_values(topic.name, *[b"old"] * 1000)
        wait_for_coordinator(client.connection, group)
        assert commit(client.connection, group, topic.name, 1000) == errors.NONE
        assert client.delete_topic(topic.name) == errors.NONE
        eventually(lambda: client.create(topic.name).error_code == errors.NONE, what="the topic made again")
        client.wait_until_served(topic.name)
        client.append_values(topic.name, *[b"%d" % n for n in range(5)])
        for again in (lambda: None, restartable.restart):
            again()
            client.reconnect()
            client.wait_until_served(topic.name)
            wait_for_coordinator(client.connection, group)
            assert client.topic_metadata(topic.name).topic_id != topic.id
            assert client.read_values(topic.name) == [b"%d" % n for n in range(5)]
            assert committed(client.connection, group, topic.name) == -1
        assert first_position(restartable, group, topic.name) == 0


def test_fetch_by_the_old_id_reads_nothing_of_the_new_topic(client):
    """G-04: a client that still has the old id gets an error, not the new records under old offsets."""
    name = unique("g04")
    old = client.create(name).topic_id
    client.delete_topic(name)
    eventually(lambda: client.create(name).error_code == errors.NONE, what="the topic made again")
    client.wait_until_served(name)
    client.append_values(name, b"new")
    topics = [{"topic_id": old, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}]
    answer = client.call("Fetch", 13, max_wait_ms=0, min_bytes=0, topics=topics)
    assert answer.responses[0].partitions[0].error_code == errors.UNKNOWN_TOPIC_ID


# G-05


def static_group(broker, group, count=3, session_timeout_ms=10_000):
    """Stable static members `i0`, `i1`, ... of `group`."""
    members = [Member(broker, group, instance_id=f"i{n}", session_timeout_ms=session_timeout_ms) for n in range(count)]
    form_group(*members)
    return members


def test_static_member_that_returns_in_time_keeps_generation_and_assignment(broker, coordinator, group):
    """G-05 a: killed and back under its instance id: no rebalance, the same partitions, under a new member id."""
    first, second, third = static_group(broker, group)
    second.die()
    with Member(broker, group, instance_id="i1") as back:
        answer = back.join()
        assert (answer.error_code, answer.generation_id) == (errors.NONE, first.generation)
        assert back.member_id not in ("", second.member_id)
        assert back.sync().assignment == second.member_id.encode()
        assert [m.heartbeat() for m in (first, third)] == [errors.NONE, errors.NONE]
        assert state_of(coordinator.connection, group) == STABLE


def test_static_member_that_stays_away_is_removed_after_its_session(broker, coordinator, group):
    """G-05 b: the others are told to rebalance, and the group goes on without it."""
    first, second = static_group(broker, group, 2, session_timeout_ms=SHORT_SESSION_MS)
    second.die()

    def told():
        return first.heartbeat() == errors.REBALANCE_IN_PROGRESS

    eventually(told, what="the rebalance after the session timeout")
    answer = first.join()
    assert (answer.error_code, [m.group_instance_id for m in answer.members]) == (errors.NONE, ["i0"])


def test_restart_of_the_coordinator_fences_no_static_member(restartable):
    """G-05 c: the loaded group knows its members and their generation."""
    group = unique("g05")
    members = static_group(restartable, group, session_timeout_ms=60_000)
    restartable.restart()
    for member in members:
        member.connection = restartable.connect()
    wait_for_coordinator(members[0].connection, group)
    assert [m.heartbeat() for m in members] == [errors.NONE] * 3
    assert state_of(members[0].connection, group) == STABLE
    described = describe(members[0].connection, group, version=4).members
    assert {m.group_instance_id: m.member_id for m in described} == {m.instance_id: m.member_id for m in members}


@pytest.mark.beyond_kafka("it tells new ids at the end of the join phase and stores them after the sync, so a crash fences their owner")
def test_id_that_a_static_member_was_told_is_known_after_a_crash(restartable):
    """G-05 c: a new process takes its former self's place while the group rebalances; the coordinator dies before the leader assigns."""
    group = unique("g05")
    first, former = static_group(restartable, group, 2, session_timeout_ms=60_000)
    first.start_join()
    wait_for_members(former.connection, group, 2)
    with Member(restartable, group, instance_id=former.instance_id, session_timeout_ms=60_000) as back:
        back.start_join()
        assert {m.finish_join().error_code for m in (first, back)} == {errors.NONE}
        restartable.crash()
        for member in (first, former, back):
            member.connection = restartable.connect()
        wait_for_coordinator(first.connection, group)
        # Nobody was assigned anything in the generation that was begun: it is begun again.
        assert [m.heartbeat() for m in (first, back)] == [errors.ILLEGAL_GENERATION] * 2
        assert former.heartbeat() == errors.FENCED_INSTANCE_ID
        first.start_join()
        back.start_join()
        sync_all([first, back], [m.finish_join() for m in (first, back)])


def test_second_process_with_a_used_instance_id_fences_the_older_one(broker, coordinator, group, topic):
    """G-05 d: the older one gets 82 in every request that it sends."""
    (older,) = static_group(broker, group, 1)
    with Member(broker, group, instance_id="i0") as newer:
        assert newer.join().error_code == errors.NONE
        assert older.heartbeat() == errors.FENCED_INSTANCE_ID
        assert older.sync().error_code == errors.FENCED_INSTANCE_ID
        assert older.commit(topic, 1) == errors.FENCED_INSTANCE_ID
        assert older.join().error_code == errors.FENCED_INSTANCE_ID
        assert newer.heartbeat() == errors.NONE


def test_static_member_that_closes_causes_no_rebalance(broker, coordinator, group):
    """G-05 e: such clients send no LeaveGroup; their socket's end means nothing."""
    first, second = static_group(broker, group, 2)
    second.die()
    for _ in range(5):
        assert first.heartbeat() == errors.NONE
    assert len(describe(coordinator.connection, group).members) == 2


def test_administrator_removes_a_static_member_by_its_instance_id(broker, coordinator, group):
    """G-05 f: LeaveGroup v3+ with an instance id and no member id; the others rebalance."""
    first, _ = static_group(broker, group, 2)
    answer = coordinator.call("LeaveGroup", 5, group_id=group, members=[{"member_id": "", "group_instance_id": "i1"}])
    assert (answer.error_code, answer.members[0].error_code) == (errors.NONE, errors.NONE)
    assert first.heartbeat() == errors.REBALANCE_IN_PROGRESS


def test_static_member_with_new_metadata_is_stored_without_a_rebalance(broker, coordinator, group):
    """Section 8, static members: as long as the group's protocol stays the same, as Kafka has it; the next rebalance uses it."""
    first, second = static_group(broker, group, 2)
    with Member(broker, group, instance_id="i1") as back:
        answer = back.join(protocols=(("range", b"other topics"),))
        assert (answer.error_code, answer.generation_id) == (errors.NONE, second.generation)
        assert first.heartbeat() == errors.NONE
        metadata = {m.group_instance_id: m.member_metadata for m in describe(coordinator.connection, group).members}
        assert metadata == {"i0": b"subscription", "i1": b"other topics"}


# G-06


def churn(broker, group, rounds):
    """Members start, are killed in the join phase and start again; the group gets Stable each time, and Empty at the end."""
    with Client(broker) as client:
        wait_for_coordinator(client.connection, group)
        living = new_members(broker, group, 5)
        for number in range(rounds):
            wait_until_stable(client.connection, group, len(living))
            living += new_members(broker, group, 2)
            eventually(lambda: state_of(client.connection, group), wanted=lambda s: s != STABLE, poll_s=0.005, what="the join phase")
            for _ in range(3):
                living.pop(number % len(living)).kill()
            living += new_members(broker, group, 1)
        wait_until_stable(client.connection, group, len(living))
        for member in living:
            member.kill()
        wait_for_state(client.connection, group, EMPTY, timeout_s=45)


def new_members(broker, group, count):
    return [BackgroundMember(broker, group, session_timeout_ms=1000, rebalance_timeout_ms=2000) for _ in range(count)]


def wait_until_stable(connection, group, count):
    def found():
        described = describe(connection, group)
        return (described.group_state, len(described.members))

    eventually(found, wanted=lambda pair: pair == (STABLE, count), timeout_s=45, what=f"a Stable group of {count}")


def test_members_that_die_in_the_join_phase_do_not_stop_the_group(broker, coordinator, group):
    """G-06, 3 rounds of 5 members and short timeouts in place of 50 rounds of 8 processes."""
    churn(broker, group, 3)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_members_that_die_in_the_join_phase_do_not_stop_the_group_in_50_rounds(broker, coordinator, group):
    """G-06 in full."""
    churn(broker, group, 50)


def test_leaving_in_the_join_phase_completes_it_at_once(members, group, coordinator):
    """G-06: the others wait for a member only as long as it is one."""
    first, second = members(2)
    form_group(first, second)
    first.start_join()
    assert eventually(second.heartbeat, wanted=lambda code: code == errors.REBALANCE_IN_PROGRESS)
    started = time.monotonic()
    assert second.leave() == errors.NONE
    answer = first.finish_join()
    assert (answer.error_code, len(answer.members)) == (errors.NONE, 1)
    assert time.monotonic() - started < 2


def test_member_that_never_rejoins_is_dropped_after_the_rebalance_timeout(members, group, coordinator):
    """Section 8, JoinGroup: the slowest member's rebalance timeout bounds the phase."""
    first, second = members(2, rebalance_timeout_ms=700, session_timeout_ms=5000)
    form_group(first, second)
    started = time.monotonic()
    first.start_join()
    answer = first.finish_join()
    assert (answer.error_code, len(answer.members)) == (errors.NONE, 1)
    assert 0.5 < time.monotonic() - started < 4


# G-07


def test_group_metadata_beyond_a_record_works_or_fails_clearly(own_broker):
    """G-07: 60 members with 20 KB of topic names each, at rest 1.2 MB and more; then a restart."""
    broker = own_broker()
    group, subscription = unique("g07"), b"n" * 20_000
    members = [Member(broker, group, session_timeout_ms=60_000, rebalance_timeout_ms=20_000) for _ in range(60)]
    with Client(broker) as client:
        topic = client.new_topic("g07").name
        wait_for_coordinator(client.connection, group)
        assert commit(client.connection, group, topic, 7) == errors.NONE
        answers = join_all(members, protocols=(("range", subscription),))
        outcome = sync_large(members, answers, subscription)
        assert {m.generation for m in members} == {2}
        broker.restart()
        client.reconnect()
        wait_for_coordinator(client.connection, group)
        assert committed(client.connection, group, topic) == 7
        if outcome == errors.NONE:
            assert state_of(client.connection, group) == STABLE
            assert len(describe(client.connection, group).members) == 60


def sync_large(members, answers, assignment):
    """The leader's SyncGroup with large assignments; returns its error (0 if it worked, then all have got theirs)."""
    leader = next(m for m, a in zip(members, answers, strict=True) if a.leader == a.member_id)
    code = leader.sync({m.member_id: assignment for m in members}).error_code
    if code == errors.NONE:
        assert all(m.sync().assignment == assignment for m in members if m is not leader)
    return code


# G-08


def test_describing_an_unknown_group_gives_dead_and_from_version_6_error_69(coordinator, group):
    """G-08: Dead with error 0 up to v5; 69 and a message at v6."""
    for version in (0, 5):
        answer = describe(coordinator.connection, group, version)
        assert (answer.error_code, answer.group_state, answer.members) == (errors.NONE, DEAD, [])
    answer = describe(coordinator.connection, group, 6)
    assert (answer.error_code, answer.group_state) == (errors.GROUP_ID_NOT_FOUND, DEAD)
    assert answer.error_message


def test_deleting_an_unknown_a_busy_and_an_empty_group(coordinator, members, group, topic):
    """G-08: 69, 68, 0; the deleted group's offsets are gone and it is unknown."""
    connection = coordinator.connection
    assert delete_group(connection, group) == errors.GROUP_ID_NOT_FOUND
    (member,) = members()
    form_group(member)
    assert member.commit(topic, 3) == errors.NONE
    assert delete_group(connection, group) == errors.NON_EMPTY_GROUP
    assert member.leave() == errors.NONE
    wait_for_state(connection, group, EMPTY)
    assert delete_group(connection, group) == errors.NONE
    assert delete_group(connection, group) == errors.GROUP_ID_NOT_FOUND
    assert committed(connection, group, topic) == -1
    assert state_of(connection, group) == DEAD


def test_empty_group_without_offsets_can_be_deleted(coordinator, members, group):
    """G-08: a group that never committed."""
    (member,) = members()
    form_group(member)
    member.leave()
    wait_for_state(coordinator.connection, group, EMPTY)
    assert delete_group(coordinator.connection, group) == errors.NONE


def test_group_is_deleted_although_somebody_was_given_a_member_id(coordinator, members, group):
    """G-08: who has an id and has not joined with it is no member; the next one begins a new group, at generation 1."""
    first, waiting, later = members(3)
    form_group(first)
    assert first.leave() == errors.NONE
    wait_for_state(coordinator.connection, group, EMPTY)
    waiting.get_member_id()
    assert delete_group(coordinator.connection, group) == errors.NONE
    assert (state_of(coordinator.connection, group), group in listed(coordinator.connection)) == (DEAD, False)
    assert waiting.join().error_code == errors.UNKNOWN_MEMBER_ID
    later.get_member_id()
    assert (later.join().error_code, later.generation) == (errors.NONE, 1)


def test_list_groups_filters_by_state_and_type(coordinator, members, group, topic):
    """G-08: states from v4, types from v5; filters are not case-sensitive; unknown ones match nothing."""
    connection = coordinator.connection
    simple = unique("simple")
    assert commit(connection, simple, topic, 1) == errors.NONE
    (member,) = members()
    form_group(member)
    everything = listed(connection)
    assert (everything[group], everything[simple]) == (STABLE, EMPTY)
    for states, wanted in ((["Stable"], {group}), (["stable"], {group}), (["Empty"], {simple}), (["Empty", "Stable"], {group, simple})):
        assert set(listed(connection, states_filter=states)) & {group, simple} == wanted
    assert {group, simple} <= set(listed(connection, types_filter=["classic"]))
    assert not {group, simple} & set(listed(connection, types_filter=["consumer"]))
    assert listed(connection, states_filter=["NoSuchState"]) == {}


def test_list_groups_tells_protocol_and_type(coordinator, members, group):
    """G-08: what a console shows."""
    (member,) = members()
    form_group(member)
    (entry,) = (g for g in coordinator.call("ListGroups", 5).groups if g.group_id == group)
    assert (entry.protocol_type, entry.group_state, entry.group_type) == ("consumer", STABLE, "classic")


def test_describe_tells_members_protocol_metadata_and_assignment(coordinator, members, group):
    """G-08: of a Stable group; the authorized operations only when asked for."""
    first, second = members(2)
    form_group(first, second, protocols=(("range", b"subscription"),))
    answer = describe(coordinator.connection, group)
    assert (answer.group_state, answer.protocol_type, answer.protocol_data) == (STABLE, "consumer", "range")
    assert answer.authorized_operations == -(2**31)
    wanted = {m.member_id: (b"subscription", m.member_id.encode()) for m in (first, second)}
    assert {m.member_id: (m.member_metadata, m.member_assignment) for m in answer.members} == wanted
    assert {m.client_id for m in answer.members} == {"raw"}
    assert all("127.0.0.1" in m.client_host for m in answer.members)


# Section 8, joining


def test_new_dynamic_member_is_told_its_id_first(members, group, coordinator):
    """Section 8, JoinGroup v4+: error 79 with an id that begins with the client id; with it the join succeeds."""
    (member,) = members()
    member_id = member.get_member_id()
    assert member_id.startswith("raw-")
    assert describe(coordinator.connection, group).members == []
    answer = member.join()
    assert (answer.error_code, answer.member_id, answer.generation_id) == (errors.NONE, member_id, 1)


def test_old_join_versions_join_at_once(members, group):
    """Section 8, JoinGroup up to v3: no detour."""
    for version in range(4):
        (member,) = members(1, session_timeout_ms=1000)
        answer = member.join(version=version)
        assert (answer.error_code, answer.leader == answer.member_id) == (errors.NONE, True)
        assert member.leave() == errors.NONE


def test_pending_member_that_never_returns_is_forgotten(members, group, coordinator):
    """Section 8, JoinGroup: the id that error 79 gave is valid for a session timeout."""
    first, second = members(2, session_timeout_ms=SHORT_SESSION_MS)
    second.get_member_id()
    time.sleep(2 * SHORT_SESSION_MS / 1000)
    assert second.join().error_code == errors.UNKNOWN_MEMBER_ID
    form_group(first)


def test_only_the_leader_gets_the_members(members, group):
    """Section 8, JoinGroup: names and metadata for the leader, nothing for the others."""
    first, second = members(2)
    form_group(first, second)
    first.start_join()
    eventually(second.heartbeat, wanted=lambda code: code == errors.REBALANCE_IN_PROGRESS, what="the rebalance")
    second.start_join()
    answers = [first.finish_join(), second.finish_join()]
    lists = {a.member_id == a.leader: {m.member_id for m in a.members} for a in answers}
    assert lists == {True: {first.member_id, second.member_id}, False: set()}


def test_protocol_is_the_one_that_all_support_and_most_prefer(members, group):
    """Section 8, JoinGroup: the vote is among the common ones."""
    first, second, third = members(3)
    preferences = [("a", "b", "c"), ("b", "c", "d"), ("c", "b")]
    lists = [[(name, b"") for name in names] for names in preferences]
    first.begin(protocols=lists[0])
    first.finish_join()
    second.begin(protocols=lists[1])
    third.begin(protocols=lists[2])
    wait_for_members(first.connection, group, 3)
    first.start_join(protocols=lists[0])
    assert {m.finish_join().protocol_name for m in (first, second, third)} == {"b"}


def test_member_without_a_common_protocol_is_refused(members, group):
    """Section 8, JoinGroup: 23 for another protocol and for another type; the group is not disturbed."""
    first, second = members(2)
    form_group(first)
    assert second.join(protocols=(("other", b""),)).error_code == errors.INCONSISTENT_GROUP_PROTOCOL
    assert second.join(protocol_type="connect").error_code == errors.INCONSISTENT_GROUP_PROTOCOL
    assert first.heartbeat() == errors.NONE


def test_group_of_the_largest_size_takes_no_more(members, group):
    """Section 8, JoinGroup: `group.max.size` is 70 here; the 71st gets 81."""
    crowd = members(71)
    form_group(*crowd[:70])
    last = crowd[70]
    assert errors.GROUP_MAX_SIZE_REACHED in (last.join().error_code, last.join().error_code)


def test_unchanged_follower_rejoins_a_stable_group_without_a_rebalance(members, group, coordinator):
    """Section 8, JoinGroup: it is given the current generation."""
    first, second = members(2)
    form_group(first, second)
    leader, follower = leader_and_follower(first, second)
    answer = follower.join()
    assert (answer.error_code, answer.generation_id) == (errors.NONE, leader.generation)
    assert leader.heartbeat() == errors.NONE


def leader_and_follower(first, second):
    return (first, second) if first.is_leader else (second, first)


def test_rejoin_of_the_leader_starts_a_rebalance(members, group):
    """Section 8, JoinGroup: that is how a client asks for one."""
    first, second = members(2)
    form_group(first, second)
    leader, follower = leader_and_follower(first, second)
    leader.start_join()
    eventually(follower.heartbeat, wanted=lambda code: code == errors.REBALANCE_IN_PROGRESS, what="the rebalance")
    follower.start_join()
    assert [m.finish_join().generation_id for m in (leader, follower)] == [leader.generation] * 2


# Section 8, sync and heartbeat


def test_wrong_generation_gets_22_and_unknown_member_25(members, group, topic):
    """Section 8, Sync/Heartbeat/OffsetCommit: the same answers in all three."""
    (member,) = members()
    form_group(member)
    right = (member.generation, member.member_id)
    for generation, member_id, code in (
        (right[0] + 1, right[1], errors.ILLEGAL_GENERATION),
        (right[0] - 1, right[1], errors.ILLEGAL_GENERATION),
        (right[0], "stranger", errors.UNKNOWN_MEMBER_ID),
    ):
        member.generation, member.member_id = generation, member_id
        assert (member.heartbeat(), member.sync().error_code, member.commit(topic, 1)) == (code, code, code)
    member.generation, member.member_id = right
    assert member.heartbeat() == errors.NONE


def test_heartbeats_and_commits_by_state(members, group, topic, coordinator):
    """Section 8: Completing: heartbeat 0 and commit 27; Stable: 0, 0; Preparing: 27 and a commit that counts; Empty: 25."""
    first, second = members(2, rebalance_timeout_ms=20_000)
    first.begin()
    assert first.finish_join().error_code == errors.NONE
    assert state_of(coordinator.connection, group) == COMPLETING
    assert (first.heartbeat(), first.commit(topic, 1)) == (errors.NONE, errors.REBALANCE_IN_PROGRESS)
    assert first.sync({first.member_id: b"a"}).error_code == errors.NONE
    assert (first.heartbeat(), first.commit(topic, 2)) == (errors.NONE, errors.NONE)
    second.begin()
    wait_for_state(coordinator.connection, group, PREPARING)
    assert (first.heartbeat(), first.commit(topic, 3)) == (errors.REBALANCE_IN_PROGRESS, errors.NONE)
    assert first.sync().error_code == errors.REBALANCE_IN_PROGRESS
    assert committed(coordinator.connection, group, topic) == 3
    first.leave()
    second.finish_join()
    second.leave()
    wait_for_state(coordinator.connection, group, EMPTY)
    assert first.heartbeat() == errors.UNKNOWN_MEMBER_ID


def test_sync_with_another_protocol_is_refused(members, group):
    """Section 8, Sync v5: type and name are checked."""
    (member,) = members()
    form_group(member)
    assert member.sync(protocol_name="other").error_code == errors.INCONSISTENT_GROUP_PROTOCOL
    assert member.sync(protocol_type="connect").error_code == errors.INCONSISTENT_GROUP_PROTOCOL


def test_followers_wait_for_the_leaders_assignment(members, group):
    """Section 8, Sync: a follower's answer comes with the leader's SyncGroup; whom it leaves out gets nothing."""
    first, second = members(2)
    form_group(first, second)
    leader, follower = leader_and_follower(first, second)
    leader.start_join()
    eventually(follower.heartbeat, wanted=lambda code: code == errors.REBALANCE_IN_PROGRESS, what="the rebalance")
    follower.start_join()
    for member in (leader, follower):
        assert member.finish_join().error_code == errors.NONE
    fields = {"assignments": [], "protocol_type": "consumer", "protocol_name": "range"}
    waiting = follower.connection.send("SyncGroup", 5, **follower.identity(), **fields)
    assert not follower.connection.has_answer_within(0.2)
    assert leader.sync({leader.member_id: b"all"}).assignment == b"all"
    answer = follower.connection.receive("SyncGroup", 5, waiting)
    assert (answer.error_code, answer.assignment) == (errors.NONE, b"")


def test_silent_member_is_removed_after_its_session(members, group, coordinator):
    """Section 8, heartbeats: and the group is Empty then, its offsets kept."""
    (member,) = members(1, session_timeout_ms=SHORT_SESSION_MS)
    form_group(member)
    wait_for_state(coordinator.connection, group, EMPTY)
    assert member.heartbeat() == errors.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_member_beyond_its_session(members, group):
    """Section 8, heartbeats: three session timeouts long."""
    (member,) = members(1, session_timeout_ms=SHORT_SESSION_MS)
    form_group(member)
    deadline = time.monotonic() + 3 * SHORT_SESSION_MS / 1000
    while time.monotonic() < deadline:
        assert member.heartbeat() == errors.NONE
        time.sleep(0.1)


def test_leave_of_several_members_answers_each(members, group, coordinator):
    """Section 8, LeaveGroup v3+: known ones go, strangers get 25."""
    first, second = members(2)
    form_group(first, second)
    leaving = [{"member_id": m} for m in (first.member_id, "stranger", second.member_id)]
    answer = coordinator.call("LeaveGroup", 5, group_id=group, members=leaving)
    assert [m.error_code for m in answer.members] == [errors.NONE, errors.UNKNOWN_MEMBER_ID, errors.NONE]
    wait_for_state(coordinator.connection, group, EMPTY)


def test_stable_group_survives_a_restart_of_its_coordinator(restartable):
    """Section 8, loading: members, generation, assignment and offsets, after SIGTERM and after SIGKILL."""
    group = unique("survive")
    members = [Member(restartable, group, session_timeout_ms=60_000) for _ in range(2)]
    with Client(restartable) as client:
        topic = client.new_topic("survive").name
        assignments = form_group(*members)
        assert members[0].commit(topic, 42) == errors.NONE
        for again in (restartable.restart, restartable.crash):
            again()
            client.reconnect()
            wait_for_coordinator(client.connection, group)
            for member in members:
                member.connection = restartable.connect()
                assert member.heartbeat() == errors.NONE
                assert member.sync().assignment == assignments[member.member_id]
            assert committed(client.connection, group, topic) == 42


# Section 8, finding the coordinator


def test_coordinators_of_several_groups_in_one_request(coordinator):
    """Section 8, FindCoordinator v4+: one entry for each key, in order; with one node it is always that one."""
    node = coordinator.metadata().brokers[0]
    answer = coordinator.call("FindCoordinator", 6, key_type=0, coordinator_keys=["a", "b", "a"])
    assert [c.key for c in answer.coordinators] == ["a", "b", "a"]
    places = {(c.error_code, c.node_id, c.host, c.port) for c in answer.coordinators}
    assert places == {(errors.NONE, node.node_id, node.host, node.port)}
    single = coordinator.call("FindCoordinator", 3, key_type=0, key="a")
    assert (single.error_code, single.node_id, single.port) == (errors.NONE, node.node_id, node.port)


def test_first_coordinator_lookup_makes_the_offsets_topic(own_broker):
    """Section 8, coordinator lookup: 15 until it is there, then the coordinator; the topic is internal and compacted."""
    with Client(own_broker()) as client:
        wait_for_coordinator(client.connection, "first")
        topic = client.wait_for_topic("__consumer_offsets")
        assert (topic.is_internal, len(topic.partitions)) == (True, 4)
        configs = client.describe_configs(2, "__consumer_offsets", ["cleanup.policy"])
        assert configs["cleanup.policy"].value == "compact"


def test_offsets_topic_holds_kafkas_record_format(coordinator, group, topic):
    """Section 8, offsets: tools read `__consumer_offsets`; a commit is a record of key version 1 and value version 1 to 4."""
    assert commit(coordinator.connection, group, topic, 77, committed_metadata="meta") == errors.NONE
    wanted_key = b"\x00\x01" + sized(group) + sized(topic) + b"\x00\x00\x00\x00"
    values = [r.value for p in range(4) for r in coordinator.read_records("__consumer_offsets", partition=p) if r.key == wanted_key]
    assert len(values) == 1
    version, offset = int.from_bytes(values[0][:2], "big"), int.from_bytes(values[0][2:10], "big")
    assert (1 <= version <= 4, offset) == (True, 77)


def sized(text):
    return len(text.encode()).to_bytes(2, "big") + text.encode()


COMPACT_SOON = {
    "offsets.topic.num.partitions": 1,
    "offsets.topic.segment.bytes": 1 << 20,
    "log.cleaner.backoff.ms": 200,
    "log.cleaner.min.cleanable.ratio": 0.01,
}


def log_bytes(folder):
    """Bytes of a partition's segments; one that compaction takes away meanwhile counts as not there."""
    total = 0
    for segment in folder.glob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            total += segment.stat().st_size
    return total


def test_offsets_topic_is_compacted_and_loses_no_commit(own_broker):
    """Section 3 of the plan: 8 MB of commits of a few groups shrink to what is current; a restart finds all of it."""
    broker = own_broker(COMPACT_SOON)
    with Client(broker) as client:
        topic = client.new_topic("compact").name
        wait_for_coordinator(client.connection, "group")
        groups = [unique("compact") for _ in range(4)]
        for number in range(2000):
            assert commit(client.connection, groups[number % 4], topic, number, committed_metadata="m" * 4000) == errors.NONE
        folder = broker.partition_folder("__consumer_offsets")
        eventually(lambda: log_bytes(folder), wanted=lambda n: n < 3 << 20, timeout_s=40, what="compaction")
        for again in (lambda: None, broker.crash):
            again()
            client.reconnect()
            wait_for_coordinator(client.connection, groups[0])
            assert [committed(client.connection, g, topic) for g in groups] == [1996, 1997, 1998, 1999]


def test_plain_clients_cannot_write_to_the_offsets_topic(coordinator):
    """Section 8, auto topics: 17 for a Produce to an internal topic."""
    answer = coordinator.produce("__consumer_offsets", values_batch(b"x"))
    assert answer.error_code == errors.INVALID_TOPIC_EXCEPTION


def test_initial_rebalance_delay_gathers_the_first_members(own_broker):
    """Section 8, JoinGroup: `group.initial.rebalance.delay.ms` starts again with each new member, so both are in generation 1."""
    broker = own_broker({"group.initial.rebalance.delay.ms": 800})
    with Member(broker, "delay") as first, Member(broker, "delay") as second:
        wait_for_coordinator(first.connection, "delay")
        started = time.monotonic()
        first.begin()
        time.sleep(0.2)
        second.begin()
        assert {m.finish_join().generation_id for m in (first, second)} == {1}
        assert time.monotonic() - started > 0.7
