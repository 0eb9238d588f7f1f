"""Controllers get votes and lose them while the cluster serves: from one to three to five and back to three, under acks=all load."""

import pytest

from ledger.load import Load, check_all
from raw.wait import eventually
from tools import add_voter, directories, remove_voter

PARTITIONS = 3
WAIT_S = 60


def wait_for_votes(cluster, nodes):
    """Until these controllers vote, and no other."""
    wanted = {node.number for node in nodes}
    eventually(cluster.voters, wanted=lambda voters: voters == wanted, timeout_s=WAIT_S, what=f"votes of {sorted(wanted)}")


def follows(cluster, node):
    """Whether a controller copies the metadata and has no vote."""
    quorum = cluster.quorum()
    return quorum is not None and node.number in {observer.replica_id for observer in quorum.observers}


@pytest.mark.timeout(600)
def test_votes_go_from_one_to_three_to_five_and_back_to_three_under_load(new_cluster, tmp_path):
    cluster = new_cluster(controllers=5)
    first, *others = cluster.controllers
    first.launch([first.server], "--cluster-id", cluster.cluster_id, "--bootstrap")
    cluster.launch(cluster.brokers)
    for node in [first, *cluster.brokers]:
        node.wait_until_ready()
    wait_for_votes(cluster, [first])
    topic, voting = cluster.new_topic(partitions=PARTITIONS), [first]
    with Load(cluster, topic, PARTITIONS) as load:
        for node in others:
            cluster.launch([node])
            eventually(lambda node=node: follows(cluster, node), timeout_s=WAIT_S, what=f"{node} that follows")
            assert cluster.voters() == {voter.number for voter in voting}, "nobody votes by having come"
            directory, _ = directories(cluster)[node.number]
            add_voter(cluster, node, directory, tmp_path)
            voting.append(node)
            wait_for_votes(cluster, voting)
            load.wait_for_more()
        assert sorted(status for _, status in directories(cluster).values()) == ["Follower"] * 4 + ["Leader"]
        # The one that leads has to hand that over; the other one only follows.
        active = cluster.active_controller()
        for node in [active, next(node for node in voting if node is not active)]:
            remove_voter(cluster, node)
            voting.remove(node)
            wait_for_votes(cluster, voting)
            load.wait_for_more()
            assert cluster.active_controller() in voting
            node.kill()
        # Two of three are a majority, as if there had never been more.
        lost = next(node for node in voting if node is not cluster.active_controller())
        lost.kill()
        cluster.new_topic(partitions=1)
        load.wait_for_more()
        print("votes 1, 3, 5, 3:", check_all(cluster, load))
