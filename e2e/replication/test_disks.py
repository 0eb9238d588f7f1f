"""Disks that come back empty: noticed, never trusted, and filled again from the others (R-01)."""

from cluster import faults
from ledger.load import Load, read_partition
from raw import errors
from raw.client import Client
from raw.wait import eventually

PARTITIONS = 3
DOWN_TIMEOUT_S = 30


def test_a_wiped_broker_is_filled_again_under_load(cluster):
    topic = cluster.new_topic(partitions=PARTITIONS)
    with Load(cluster, topic, PARTITIONS) as load:
        node = faults.victim(cluster, "leader", topic)
        before = (node.logs / "meta.properties").read_text()
        node.kill()
        node.wipe()
        load.wait_for_more()
        cluster.restart(node)
        cluster.wait_until_in_sync(topic)
        load.wait_for_more()
        load.end()
    assert (node.logs / "meta.properties").read_text() != before, "an empty disk has an identity of its own"
    cluster.assert_equal_replicas(topic, PARTITIONS)


def test_a_wiped_broker_does_not_lead_what_only_others_have(new_cluster):
    """R-01: brokers 1 and 2 have the records, 2 loses its disk, 1 is away: nobody leads until 1 is back."""
    cluster = new_cluster()
    cluster.start()
    one, two, three = cluster.brokers
    topic = cluster.new_topic(partitions=1)
    three.stop()
    with Client(cluster.leader(topic)) as client:
        values = [b"%d" % number for number in range(50)]
        client.append_values(topic, *values)
    one.kill()
    two.kill()
    two.wipe()
    cluster.launch([two, three])
    two.wait_until_ready()
    three.wait_until_ready()

    def nobody_leads():
        found = cluster.partitions(topic, of=two).get(0)
        return found is not None and found.leader_id == -1 and found.error_code == errors.LEADER_NOT_AVAILABLE

    eventually(nobody_leads, timeout_s=DOWN_TIMEOUT_S, what="a partition that waits for broker 1")
    assert cluster.partitions(topic, of=three)[0].leader_id == -1
    cluster.restart(one)
    cluster.wait_until_in_sync(topic)
    assert [seen.value for seen in read_partition(cluster, topic, 0)] == values
    cluster.assert_equal_replicas(topic, 1)


def test_wiped_controllers_forget_nothing(cluster):
    """One after the other loses its disk, and is taken in again as a new one."""
    topic = cluster.new_topic(partitions=2, retention_ms=12345)
    for node in cluster.controllers:
        faults.lose_disk(cluster, node)
        cluster.wait_until_whole(topic)
    with cluster.client() as client:
        assert client.describe_configs(2, topic)["retention.ms"].value == "12345"
    assert len(cluster.partitions(topic)) == 2
