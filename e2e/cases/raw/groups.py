"""Members of a classic group and committed offsets, request by request.

A JoinGroup waits at the broker for the other members, so each member has a connection of its own and can send without waiting
for the answer.
"""

import contextlib
import socket
import struct
import threading
import time

from . import errors
from .connection import ConnectionClosed
from .wait import eventually

JOIN, SYNC, HEARTBEAT, LEAVE = 9, 5, 4, 5
COMMIT, OFFSET_FETCH, DESCRIBE = 9, 9, 5
SESSION_TIMEOUT_MS = 10_000
NO_GENERATION = -1
STABLE, EMPTY, DEAD = "Stable", "Empty", "Dead"
PREPARING, COMPLETING = "PreparingRebalance", "CompletingRebalance"


class Member:
    """A member as a consumer would be one; `member_id` and `generation` follow what the coordinator answers."""

    def __init__(self, broker, group, instance_id=None, session_timeout_ms=SESSION_TIMEOUT_MS, rebalance_timeout_ms=SESSION_TIMEOUT_MS):
        self.broker = broker
        self.connection = broker.connect()
        self.group = group
        self.instance_id = instance_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = ""
        self.generation = NO_GENERATION
        self.is_leader = False
        self._join = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.die()

    def die(self):
        """Leaves without a word, as a killed process does."""
        self.connection.close()

    def start_over(self):
        """As a new process: a new socket and no member id."""
        self.connection.close()
        self.connection = self.broker.connect()
        self.member_id = ""

    # Joining

    def join_fields(self, protocols=(("range", b"subscription"),), protocol_type="consumer"):
        return {
            "group_id": self.group,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": protocol_type,
            "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols],
        }

    def start_join(self, version=JOIN, **options):
        """Sends JoinGroup; `finish_join` reads the answer."""
        self._join = (version, self.connection.send("JoinGroup", version, **self.join_fields(**options)))

    def finish_join(self):
        version, correlation_id = self._join
        answer = self.connection.receive("JoinGroup", version, correlation_id)
        if answer.member_id:
            self.member_id = answer.member_id
        if answer.error_code == errors.NONE:
            self.generation = answer.generation_id
            self.is_leader = answer.leader == answer.member_id
        return answer

    def join(self, **options):
        """JoinGroup once, whatever the answer."""
        self.start_join(**options)
        return self.finish_join()

    def get_member_id(self, **options):
        """What a new dynamic member does first: it is told its id by error 79."""
        answer = self.join(**options)
        assert answer.error_code == errors.MEMBER_ID_REQUIRED, answer
        return answer.member_id

    def begin(self, **options):
        """Gets an id if one is needed, and sends the JoinGroup that counts."""
        if not self.member_id and self.instance_id is None:
            self.get_member_id(**options)
        self.start_join(**options)

    # Being a member

    def sync(self, assignments=None, version=SYNC, **more):
        """SyncGroup; the leader hands in `assignments`, member id -> bytes."""
        entries = [{"member_id": member, "assignment": data} for member, data in (assignments or {}).items()]
        fields = {"assignments": entries, "protocol_type": "consumer", "protocol_name": "range", **more}
        return self.connection.call("SyncGroup", version, **self.identity(), **fields)

    def heartbeat(self, version=HEARTBEAT):
        return self.connection.call("Heartbeat", version, **self.identity()).error_code

    def leave(self, version=LEAVE):
        members = [{"member_id": self.member_id, "group_instance_id": self.instance_id}]
        answer = self.connection.call("LeaveGroup", version, group_id=self.group, members=members)
        return answer.error_code or answer.members[0].error_code

    def identity(self):
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }

    def commit(self, topic, offset, **more):
        """OffsetCommit as this member; the partition's error code."""
        fields = {"member_id": self.member_id, "generation": self.generation, "instance_id": self.instance_id}
        return commit(self.connection, self.group, topic, offset, **fields, **more)


def wait_for_coordinator(connection, group):
    """Until the coordinator of `group` is known and has loaded it; the first group of a cluster makes its topic."""

    def error():
        code = connection.call("FindCoordinator", 4, key_type=0, coordinator_keys=[group]).coordinators[0].error_code
        return code or describe(connection, group).error_code

    eventually(error, wanted=lambda code: code == errors.NONE, timeout_s=30, what=f"the coordinator of {group}")


def form_group(*members, protocols=(("range", b"subscription"),)):
    """Brings all members into one generation and returns {member id: assignment}; the assignments are their ids."""
    wait_for_coordinator(members[0].connection, members[0].group)
    return sync_all(members, join_all(members, protocols=protocols))


def join_all(members, **options):
    """JoinGroup of all, so that one generation has them all; their answers in order.

    The first joins alone; once the coordinator holds all the others back, the first one's rejoin completes the phase.
    """
    first, *others = members
    answers = [join_alone(first, **options)]
    if others:
        for member in others:
            member.begin(**options)
        wait_for_members(first.connection, first.group, len(members))
        first.start_join(**options)
        answers = [m.finish_join() for m in members]
    assert {a.error_code for a in answers} == {errors.NONE}, answers
    assert len({a.generation_id for a in answers}) == 1, answers
    return answers


def join_alone(member, **options):
    """The first JoinGroup of a group; again if the coordinator swept the still empty group away in between (error 25)."""

    def ask():
        member.begin(**options)
        answer = member.finish_join()
        if answer.error_code == errors.UNKNOWN_MEMBER_ID:
            member.member_id = ""
        return answer

    return eventually(ask, wanted=lambda a: a.error_code == errors.NONE, what="the first member to join")


def wait_for_members(connection, group, count):
    """Until the coordinator knows `count` members and waits for one of them in the join phase."""

    def found():
        described = describe(connection, group)
        return (described.group_state, len(described.members))

    eventually(found, wanted=lambda pair: pair == (PREPARING, count), what=f"{count} members that join")


def sync_all(members, answers):
    """The leader hands every member its own id as its assignment; all get theirs."""
    leader = next(m for m, a in zip(members, answers, strict=True) if a.leader == a.member_id)
    assignments = {m.member_id: m.member_id.encode() for m in members}
    for member in [leader, *(m for m in members if m is not leader)]:
        answer = member.sync(assignments if member is leader else None)
        assert (answer.error_code, answer.assignment) == (errors.NONE, member.member_id.encode()), answer
    return assignments


def describe(connection, group, version=DESCRIBE):
    return connection.call("DescribeGroups", version, groups=[group]).groups[0]


def state_of(connection, group):
    return describe(connection, group).group_state


def wait_for_state(connection, group, state, timeout_s=15):
    """Until DescribeGroups says so; bounded."""
    eventually(lambda: state_of(connection, group), wanted=lambda s: s == state, timeout_s=timeout_s, what=f"{group} to be {state}")


def listed(connection, **filters):
    """{group: state} of the groups that pass the filters."""
    answer = connection.call("ListGroups", 5, **filters)
    assert answer.error_code == errors.NONE
    return {g.group_id: g.group_state for g in answer.groups}


def delete_group(connection, group, version=2):
    return connection.call("DeleteGroups", version, groups_names=[group]).results[0].error_code


def commit(connection, group, topic, offset, partition=0, version=COMMIT, generation=NO_GENERATION, member_id="", instance_id=None, **more):
    """OffsetCommit for one partition; the partition's error code. `more` goes into the partition's entry."""
    entry = {"partition_index": partition, "committed_offset": offset, "committed_metadata": "", **more}
    fields = {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member_id,
        "group_instance_id": instance_id,
        "topics": [{"name": topic, "partitions": [entry]}],
    }
    return connection.call("OffsetCommit", version, **fields).topics[0].partitions[0].error_code


def fetch_offset(connection, group, topic, partition=0, version=OFFSET_FETCH):
    """The committed offset's entry of one partition; a group-level error becomes the entry's."""
    topics = [{"name": topic, "partition_indexes": [partition]}]
    answer = connection.call("OffsetFetch", version, groups=[{"group_id": group, "topics": topics}]).groups[0]
    if answer.error_code:
        return {"error_code": answer.error_code, "committed_offset": None}
    return answer.topics[0].partitions[0]


def committed(connection, group, topic, partition=0):
    """The committed offset, or -1; errors are failures."""
    entry = fetch_offset(connection, group, topic, partition)
    assert entry["error_code"] == errors.NONE, entry
    return entry["committed_offset"]


def committed_topics(connection, group):
    """{topic: {partition: offset}} of everything that the group has committed."""
    answer = connection.call("OffsetFetch", OFFSET_FETCH, groups=[{"group_id": group, "topics": None}]).groups[0]
    assert answer.error_code == errors.NONE, answer
    return {t.name: {p.partition_index: p.committed_offset for p in t.partitions} for t in answer.topics}


class BackgroundMember(threading.Thread):
    """A member that does what a consumer does, by itself: joins, syncs, sends heartbeats and rejoins, until it is killed."""

    HEARTBEAT_S = 0.1

    def __init__(self, broker, group, **options):
        super().__init__(daemon=True)
        self.member = Member(broker, group, **options)
        self.killed = False
        self.start()

    def run(self):
        while not self.killed:
            try:
                self._join_and_sync()
                while not self.killed and self.member.heartbeat() == errors.NONE:
                    time.sleep(self.HEARTBEAT_S)
            except (OSError, ConnectionClosed, struct.error):
                if not self.killed:
                    self.member.start_over()

    def _join_and_sync(self):
        answer = self.member.join()
        if answer.error_code == errors.MEMBER_ID_REQUIRED:
            answer = self.member.join()
        if answer.error_code == errors.UNKNOWN_MEMBER_ID:
            self.member.member_id = ""
        if answer.error_code == errors.NONE:
            self.member.sync({m.member_id: b"assigned" for m in answer.members})

    def kill(self):
        """As SIGKILL: the socket goes in whatever phase the member is."""
        self.killed = True
        with contextlib.suppress(OSError):
            self.member.connection.socket.shutdown(socket.SHUT_RDWR)
        self.join(20)
        self.member.die()
