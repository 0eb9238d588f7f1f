"""Wires that are cut, for all or for some, in one direction or both: R-02, and what a session may and may not take for a death.

A cut drops what is sent in silence (`cluster/network.py`); the clients are on the same network.
"""

import time

import pytest

from cluster import faults
from cluster.connections import close_connections
from cluster.network import both_ways
from ledger.load import Load, LonelyWriter, check_all
from raw.wait import eventually

PARTITIONS = 3
RACKS = ("a", "b", "c")
BLINK_S = 0.2
# Longer than a broker that attends may be silent, so that whoever would be fenced has been.
AFTERMATH_S = 3
WAIT_S = 60


def addresses(nodes):
    return [node.host.address for node in nodes]


@pytest.mark.parametrize("ways", [("out", "in"), ("out",), ("in",)], ids=["both ways", "nothing out", "nothing in"])
@pytest.mark.parametrize("kind", ["leader", "controller"])
def test_whoever_is_cut_off_is_replaced_and_comes_back(apart, kind, ways):
    topic = apart.new_topic(partitions=PARTITIONS)
    with Load(apart, topic, PARTITIONS) as load:
        node = faults.victim(apart, kind, topic)
        with faults.away(apart, node, ways):
            if kind == "leader":
                assert apart.leader(topic) is not node
            else:
                assert apart.active_controller(other_than=node)
            load.wait_for_more()
        node.wait_until_ready()
        apart.wait_until_whole(topic)
        load.wait_for_more()
        print(kind, ways, check_all(apart, load))


def test_halves_that_meet_only_over_one_broker_and_one_controller_go_on(apart):
    """Each half has a broker and a controller; a broker and a controller between them see all."""
    topic = apart.new_topic(partitions=PARTITIONS)
    (one, two, three), (first, second, third) = apart.brokers, apart.controllers
    with Load(apart, topic, PARTITIONS) as load:
        apart.network.cut_between(addresses([one, first]), addresses([three, third]))
        for _ in range(3):
            load.wait_for_more(40)
        quorum = apart.quorum(of=two)
        time.sleep(AFTERMATH_S)
        load.wait_for_more()
        assert apart.quorum(of=two).leader_epoch == quorum.leader_epoch, "the quorum is calm although its ends do not meet"
        apart.network.heal()
        apart.wait_until_whole(topic)
        print("halves:", check_all(apart, load))


@pytest.mark.parametrize("how", ["silent", "closed"])
def test_nobody_is_fenced_or_elected_when_brokers_and_controllers_lose_sight_of_each_other_for_a_moment(apart, how, rounds=3):
    """All of their connections at the same time: packets lost for 200 ms, or the connections closed as well."""
    topic = apart.new_topic(partitions=PARTITIONS)

    def standing():
        found = apart.partitions(topic)
        leaders = {index: (p.leader_id, p.leader_epoch, tuple(sorted(p.isr_nodes))) for index, p in found.items()}
        quorum = apart.quorum()
        return leaders, quorum and (quorum.leader_id, quorum.leader_epoch)

    with Load(apart, topic, PARTITIONS) as load:
        before = standing()
        logs = {node: len(node.log_text()) for node in apart.controllers}
        for _ in range(rounds):
            if how == "closed":
                servers = [node.address for node in apart.controllers]
                assert all(close_connections(node.pid(), servers) for node in apart.brokers)
            apart.network.cut_between(addresses(apart.brokers), addresses(apart.controllers))
            time.sleep(BLINK_S)
            apart.network.heal()
            time.sleep(AFTERMATH_S)
            load.wait_for_more()
        assert standing() == before
        for node, size in logs.items():
            said = node.log_text()[size:]
            assert "fencing" not in said and "standing for election" not in said, said
        print(how, check_all(apart, load))


def test_a_broker_that_does_not_reach_the_active_controller_has_its_isr_changes_made_by_way_of_another(apart):
    topic = apart.new_topic(partitions=1)
    with Load(apart, topic, 1) as load:
        active = apart.active_controller()
        leader, follower = apart.leader(topic), apart.follower(topic)
        third = next(node for node in apart.brokers if node not in (leader, follower))
        apart.network.cut_between(addresses([leader]), addresses([active]))
        # Its silence may have it fenced once, until others pass its heartbeats on; then it leads again, being preferred.
        time.sleep(AFTERMATH_S)
        load.wait_for_more()

        def isr(of=third):
            found = apart.partitions(topic, of=of).get(0)
            return found and (found.leader_id, sorted(found.isr_nodes))

        everyone = sorted(node.number for node in apart.brokers)

        def becomes(wanted, what):
            eventually(isr, wanted=lambda told: told == wanted, timeout_s=WAIT_S, poll_s=0.1, what=what)

        becomes((leader.number, everyone), "a leader that the active controller does not see")
        apart.network.cut_between(addresses([leader]), addresses([follower]))
        becomes((leader.number, sorted({leader.number, third.number})), "an ISR without the follower that was cut off")
        load.wait_for_more()
        apart.network.heal(both_ways(addresses([leader]), addresses([follower])))
        becomes((leader.number, everyone), "an ISR with the follower again")
        load.wait_for_more()
        assert apart.active_controller() is active
        apart.network.heal()
        apart.wait_until_whole(topic)
        print("by way of another controller:", check_all(apart, load))


def test_what_a_leader_took_alone_was_seen_by_nobody_and_goes(apart, rounds=2):
    """R-02: acks=1 writers feed a leader that is cut off from the others; readers on every rack all the while."""
    topic = apart.new_topic(partitions=PARTITIONS, min_insync_replicas=1)
    with Load(apart, topic, PARTITIONS, racks=RACKS) as load:
        for number in range(rounds):
            leader = apart.leader(topic)
            others = [node for node in apart.nodes if node is not leader]
            lonely = LonelyWriter(leader, topic, 0, load.history.writer(f"lonely-{number}", idempotent=False))
            apart.network.cut_between(addresses([leader]), addresses(others))
            apart.cut_off.add(leader)
            lonely.start()
            assert apart.leader(topic) is not leader
            load.wait_for_more()
            taken = lonely.taken
            lonely.end()
            assert taken > 0, "the leader that was cut off took nothing"
            apart.network.heal()
            apart.cut_off.clear()
            apart.wait_until_whole(topic)
            load.wait_for_more()
        print("taken alone:", check_all(apart, load))
