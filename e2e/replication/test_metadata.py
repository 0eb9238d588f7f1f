"""What all brokers tell of leaders while these change: F-04, and M-04's metrics of replicas."""

import re
import threading
import time
import urllib.request

import pytest

from cluster import faults
from ledger.load import Load, check_all
from raw.wait import eventually

PARTITIONS = 3
POLL_S = 0.2
WAIT_S = 60
UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"


class Poller(threading.Thread):
    """Asks every broker again and again who leads, and keeps whatever went back."""

    def __init__(self, cluster, topic):
        super().__init__(daemon=True)
        self.cluster, self.topic = cluster, topic
        self.stopped = threading.Event()
        self.epochs = {}
        self.asked, self.wrong = 0, []

    def run(self):
        while not self.stopped.wait(POLL_S):
            for node in self.cluster.living():
                for index, partition in self.cluster.partitions(self.topic, of=node).items():
                    self._look(node, index, partition)

    def _look(self, node, index, partition):
        self.asked += 1
        known = self.epochs.setdefault((node.pid(), index), -1)
        if partition.leader_epoch < known:
            self.wrong.append(f"{node}: {index}: epoch {partition.leader_epoch} after {known}")
        self.epochs[node.pid(), index] = max(known, partition.leader_epoch)


@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=[pytest.mark.long, pytest.mark.timeout(1200)])])
def test_all_brokers_agree_on_leaders_soon_and_no_epoch_goes_back(cluster, rounds):
    """F-04."""
    topic = cluster.new_topic(partitions=PARTITIONS)
    poller = Poller(cluster, topic)
    poller.start()
    slowest_s = 0.0
    with Load(cluster, topic, PARTITIONS) as load:
        for number in range(rounds):
            faults.restart(cluster, cluster.brokers[number % len(cluster.brokers)])
            began = time.monotonic()
            cluster.wait_until_in_sync(topic)
            eventually(lambda: agree(cluster, topic), timeout_s=WAIT_S, what="the same leaders on every broker")
            slowest_s = max(slowest_s, time.monotonic() - began)
            load.wait_for_more()
        print(f"agreed after {slowest_s:.1f} s at most:", check_all(cluster, load))
    poller.stopped.set()
    poller.join()
    assert poller.asked and not poller.wrong, poller.wrong[:5]


def agree(cluster, topic):
    def told(node):
        return {index: (p.leader_id, p.leader_epoch) for index, p in cluster.partitions(topic, of=node).items()}

    first, *others = [told(node) for node in cluster.living()]
    return first and all(other == first for other in others)


def metrics(node):
    with urllib.request.urlopen(f"http://{node.host.address}:{node.metrics_port}/metrics", timeout=5) as answer:
        return answer.read().decode()


def under_replicated(node):
    found = re.search(rf"^{UNDER_REPLICATED}(?:{{.*}})? (\S+)$", metrics(node), re.M)
    assert found, f"{node} has no {UNDER_REPLICATED}"
    return float(found[1])


def test_partitions_that_lack_a_replica_are_counted_while_they_do(cluster):
    """M-04, as far as the brokers count."""
    for _ in range(3):
        cluster.new_topic(partitions=PARTITIONS)
    cluster.wait_until_in_sync()
    assert [under_replicated(node) for node in cluster.brokers] == [0, 0, 0]
    gone = cluster.brokers[2]
    gone.kill()
    for node in cluster.living():
        eventually(lambda node=node: under_replicated(node) > 0, timeout_s=WAIT_S, what=f"{node} that counts partitions")
    cluster.restart(gone)
    cluster.wait_until_in_sync()
    for node in cluster.brokers:
        eventually(lambda node=node: under_replicated(node) == 0, timeout_s=WAIT_S, what=f"{node} that counts none")

    def names(node):
        return {line.split()[2] for line in metrics(node).splitlines() if line.startswith("# TYPE ")}

    def differences(nodes):
        first, *others = [names(node) for node in nodes]
        return [first ^ other for other in others if first != other]

    # Requests are told of with the first one that is answered.
    for nodes in (cluster.brokers, cluster.controllers):
        eventually(lambda nodes=nodes: differences(nodes), wanted=lambda found: not found, timeout_s=WAIT_S, what="the same names")
