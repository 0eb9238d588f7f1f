"""What goes wrong, one node at a time, and how it comes back. Each ends when the node is there again."""

import contextlib
import random
import time

from raw.disk import fill_volume
from raw.wait import eventually

# How long a halted process is halted: shorter than a session, and longer.
HALTS_S = (1.0, 3.0, 12.0)
# How long a node is cut off: too short to be missed, and longer.
CUTS_S = (0.2, 1.0, 3.0, 12.0)
# How long a disk is full: shorter than a follower may lag, and longer.
FULL_S = (1.0, 6.0)
# Room that a broker keeps back, so that a full disk does not keep it from what frees the disk. It takes its time to do so.
RESERVE = "taffrail-reserve"
RESERVE_TIMEOUT_S = 120
VOTE_TIMEOUT_S = 60


def victim(cluster, kind, topic, partition=0):
    """The node that has this part at the moment."""
    if kind == "leader":
        return cluster.leader(topic, partition)
    if kind == "follower":
        return cluster.follower(topic, partition)
    return cluster.active_controller()


def crash(cluster, node, down_s=0.0):
    """SIGKILL, and a start after a while."""
    node.kill()
    time.sleep(down_s)
    cluster.restart(node)


def lose_disk(cluster, node, down_s=0.0):
    """SIGKILL, and a start with an empty disk. A controller is there again when its new disk has the vote of the lost one: until
    then its number still stands among the voters, and the loss of another disk would take the majority."""
    before = eventually(cluster.voting_disks, what="who votes") if node.role == "controller" else set()
    node.kill()
    node.wipe()
    time.sleep(down_s)
    cluster.restart(node)
    if before:
        eventually(
            cluster.voting_disks,
            wanted=lambda now: len(now) == len(before) and now != before,
            timeout_s=VOTE_TIMEOUT_S,
            what=f"a vote for the new disk of {node}",
        )


def halt(_cluster, node, for_s):
    """SIGSTOP and SIGCONT: the node's sockets stay, and it does not know that time has passed."""
    node.halt()
    try:
        time.sleep(for_s)
    finally:
        node.go_on()
    node.wait_until_ready()


def restart(cluster, node):
    """SIGTERM, and a start at once."""
    node.stop()
    assert node.process.returncode == 0, f"{node} ended with {node.process.returncode}:\n{node.log_text()[-2000:]}"
    cluster.restart(node)


@contextlib.contextmanager
def away(cluster, node, ways=("out", "in")):
    """The node is cut off from all others and from clients: what it sends is lost, what is sent to it, or both."""
    address = node.host.address
    others = cluster.network.others(address)
    pairs = [(address, other) for other in others if "out" in ways] + [(other, address) for other in others if "in" in ways]
    cluster.network.cut_all(pairs)
    cluster.cut_off.add(node)
    try:
        yield
    finally:
        cluster.network.heal(pairs)
        cluster.cut_off.discard(node)


def cut_off(cluster, node, for_s, ways):
    with away(cluster, node, ways):
        time.sleep(for_s)
    node.wait_until_ready()


@contextlib.contextmanager
def full(node):
    """There is not one byte of room on the volume of the broker's partitions; what it keeps back for itself it has kept by then."""
    eventually((node.logs / RESERVE).exists, timeout_s=RESERVE_TIMEOUT_S, what=f"room that {node} keeps back")
    filler = fill_volume(node.logs)
    try:
        yield
    finally:
        filler.unlink()


def fill(_cluster, node, for_s):
    with full(node):
        time.sleep(for_s)
    node.wait_until_ready()


class Dice:
    """Endless faults in an order that the seed gives. On a network its wires are cut too, and brokers' volumes filled."""

    def __init__(self, cluster, topic, partitions, seed):
        self.cluster, self.topic, self.partitions = cluster, topic, partitions
        self.random = random.Random(seed)
        self.hows = {
            "crash": lambda: (crash, self._one_of(0.0, 0.0, 2.0, 12.0)),
            "lose the disk of": lambda: (lose_disk, self._one_of(0.0, 2.0)),
            "halt": lambda: (halt, self._one_of(*HALTS_S)),
            "restart": lambda: (restart,),
            "cut off": lambda: (cut_off, self._one_of(*CUTS_S), self._one_of(("out", "in"), ("out",), ("in",))),
            "fill": lambda: (fill, self._one_of(*FULL_S)),
        }
        # What comes more often than once.
        self.bag = ["crash", "crash", "lose the disk of", "halt", "restart"]
        if cluster.network is not None:
            self.bag += ["cut off", "cut off", "fill"]

    def _one_of(self, *choices):
        return self.random.choice(choices)

    def throw(self):
        """The next fault: its name, and what does it and gives the node that it befell. The seed alone decides what comes."""
        how = self.random.choice(self.bag)
        kinds = ["leader", "follower"] if how == "fill" else ["leader", "follower", "controller"]
        kind, partition = self.random.choice(kinds), self.random.randrange(self.partitions)
        act, *options = self.hows[how]()

        def do():
            node = victim(self.cluster, kind, self.topic, partition)
            act(self.cluster, node, *options)
            return node

        return " ".join([how, kind, "of", str(partition), *map(str, options)]), do
