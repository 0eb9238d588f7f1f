"""Six processes become one cluster, in whatever order they start, and whoever does not belong to it is told so."""

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys

import pytest

from cluster.cluster import new_cluster_id
from cluster.node import BrokerNode
from raw.broker import free_ports
from raw.client import METADATA
from raw.process import binary, environment
from raw.wait import eventually

ENDS_TIMEOUT_S = 30


def ends_with(node, text):
    """The process ends by itself with status 1, and says this."""
    assert node.process.wait(ENDS_TIMEOUT_S) == 1, node.log_text()
    assert text in node.log_text(), node.log_text()[-2000:]


def says(node, text):
    eventually(lambda: text in node.log_text(), timeout_s=ENDS_TIMEOUT_S, what=f"{node} that says {text!r}")
    assert node.is_alive(), node.log_text()[-2000:]


def another(cluster, number, port=None):
    """One more broker process that is told to join this cluster."""
    ports = free_ports(2)
    return BrokerNode(number, cluster.settings, cluster.folder / "more", port or ports[0], ports[1])


@pytest.mark.parametrize("order", ["controllers first", "brokers first", "mixed"])
def test_six_processes_become_one_cluster_in_whatever_order_they_start(new_cluster, order):
    cluster = new_cluster()
    nodes = list(cluster.nodes)
    if order == "brokers first":
        nodes = nodes[::-1]
    elif order == "mixed":
        random.Random(5).shuffle(nodes)
    cluster.start(nodes)
    for node in cluster.brokers:
        metadata = cluster.metadata(of=node)
        assert metadata.cluster_id == cluster.cluster_id
        known = {(broker.node_id, broker.port, broker.rack) for broker in metadata.brokers}
        assert known == {(broker.number, broker.port, broker.rack) for broker in cluster.brokers}
    topic = cluster.new_topic(partitions=6, replicas=1)
    leaders = [partition.leader_id for partition in cluster.partitions(topic).values()]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3], "leaders are spread"


@contextlib.contextmanager
def busy_machine():
    """Every core has twice as much to do as it can meanwhile."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range(2 * os.cpu_count())]
    try:
        yield
    finally:
        for one in others:
            one.kill()
            one.wait()


def active(cluster):
    """The controller that leads as the controllers themselves tell it, before any broker serves; None while there is none."""
    command = [binary(), "cluster", "health", "--controllers", ",".join(cluster.servers), "--timeout-ms", "500", "-o", "json"]
    said = subprocess.run(command, capture_output=True, text=True, env=environment({})).stdout
    number = json.loads(said)["controllers"]["active"] if said else None
    return next((node for node in cluster.controllers if node.number == number), None)


@pytest.mark.parametrize("seed", [1, *[pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 21)]])
@pytest.mark.parametrize("how", ["killed", "halted"])
def test_six_that_start_at_once_become_one_cluster_though_their_first_leader_goes(new_cluster, how, seed):
    """In any order, on a busy machine. Whoever has found the first leader must not cling to it."""
    cluster = new_cluster()
    nodes = list(cluster.nodes)
    random.Random(seed).shuffle(nodes)
    with busy_machine():
        cluster.launch(nodes, found=True)
        first = eventually(lambda: active(cluster), timeout_s=ENDS_TIMEOUT_S, what="a first leader")
        first.kill() if how == "killed" else first.halt()
        for node in cluster.nodes:
            if node is not first:
                node.wait_until_ready()
        topic = cluster.new_topic(partitions=3)
        if how == "killed":
            cluster.launch([first], found=True)
        else:
            first.go_on()
        cluster.wait_until_ready()
        cluster.wait_until_whole(topic)
    for node in cluster.brokers:
        told = cluster.metadata(of=node)
        assert (told.cluster_id, len(told.brokers)) == (cluster.cluster_id, len(cluster.brokers))


def test_brokers_wait_for_controllers_that_come_late_and_clients_wait_with_them(new_cluster):
    cluster = new_cluster()
    cluster.launch(cluster.brokers)
    for node in cluster.brokers:
        says(node, "waiting for the controllers")
        assert not node.is_ready()
    with cluster.brokers[0].connect(timeout_s=60) as connection:
        asked = connection.send("Metadata", METADATA, topics=[])
        cluster.launch(cluster.controllers, found=True)
        cluster.wait_until_ready()
        assert connection.receive("Metadata", METADATA, asked).cluster_id == cluster.cluster_id


def test_a_broker_refuses_controllers_of_another_cluster_and_a_disk_of_another_one(cluster):
    theirs = new_cluster_id()
    told = another(cluster, 7)
    told.launch(cluster.servers, "--cluster-id", theirs)
    ends_with(told, f"are of cluster {cluster.cluster_id}, not of cluster {theirs} (--cluster-id)")

    folder = told.logs
    folder.mkdir(parents=True, exist_ok=True)
    properties = f"#\ncluster.id={theirs}\ndirectory.id={new_cluster_id()}\nnode.id=7\nversion=1\n"
    (folder / "meta.properties").write_text(properties)
    told.launch(cluster.servers)
    ends_with(told, f"belong to node 7 of cluster {theirs}, not to node 7 of cluster {cluster.cluster_id}")
    assert (folder / "meta.properties").read_text() == properties

    other = another(cluster, 8)
    other.data_folder = told.data_folder
    other.launch(cluster.servers)
    ends_with(other, "belong to broker 7, not to broker 8")
    assert {broker.node_id for broker in cluster.metadata().brokers} == {1, 2, 3}


def test_a_disk_that_another_broker_uses_too_is_refused(cluster):
    copy = another(cluster, 9)
    shutil.rmtree(copy.data_folder, ignore_errors=True)
    copy.logs.mkdir(parents=True)
    text = (cluster.brokers[0].logs / "meta.properties").read_text()
    (copy.logs / "meta.properties").write_text(text.replace("node.id=1", "node.id=9"))
    copy.launch(cluster.servers)
    ends_with(copy, "Broker 1 is already registered with directory")


def test_a_second_process_with_a_taken_number_waits_and_takes_over_when_the_first_ends(new_cluster):
    cluster = new_cluster(controllers=1)
    cluster.start()
    second = another(cluster, 2)
    second.launch(cluster.servers)
    says(second, "Another broker is registered with that broker id.")
    assert not second.is_ready() and cluster.broker(2).is_ready()
    cluster.broker(2).stop()
    second.wait_until_ready()
    known = {broker.node_id: broker.port for broker in cluster.metadata(of=cluster.broker(1)).brokers}
    assert known[2] == second.port
    second.kill()


def test_mistakes_of_the_command_line_are_told_with_their_flag(tmp_path):
    cases = [
        (["--node-id", "1"], "--controllers"),
        (["--node-id", "-1", "--controllers", "a:1"], "--node-id"),
        (["--node-id", "1", "--controllers", "nowhere"], "--controllers nowhere: host:port is needed"),
        (["--node-id", "1", "--controllers", "a:1", "--cluster-id", "x"], "--cluster-id: 'x' is not an id"),
        (["--node-id", "1", "--controllers", "a:1", "--set", "node.id=3"], "`taffrail broker` takes --node-id"),
    ]
    for arguments, expected in cases:
        done = subprocess.run(
            [binary(), "broker", "--data-dir", str(tmp_path / "data"), *arguments], capture_output=True, text=True, env={}
        )
        assert done.returncode == 2 and expected in done.stderr, (arguments, done)
    assert not (tmp_path / "data").exists()


def test_every_broker_tells_the_same_metadata(cluster):
    topic = cluster.new_topic(partitions=4)

    def told(node):
        answer = cluster.metadata(topic, of=node)
        partitions = {
            p.partition_index: (p.leader_id, p.leader_epoch, tuple(p.replica_nodes)) for p in answer.topics[0].partitions
        }
        return answer.cluster_id, {broker.node_id for broker in answer.brokers}, partitions

    first = told(cluster.brokers[0])
    for node in cluster.brokers[1:]:
        eventually(lambda node=node: told(node), wanted=lambda answer: answer == first, what=f"the same metadata of {node}")


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_described_in_every_version(cluster, version):
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    answer = cluster.brokers[0].answers("DescribeQuorum", version, topics=topics)
    partition = answer.topics[0].partitions[0]
    assert {voter.replica_id for voter in partition.current_voters} == {101, 102, 103}
    assert partition.leader_id in {101, 102, 103}
    addresses = {node.node_id: node.listeners[0].port for node in answer.nodes} if version >= 2 else None
    assert addresses in (None, {node.number: node.port for node in cluster.controllers})


def test_settings_of_a_broker_are_its_own(new_cluster):
    cluster = new_cluster(controllers=1)
    cluster.launch(cluster.controllers, found=True)
    for node in cluster.brokers:
        node.launch(cluster.servers, "--set", f"message.max.bytes={1000 + node.number}")
    cluster.wait_until_ready()
    for node in cluster.brokers:
        with cluster.client(node) as client:
            described = client.describe_configs(4, str(node.number), ["message.max.bytes", "node.id", "broker.rack"])
        told = {name: entry.value for name, entry in described.items()}
        expected = {"message.max.bytes": str(1000 + node.number), "node.id": str(node.number), "broker.rack": node.rack}
        assert told == expected


def test_a_broker_that_leaves_in_order_is_never_found_with_its_port_closed(cluster):
    """Until others are told to be asked instead, the one that leaves answers."""
    leaving, staying = cluster.brokers[2], cluster.brokers[0]
    leaving.process.terminate()
    while cluster.broker(3) in [cluster.broker(b.node_id) for b in cluster.metadata(of=staying).brokers]:
        answer = leaving.answers("Metadata", METADATA, topics=[])
        if answer is None:
            known = {broker.node_id for broker in cluster.metadata(of=staying).brokers}
            assert leaving.number not in known, "its port is closed, and others still send clients there"
    assert leaving.process.wait(ENDS_TIMEOUT_S) == 0, leaving.log_text()[-2000:]
    assert "everything is on disk" in leaving.log_text()


def test_a_whole_cluster_that_stopped_is_found_again(new_cluster):
    cluster = new_cluster(settings={"min.insync.replicas": 1})
    cluster.start()
    topic = cluster.new_topic(partitions=3, replicas=1)
    offsets = {}
    for partition in range(3):
        with cluster.client(cluster.leader(topic, partition)) as client:
            offsets[partition] = client.append_values(topic, b"one", b"two", partition=partition)
    cluster.stop()
    for node in cluster.nodes:
        assert node.process.returncode == 0, f"{node}: {node.log_text()[-2000:]}"
    cluster.launch()
    cluster.wait_until_ready()
    for partition in range(3):
        with cluster.client(cluster.leader(topic, partition)) as client:
            assert client.read_values(topic, partition=partition) == [b"one", b"two"]
