"""What goes wrong: one node at a time, and how it comes back."""

import random
import time

# How long a halted process is halted: shorter than a session, and longer.
HALTS_S = (1.0, 3.0, 12.0)


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


def any_fault(cluster, topic, partitions, seed):
    """Endless faults in an order that the seed gives: a name for each, and what does it."""
    dice = random.Random(seed)
    while True:
        kind = dice.choice(["leader", "follower", "controller"])
        partition = dice.randrange(partitions)
        how = dice.choice(["crash", "crash", "halt", "restart"])

        def do(kind=kind, partition=partition, how=how, dice=dice):
            node = victim(cluster, kind, topic, partition)
            if how == "crash":
                crash(cluster, node, dice.choice([0.0, 0.0, 2.0, 12.0]))
            elif how == "halt":
                halt(cluster, node, dice.choice(HALTS_S))
            else:
                restart(cluster, node)
            return node

        yield f"{how} {kind} of {partition}", do
