"""Members of a classic group and committed offsets, request by request.

A JoinGroup waits at the broker for the other members, so each member has a connection of its own and can send without waiting
for the answer.
"""

from . import errors
from .wait import eventually

JOIN, SYNC, HEARTBEAT, LEAVE = 9, 5, 4, 5
COMMIT, OFFSET_FETCH, DESCRIBE = 9, 9, 5
SESSION_TIMEOUT_MS = 10_000
NO_GENERATION = -1


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

    def one_generation():
        for member in members:
            member.begin(protocols=protocols)
        answers = [member.finish_join() for member in members]
        assert all(a.error_code == errors.NONE for a in answers), answers
        assert len({a.generation_id for a in answers}) == 1, answers
        return answers

    answers = eventually(one_generation, timeout_s=20, what=f"{len(members)} members in one generation")
    return sync_all(members, answers)


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
