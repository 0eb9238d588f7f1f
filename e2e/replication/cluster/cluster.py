"""Three brokers and three controllers, and what a test asks of all of them."""

import base64
import os
import pathlib
import shutil
import tempfile
import uuid

from raw.broker import free_ports
from raw.process import STOP_TIMEOUT_S
from raw.wait import eventually

from .asked import WAIT_S, Asked
from .host import LOOPBACK
from .node import BrokerNode, ControllerNode

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


class Cluster(Asked):
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
                found[node.number] = eventually(lambda folder=folder: segments_of(folder), wanted=is_whole, what=f"{folder}")
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


def segments_of(folder):
    """All segments in a partition's folder as one string of bytes; None if compaction took one away meanwhile."""
    try:
        return b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
    except FileNotFoundError:
        return None


def is_whole(segments):
    return segments is not None


def first_difference(logs):
    """Where the first two logs that differ do so."""
    (first, *others) = logs.items()
    for number, log in others:
        if log != first[1]:
            shorter = min(len(log), len(first[1]))
            at = next((i for i in range(shorter) if log[i] != first[1][i]), shorter)
            return f"brokers {first[0]} and {number} at byte {at}"
    return "nowhere"
