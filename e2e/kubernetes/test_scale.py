"""More brokers, fewer brokers, with data and under load."""

import pytest

from kube.resources import topic
from raw import errors
from raw.batch import values_batch
from raw.bad_requests import BROKER_RESOURCE, TOPIC_RESOURCE
from raw.client import PRODUCE, produce_fields
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


# What is moved off a broker, and so slowly that there is time to do something meanwhile.
FILL_BYTES = 1 << 20
FILL_BATCHES = 8
SLOW = {"throttleBytesPerSecond": 500_000, "maxMoves": 1}


def held_by(cluster, number, name):
    """Partitions of a topic with a replica on a broker."""
    return [index for index, partition in cluster.partitions(name).items() if number in partition.replica_nodes]


@pytest.fixture
def draining(release, cluster, load):
    """A fourth broker with much on it, that is to leave, and leaves slowly; the cluster ends with three."""
    cluster.spec({"brokers": {"replicas": 4}})
    eventually(lambda: len(cluster.brokers) == 4, timeout_s=WAIT_S, poll_s=0.5, what="four brokers")
    cluster.wait_until_ready(WAIT_S)
    (number,) = {broker.number for broker in cluster.brokers} - {0, 1, 2}
    assigned = [{"partition": index, "brokers": [number, index % 3]} for index in range(6)]
    release.kubectl.apply(topic("heavy", assignment=assigned))
    release.kubectl.wait_for("condition=Ready", "topics.taffrail.dev", "heavy")
    release.kubectl.apply(topic("heavy"))  # from now on it may be moved
    for index in range(6):
        with cluster.leader("heavy", index).connect() as connection:
            for _ in range(FILL_BATCHES):
                batch = values_batch(b"x" * (FILL_BYTES // 2))
                answer = connection.call("Produce", PRODUCE, **produce_fields("heavy", batch, index))
                assert answer.responses[0].partition_responses[0].error_code == errors.NONE
    cluster.spec({"brokers": {"replicas": 3}, "scaleDown": SLOW})
    eventually(lambda: cluster.status().get("drain"), timeout_s=60, poll_s=0.3, what="a drain")
    assert held_by(cluster, number, "heavy"), "it is over already"
    yield number
    cluster.spec({"brokers": {"replicas": 3}, "scaleDown": None})
    eventually(lambda: len(cluster.brokers) == 3, timeout_s=WAIT_S, poll_s=0.5, what="three brokers")
    cluster.wait_until_ready(WAIT_S)
    assert not held_by(cluster, number, "heavy")
    release.kubectl.apply(topic("heavy", deletionPolicy="Delete"))
    release.kubectl.wait_for("condition=Ready", "topics.taffrail.dev", "heavy")
    release.kubectl.delete("topics.taffrail.dev", "heavy")


def throttled(cluster):
    """Settings that slow replicas down, of the topic that moves and of all brokers."""
    with cluster.client() as client:
        found = client.describe_configs(TOPIC_RESOURCE, "heavy")
        lists = [entry.value for name, entry in found.items() if "throttled.replicas" in name and entry.value]
        rates = client.describe_configs(BROKER_RESOURCE, "")
        return lists + [entry.value for name, entry in rates.items() if "throttled.rate" in name]


@pytest.mark.long
def test_a_drain_is_slow_where_that_is_asked_for_takes_no_new_topic_and_can_be_called_off(release, cluster, load, draining):
    assert "500000" in throttled(cluster)
    uid = cluster.uids()[f"log-broker-{draining}"]
    name = cluster.new_topic("meanwhile", partitions=6)
    assert not held_by(cluster, draining, name), "a broker that leaves gets nothing new"
    cluster.spec({"brokers": {"replicas": 4}})
    running = lambda: {broker["id"]: broker["state"] for broker in cluster.status()["brokers"]}.get(draining)  # noqa: E731
    eventually(running, wanted=lambda state: state == "Running", timeout_s=60, poll_s=0.3, what="a broker that stays")
    eventually(lambda: throttled(cluster), wanted=lambda found: not found, timeout_s=WAIT_S, poll_s=0.5, what="no throttle")
    cluster.wait_until_ready(WAIT_S)
    assert cluster.uids()[f"log-broker-{draining}"] == uid
    assert not cluster.status().get("drain")


@pytest.mark.long
def test_a_broker_that_is_killed_in_the_middle_of_its_drain_is_drained_all_the_same(release, cluster, load, draining):
    release.kubectl("delete", "pod", f"log-broker-{draining}", "--force", "--grace-period=0")
    eventually(lambda: not cluster.broker(draining).is_alive(), timeout_s=60, what="a dead broker")
    load.wait_for_more(100)
    cluster.spec({"scaleDown": None})
    eventually(lambda: len(cluster.brokers) == 3, timeout_s=WAIT_S, poll_s=0.5, what="three brokers")
    cluster.wait_until_ready(WAIT_S)
    cluster.wait_until_in_sync(load.topic)
