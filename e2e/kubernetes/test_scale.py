"""More brokers, fewer brokers, with data and under load."""

import pytest

from raw.wait import eventually

WAIT_S = 300


def test_three_brokers_become_five_and_three_again(release, cluster, load):
    """K-06: who is to go gives its replicas away first, and is unregistered after its pod."""
    before = cluster.uids()
    release.kubectl("scale", "clusters.taffrail.dev/log", "--replicas=5")
    eventually(lambda: len(cluster.brokers) == 5, timeout_s=WAIT_S, poll_s=0.5, what="five brokers")
    cluster.wait_until_ready(WAIT_S)
    assert before.items() <= cluster.uids().items(), "scaling touches no pod that was there"
    wide = cluster.new_topic("wide", partitions=10)
    assert len({broker for partition in cluster.partitions(wide).values() for broker in partition.replica_nodes}) == 5
    release.kubectl("scale", "clusters.taffrail.dev/log", "--replicas=3")
    eventually(lambda: len(cluster.brokers) == 3, timeout_s=WAIT_S, poll_s=0.5, what="three brokers")
    cluster.wait_until_ready(WAIT_S)
    assert before.items() <= cluster.uids().items(), "those that stay are left alone"
    kept = {broker for partition in cluster.partitions(wide).values() for broker in partition.replica_nodes}
    assert kept == {broker.number for broker in cluster.brokers}
    known = {broker.node_id for broker in cluster.metadata(wide).brokers}
    assert known == kept, "no ghost is left in the metadata"


def test_a_scale_down_without_room_is_refused_by_name(release, cluster):
    cluster.new_topic("wide", partitions=3)
    release.kubectl("scale", "clusters.taffrail.dev/log", "--replicas=1")
    blocked = release.kubectl.wait_for_condition("clusters.taffrail.dev", "log", "ScaleDownBlocked", timeout_s=60)
    assert blocked["message"]
    assert len(cluster.brokers) == 3
    release.kubectl("scale", "clusters.taffrail.dev/log", "--replicas=3")
    cluster.wait_until_ready(WAIT_S)


@pytest.mark.long
def test_controllers_become_three_five_and_three_again(cluster, load):
    for count in (5, 3):
        cluster.spec({"controllers": {"replicas": count}})
        pods = lambda: len(cluster.pods("app.kubernetes.io/component=controller"))  # noqa: E731
        eventually(pods, wanted=lambda found, count=count: found == count, timeout_s=WAIT_S, poll_s=0.5, what=f"{count} controllers")
        cluster.wait_until_ready(WAIT_S)
        voters = {voter["id"] for voter in cluster.status()["controllers"]["voters"]}
        assert len(voters) == count
        load.wait_for_more()


@pytest.mark.long
def test_a_new_broker_gets_its_share_where_that_is_asked_for(release, cluster, load):
    def carried():
        """Replicas by broker, over the topics that there are."""
        return [broker["replicas"] for broker in cluster.status()["brokers"]]

    cluster.new_topic("wide", partitions=12)
    cluster.spec({"brokers": {"replicas": 4}, "rebalance": {"onScaleUp": True}})
    even = lambda found: len(found) == 4 and min(found) >= sum(found) // 4  # noqa: E731
    eventually(carried, wanted=even, timeout_s=WAIT_S, poll_s=0.5, what="an even share for each of four brokers")
    cluster.wait_until_ready(WAIT_S)
    cluster.spec({"brokers": {"replicas": 3}, "rebalance": None})
    eventually(lambda: len(cluster.brokers) == 3, timeout_s=WAIT_S, poll_s=0.5, what="three brokers")
    cluster.wait_until_ready(WAIT_S)
