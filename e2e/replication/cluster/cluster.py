"""Three brokers and three controllers, and what a test asks of all of them."""

import base64
import os
import pathlib
import shutil
import tempfile
import uuid

from raw import errors
from raw.broker import free_ports
from raw.client import CREATE_TOPICS, METADATA, Client, as_configs, unique
from raw.process import STOP_TIMEOUT_S
from raw.wait import eventually

from .host import LOOPBACK
from .node import BrokerNode, ControllerNode

WAIT_S = 60
# Short enough that no test waits for a default.
COMMON_SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "num.partitions": 3,
    "log.cleaner.backoff.ms": 200,
}
RACKS = ("a", "b", "c")


def new_cluster_id():
    """An id of a cluster in Kafka's way of writing, which does not begin as a flag does."""
    text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return new_cluster_id() if text.startswith("-") else text


class Cluster:
    """`brokers` brokers numbered from 1 and `controllers` controllers numbered from 101. `host` gives each node's place, by its
    number."""

    def __init__(self, brokers=3, controllers=3, settings=None, folder=None, host=lambda _: LOOPBACK):
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="taffrail-replication-"))
        self.settings = {**COMMON_SETTINGS, **(settings or {})}
        self.cluster_id = new_cluster_id()
        ports = iter(free_ports(2 * (brokers + controllers)))

        def place(number):
            return number, self.settings, self.folder, next(ports), next(ports), host(number)

        self.controllers = [ControllerNode(*place(101 + i)) for i in range(controllers)]
        self.brokers = [BrokerNode(*place(1 + i), rack=RACKS[i % len(RACKS)]) for i in range(brokers)]
        # Nodes that a test has cut off: whoever asks the cluster does not ask them.
        self.cut_off = set()
        # The network whose hosts the nodes are at, if it is one whose wires can be cut.
        self.network = None
        self.servers = [node.server for node in self.controllers]
        self.bootstrap = ",".join(node.server for node in self.brokers)

    @property
    def nodes(self):
        return [*self.controllers, *self.brokers]

    # Starting and stopping

    def launch(self, nodes=None, found=False):
        """Starts nodes in the order given, and waits for nothing. `found`: with the grant to found the cluster."""
        for node in nodes if nodes is not None else self.nodes:
            more = ["--cluster-id", self.cluster_id]
            if found and node.role == "controller":
                more.append("--bootstrap")
            node.launch(self.servers, *more)

    def start(self, nodes=None):
        """From nothing to a cluster that serves."""
        self.launch(nodes, found=True)
        self.wait_until_ready()

    def restart(self, node):
        """Starts a node that is down, and waits until it is ready."""
        self.launch([node])
        node.wait_until_ready()

    def wait_until_ready(self):
        for node in self.nodes:
            node.wait_until_ready()

    def stop(self):
        """SIGTERM to all at once, as whoever shuts a machine down does it."""
        running = [node for node in self.nodes if node.is_alive()]
        for node in running:
            node.process.terminate()
        for node in running:
            node.process.wait(STOP_TIMEOUT_S)

    def kill(self):
        """Ends everything at once."""
        for node in self.nodes:
            if node.is_alive():
                node.go_on()
                node.kill()

    def remove(self):
        """Ends everything; with KEEP=1 the folders stay, to be looked at."""
        self.kill()
        if os.environ.get("KEEP") == "1":
            print(f"kept: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    # Asking

    def broker(self, number):
        return next(node for node in self.brokers if node.number == number)

    def living(self):
        return [node for node in self.brokers if node.is_alive() and node not in self.cut_off]

    def client(self, node=None):
        """A RAW client of one broker, by default the first that lives."""
        return Client(node or self.living()[0])

    def metadata(self, *topics, of=None):
        """Metadata as one broker tells them; None while it gives no answer."""
        node = of or self.living()[0]
        names = [{"name": name} for name in topics]
        return node.answers("Metadata", METADATA, topics=names, allow_auto_topic_creation=False)

    def partitions(self, topic, of=None):
        """index -> the partition's metadata, as one broker tells them."""
        answer = self.metadata(topic, of=of)
        if answer is None or answer.topics[0].error_code != errors.NONE:
            return {}
        return {partition.partition_index: partition for partition in answer.topics[0].partitions}

    def leader(self, topic, partition=0, other_than=None):
        """The broker that leads, once there is one that lives (and is another than `other_than`)."""

        def find():
            for node in self.living():
                found = self.partitions(topic, of=node).get(partition)
                if found and found.leader_id > 0:
                    leader = self.broker(found.leader_id)
                    if leader in self.living() and leader is not other_than:
                        return leader
            return None

        return eventually(find, timeout_s=WAIT_S, what=f"a leader of {topic}-{partition}")

    def follower(self, topic, partition=0):
        leader = self.leader(topic, partition)
        replicas = self.partitions(topic)[partition].replica_nodes
        return self.broker(next(number for number in replicas if number != leader.number))

    def new_topic(self, prefix="t", partitions=3, replicas=3, **configs):
        """A new topic that every living broker knows and whose leaders serve; its name. `_` stands for `.` in config names."""
        name = unique(prefix)
        configs = as_configs({key.replace("_", "."): value for key, value in configs.items()})
        topic = {"name": name, "num_partitions": partitions, "replication_factor": replicas, "configs": configs}
        with self.client() as client:
            answer = client.call("CreateTopics", CREATE_TOPICS, topics=[topic], timeout_ms=WAIT_S * 1000, validate_only=False)
        assert answer.topics[0].error_code == errors.NONE, answer
        self.wait_until_known(name, partitions)
        return name

    def wait_until_known(self, topic, partitions):
        def known():
            for node in self.living():
                found = self.partitions(topic, of=node)
                assert len(found) == partitions, f"{node}: {found}"
                assert all(partition.leader_id > 0 for partition in found.values()), f"{node}: {found}"
            return True

        eventually(known, timeout_s=WAIT_S, what=f"{topic} on every broker")

    def wait_until_in_sync(self, *topics):
        """Until every replica of these topics (default: of all) is in sync, as every living broker tells it."""

        def in_sync():
            for node in self.living():
                answer = node.answers("Metadata", METADATA, topics=[{"name": t} for t in topics] or None)
                assert answer is not None, f"{node} does not answer"
                for topic in answer.topics:
                    assert topic.error_code == errors.NONE, topic
                    for partition in topic.partitions:
                        assert partition.leader_id > 0, f"{node}: {topic.name}: {partition}"
                        replicas, isr = set(partition.replica_nodes), set(partition.isr_nodes)
                        assert replicas == isr, f"{node}: {topic.name}: {partition}"
            return True

        eventually(in_sync, timeout_s=WAIT_S, poll_s=0.1, what="all replicas in sync")

    def wait_until_whole(self, *topics):
        """Until these topics are in sync, and every controller has its vote."""
        self.wait_until_in_sync(*topics)
        wanted = {node.number for node in self.controllers}
        eventually(self.voters, wanted=lambda voters: voters == wanted, timeout_s=WAIT_S, poll_s=0.1, what="every vote")

    def quorum(self, of=None):
        """What a broker is told of the quorum: leader_id, leader_epoch, current_voters and more; None while it does not know."""
        topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        answer = (of or self.living()[0]).answers("DescribeQuorum", 2, topics=topics)
        return answer.topics[0].partitions[0] if answer is not None and answer.error_code == errors.NONE else None

    def voters(self):
        quorum = self.quorum()
        return {voter.replica_id for voter in quorum.current_voters} if quorum else set()

    def voting_disks(self):
        """The directory ids of the voters: a controller whose disk was lost is another voter than the one before."""
        quorum = self.quorum()
        return {voter.replica_directory_id for voter in quorum.current_voters} if quorum else set()

    def delete_topic(self, topic):
        """Deletes a topic whose records would not outlive a disk, before a test on the same cluster wipes one."""
        with self.client() as client:
            assert client.delete_topic(topic) == errors.NONE

    def active_controller(self, other_than=None):
        """The controller that leads the quorum, as the brokers are told, once it is another than `other_than`."""

        def find():
            for node in self.living():
                quorum = self.quorum(of=node)
                if quorum is None:
                    continue
                found = [node for node in self.controllers if node.number == quorum.leader_id and node.is_alive()]
                if found and found[0] is not other_than:
                    return found[0]
            return None

        return eventually(find, timeout_s=WAIT_S, what="an active controller")

    # Replicas on disk

    def logs_of(self, topic, partition):
        """broker number -> the partition's segments in order, as one string of bytes. Brokers that keep none are left out."""
        found = {}
        for node in self.brokers:
            folder = node.logs / f"{topic}-{partition}"
            if folder.is_dir():
                found[node.number] = b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
        return found

    def assert_equal_replicas(self, topic, partitions, replicas=3):
        """Every replica of every partition has the same bytes, once they have had time to get them."""

        def equal():
            for partition in range(partitions):
                logs = self.logs_of(topic, partition)
                assert len(logs) == replicas, f"{topic}-{partition} is kept by {sorted(logs)}"
                sizes = {number: len(log) for number, log in logs.items()}
                assert len(set(logs.values())) == 1, f"{topic}-{partition} differs: {sizes}, {first_difference(logs)}"
            return True

        eventually(equal, timeout_s=WAIT_S, poll_s=0.2, what=f"equal replicas of {topic}")

    def tail_of_logs(self, lines=40):
        """The last words of every process, for a failure."""
        parts = []
        for node in self.nodes:
            text = "\n".join(node.log_text().splitlines()[-lines:])
            parts.append(f"--- {node}{'' if node.is_alive() else ' (down)'}\n{text}")
        return "\n".join(parts)


def first_difference(logs):
    """Where the first two logs that differ do so."""
    (first, *others) = logs.items()
    for number, log in others:
        if log != first[1]:
            shorter = min(len(log), len(first[1]))
            at = next((i for i in range(shorter) if log[i] != first[1][i]), shorter)
            return f"brokers {first[0]} and {number} at byte {at}"
    return "nowhere"
