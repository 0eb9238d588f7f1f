"""Apache Kafka's own tools against three brokers: what they print, and what they change."""

import json
import re
import subprocess
import time

from raw import errors
from raw.batch import values_batch
from raw.client import Client, unique
from raw.process import binary
from raw.wait import eventually
from tools import add_voter, directories, kafka, remove_voter, run

WAIT_S = 60
MIB = 1 << 20
THROTTLE_BYTES_PER_S = 2 * MIB
# What a throttled move copies.
MOVED_BYTES = 12 * MIB


def topics(cluster, *filters):
    return kafka(cluster, "kafka-topics", "--describe", *filters)


def named(text):
    """(topic, partition) of every line that describes a partition."""
    return {(topic, int(index)) for topic, index in re.findall(r"Topic: (\S+)\s+Partition: (\d+)", text)}


def test_topics_are_described_with_every_filter(new_cluster):
    cluster = new_cluster()
    cluster.start()
    safe = cluster.new_topic(prefix="safe", partitions=2)
    strict = cluster.new_topic(prefix="strict", partitions=1, min_insync_replicas=3)
    lonely = cluster.new_topic(prefix="lonely", partitions=3, replicas=1)
    assert named(topics(cluster)) == {(safe, 0), (safe, 1), (strict, 0), *((lonely, p) for p in range(3))}
    filters = ["--under-replicated-partitions", "--at-min-isr-partitions", "--under-min-isr-partitions", "--unavailable-partitions"]
    # A topic with fewer replicas than the cluster's minimum is under it from the start, as in Kafka.
    alone = {(lonely, p) for p in range(3)}
    assert [named(topics(cluster, one)) for one in filters] == [set(), {(strict, 0)}, alone, set()]
    gone = cluster.brokers[2]
    lost = {(lonely, p) for p, found in cluster.partitions(lonely).items() if found.leader_id == gone.number}
    gone.kill()
    eventually(
        lambda: named(topics(cluster, filters[0])),
        wanted=lambda found: {(safe, 0), (safe, 1), (strict, 0)} <= found,
        timeout_s=WAIT_S,
        what="partitions that lack a replica",
    )
    assert named(topics(cluster, filters[1])) == {(safe, 0), (safe, 1)}
    assert named(topics(cluster, filters[2])) == {(strict, 0)} | alone
    assert named(topics(cluster, filters[3])) == lost
    cluster.restart(gone)
    cluster.wait_until_in_sync()
    assert [named(topics(cluster, one)) for one in filters] == [set(), {(strict, 0)}, alone, set()]


def replicas(cluster, topic, partition=0):
    return cluster.partitions(topic)[partition].replica_nodes


def plan(tmp_path, topic, *assignments):
    """A file that says which replicas each partition is to have."""
    partitions = [{"topic": topic, "partition": p, "replicas": brokers} for p, brokers in enumerate(assignments)]
    file = tmp_path / f"{unique('plan')}.json"
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return file


def reassign(cluster, file, *more):
    return kafka(cluster, "kafka-reassign-partitions", "--reassignment-json-file", file, *more)


def test_a_reassignment_is_generated_executed_and_verified(cluster, tmp_path):
    topic = cluster.new_topic(partitions=2, replicas=1)
    for partition in range(2):
        with Client(cluster.leader(topic, partition)) as client:
            client.append_values(topic, b"x" * 1000, partition=partition)
    wanted = tmp_path / "topics.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    generated = kafka(
        cluster, "kafka-reassign-partitions", "--topics-to-move-json-file", wanted, "--broker-list", "1,2,3", "--generate"
    )
    proposed = json.loads(generated.split("Proposed partition reassignment configuration")[1])
    assert {entry["topic"] for entry in proposed["partitions"]} == {topic}
    file = plan(tmp_path, topic, [1, 2, 3], [3, 1])
    assert "Successfully started partition reassignments" in reassign(cluster, file, "--execute")
    cluster.wait_until_in_sync(topic)
    verified = eventually(
        lambda: reassign(cluster, file, "--verify"),
        wanted=lambda text: text.count("is completed") == 2,
        timeout_s=WAIT_S,
        what="a finished reassignment",
    )
    assert f"Reassignment of partition {topic}-0 is completed." in verified
    assert [replicas(cluster, topic, p) for p in range(2)] == [[1, 2, 3], [3, 1]]
    assert "No partition reassignments found." in kafka(cluster, "kafka-reassign-partitions", "--list")


def test_a_drain_that_is_waited_for_ends_when_the_broker_keeps_nothing(new_cluster):
    cluster = new_cluster()
    cluster.start()
    topic = cluster.new_topic(partitions=6, replicas=1)
    emptied = replicas(cluster, topic)[0]
    with Client(cluster.leader(topic)) as client:
        client.append_values(topic, b"x" * 100_000)
    command = [binary(), "broker", "drain", str(emptied), "--wait", "--controllers", ",".join(cluster.servers)]
    drained = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, env={})
    assert drained.returncode == 0, drained
    assert drained.stdout == f"broker {emptied} keeps nothing any more\n"
    assert f"broker {emptied} is drained, 2 replicas left" in drained.stderr, "how far it is goes to standard error"
    assert all(emptied not in replicas(cluster, topic, partition) for partition in range(6))
    with Client(cluster.leader(topic)) as client:
        assert client.end_offset(topic, 0) == 1


def test_a_move_to_a_broker_that_is_down_is_listed_and_cancelled(cluster, tmp_path):
    topic = cluster.new_topic(partitions=1, replicas=1)
    leader = cluster.leader(topic)
    with Client(leader) as client:
        client.append_values(topic, b"kept")
    away, other = [node for node in cluster.brokers if node is not leader]
    away.kill()
    file = plan(tmp_path, topic, [away.number, other.number])
    # The tool itself does not start a move to a broker that is down.
    entry = {"partition_index": 0, "replicas": [away.number, other.number]}
    with cluster.client() as client:
        fields = {"timeout_ms": 5000, "topics": [{"name": topic, "partitions": [entry]}]}
        answer = client.call("AlterPartitionReassignments", 0, **fields)
    assert answer.responses[0].partitions[0].error_code == errors.NONE, answer
    listed = kafka(cluster, "kafka-reassign-partitions", "--list")
    assert f"{topic}-0: replicas:" in listed and f"adding: {away.number}" in listed, listed
    assert "still in progress" in reassign(cluster, file, "--verify")
    assert "Successfully cancelled" in reassign(cluster, file, "--cancel", "--preserve-throttles")
    assert replicas(cluster, topic) == [leader.number]
    cluster.restart(away)
    with Client(cluster.leader(topic)) as client:
        assert client.read_values(topic) == [b"kept"]
    cluster.delete_topic(topic)


def configs(cluster, kind, name):
    with cluster.client() as client:
        return {key: entry.value for key, entry in client.describe_configs(kind, name).items() if "throttled" in key}


def throttles(cluster, topic):
    """What throttles are set: of the topic, and of every broker."""
    found = [value for value in configs(cluster, 2, topic).values() if value]
    for node in cluster.brokers:
        with cluster.client(node) as client:
            described = client.describe_configs(4, str(node.number))
        found += [entry.value for key, entry in described.items() if "replication.throttled.rate" in key and entry.config_source == 2]
    return found


def test_a_throttle_is_set_for_a_move_and_taken_away_by_verify(cluster, tmp_path):
    topic = cluster.new_topic(partitions=1, replicas=1)
    leader = cluster.leader(topic)
    batch = 900_000
    with Client(leader) as client:
        for _ in range(MOVED_BYTES // batch):
            client.append(topic, values_batch(b"\xa5" * batch))
    others = [node.number for node in cluster.brokers if node is not leader]
    file = plan(tmp_path, topic, [leader.number, *others])
    started = time.monotonic()
    said = reassign(cluster, file, "--execute", "--throttle", THROTTLE_BYTES_PER_S)
    assert "throttle" in said and throttles(cluster, topic), said
    cluster.wait_until_in_sync(topic)
    took_s = time.monotonic() - started
    print(f"{MOVED_BYTES // MIB} MiB to each of two, throttled to {THROTTLE_BYTES_PER_S // MIB} MiB/s: {took_s:.1f} s")
    assert "is completed" in reassign(cluster, file, "--verify")
    assert throttles(cluster, topic) == []


def test_leaders_are_elected_by_the_tool(cluster):
    topic = cluster.new_topic(partitions=1)
    preferred = cluster.broker(replicas(cluster, topic)[0])
    done = kafka(cluster, "kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", 0)
    assert f"Valid replica already elected for partitions {topic}-0" in done
    assert cluster.leader(topic) is preferred
    refused = run(cluster, "kafka-leader-election", "--election-type", "unclean", "--topic", topic, "--partition", 0)
    assert "Valid replica already elected" in refused.stdout, refused
    missing = run(cluster, "kafka-leader-election", "--election-type", "preferred", "--topic", unique("nowhere"), "--partition", 0)
    assert missing.returncode != 0 and "UnknownTopicOrPartition" in missing.stdout + missing.stderr, missing


def test_the_quorum_is_described_and_voters_are_removed_and_added(new_cluster, tmp_path):
    cluster = new_cluster()
    cluster.start()
    status = kafka(cluster, "kafka-metadata-quorum", "describe", "--status")
    fields = dict(re.findall(r"^(\w+):\s+(.*)$", status, re.M))
    active = cluster.active_controller()
    assert fields["LeaderId"] == str(active.number) and int(fields["HighWatermark"]) > 0
    assert all(f'"id": {node.number}' in fields["CurrentVoters"] for node in cluster.controllers), status
    assert all(f"localhost:{node.port}" in status or node.server in status for node in cluster.controllers), status
    ids = directories(cluster)
    assert sorted(status for _, status in ids.values()) == ["Follower", "Follower", "Leader"], ids
    removed = next(node for node in cluster.controllers if node is not active)
    remove_voter(cluster, removed)
    rest = {node.number for node in cluster.controllers if node is not removed}
    eventually(cluster.voters, wanted=lambda voters: voters == rest, timeout_s=WAIT_S, what="two voters")
    # Until it follows again nobody knows of it.
    directory, _ = ids[removed.number]
    add_voter(cluster, removed, directory, tmp_path)
    everyone = {node.number for node in cluster.controllers}
    eventually(cluster.voters, wanted=lambda voters: voters == everyone, timeout_s=WAIT_S, what="three voters")
    cluster.new_topic(partitions=1)


def test_log_directories_are_described_for_every_broker(cluster):
    topic = cluster.new_topic(partitions=2)
    with Client(cluster.leader(topic)) as client:
        client.append_values(topic, b"x" * 5000)
    cluster.wait_until_in_sync(topic)
    printed = kafka(cluster, "kafka-log-dirs", "--describe", "--topic-list", topic)
    brokers = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))["brokers"]
    assert {entry["broker"] for entry in brokers} == {1, 2, 3}
    for entry in brokers:
        (directory,) = entry["logDirs"]
        sizes = {part["partition"]: part["size"] for part in directory["partitions"]}
        assert directory["error"] is None and set(sizes) == {f"{topic}-0", f"{topic}-1"}, entry
        assert sizes[f"{topic}-0"] > 5000 and not any(part["isFuture"] for part in directory["partitions"])


def test_versions_of_every_broker_are_told(cluster):
    printed = kafka(cluster, "kafka-broker-api-versions")
    told = set(re.findall(r"^(\S+:\d+) \(id: (\d+) rack: (\S+)", printed, re.M))
    assert told == {(node.server, str(node.number), node.rack) for node in cluster.brokers}
    assert printed.count("Produce(0): ") == 3 and "UNKNOWN" not in printed
