"""Topics from YAML: made, changed, adopted, claimed twice, let go."""

import time

from kube.resources import topic
from raw.bad_requests import TOPIC_RESOURCE
from raw.client import unique
from raw.wait import eventually

WAIT_S = 60
TOPICS = "topics.taffrail.dev"


def apply(release, *topics, timeout_s=WAIT_S):
    release.kubectl.apply(*topics)
    for one in topics:
        release.kubectl.wait_for("condition=Ready", TOPICS, one["metadata"]["name"], timeout_s)


def exists(cluster, name):
    return bool(cluster.partitions(name))


def test_a_topic_comes_and_changes_as_its_resource_says(release, cluster):
    name = unique("t")
    began = time.monotonic()
    apply(release, topic(name, partitions=3, replicas=3, config={"retention.ms": 60000}))
    print(f"\nready {time.monotonic() - began:.2f} s after it was applied, kubectl included")
    assert len(cluster.partitions(name)) == 3
    apply(release, topic(name, partitions=6, replicas=3, config={"retention.ms": 120000}))
    eventually(lambda: len(cluster.partitions(name)) == 6, timeout_s=WAIT_S, what="six partitions")
    status = release.kubectl.get(TOPICS, name)["status"]
    assert (status["partitions"], status["replicas"], status["minIsrMargin"], status["offline"]) == (6, 3, 1, 0)


def test_more_replicas_than_brokers_are_a_condition_and_no_loop(release, cluster):
    name = unique("t")
    release.kubectl.apply(topic(name, replicas=32))
    not_ready = release.kubectl.wait_for_condition(TOPICS, name, "Ready", status="False")
    assert "32" in not_ready["message"]
    release.kubectl.delete(TOPICS, name)


def test_deleting_a_resource_keeps_or_deletes_the_topic_as_it_says(release, cluster):
    kept, gone = unique("kept"), unique("gone")
    apply(release, topic(kept, partitions=1), topic(gone, partitions=1, deletionPolicy="Delete"))
    release.kubectl.delete(TOPICS, kept, gone)
    eventually(lambda: not exists(cluster, gone), timeout_s=WAIT_S, what=f"no {gone}")
    assert exists(cluster, kept)


def test_of_two_resources_for_one_topic_the_older_owns_it(release, cluster):
    """K-02: deleting one of the two takes nothing that the other still wants."""
    name = unique("shared")
    first, second = f"{name}-a", f"{name}-b"
    apply(release, topic(first, topicName=name, partitions=1, deletionPolicy="Delete"))
    time.sleep(1.1)  # creation times have whole seconds
    release.kubectl.apply(topic(second, topicName=name, partitions=1, deletionPolicy="Delete"))
    conflict = release.kubectl.wait_for_condition(TOPICS, second, "Conflict")
    assert first in conflict["message"]
    before = release.kubectl.get(TOPICS, first)["status"]["topicId"]
    release.kubectl.delete(TOPICS, first)
    release.kubectl.wait_for_condition(TOPICS, second, "Ready")
    assert release.kubectl.get(TOPICS, second)["status"]["topicId"] == before, "it is the same topic still"
    release.kubectl.delete(TOPICS, second)
    eventually(lambda: not exists(cluster, name), timeout_s=WAIT_S, what=f"no {name}")


def test_a_topic_that_is_there_already_is_adopted(release, cluster):
    name = cluster.new_topic("by-a-client", partitions=2)
    apply(release, topic(name, partitions=4, deletionPolicy="Retain"))
    eventually(lambda: len(cluster.partitions(name)) == 4, timeout_s=WAIT_S, what="four partitions")


def test_more_replicas_and_another_setting_come_in_one_change(release, cluster):
    name = unique("grows")
    apply(release, topic(name, partitions=2, replicas=1, config={"retention.ms": 60000}))
    cluster.write(name, b"before")
    changed = topic(name, partitions=2, replicas=3, config={"retention.ms": 120000, "min.insync.replicas": 2})
    apply(release, changed)

    def in_sync():
        return [len(partition.isr_nodes) for partition in cluster.partitions(name).values()]

    eventually(in_sync, wanted=lambda found: found == [3, 3], timeout_s=WAIT_S, what="three replicas of each in sync")
    assert cluster.write(name, b"after") == 1
    with cluster.client(cluster.leader(name)) as client:
        found = client.describe_configs(TOPIC_RESOURCE, name, ["retention.ms", "min.insync.replicas"])
    assert {key: entry.value for key, entry in found.items()} == {"retention.ms": "120000", "min.insync.replicas": "2"}
    ready = lambda: release.kubectl.get(TOPICS, name)["status"]  # noqa: E731
    eventually(ready, wanted=lambda status: (status["replicas"], status["minIsrMargin"]) == (3, 1), timeout_s=WAIT_S, what="its report")


def replicas(cluster, name):
    """The brokers of each partition, first the preferred leader."""
    return {number: list(partition.replica_nodes) for number, partition in cluster.partitions(name).items()}


def test_partitions_are_and_go_where_the_assignment_says(release, cluster):
    name = unique("placed")
    assigned = lambda *brokers: [{"partition": number, "brokers": ids} for number, ids in enumerate(brokers)]  # noqa: E731
    apply(release, topic(name, assignment=assigned([0, 1], [1, 2])))
    assert replicas(cluster, name) == {0: [0, 1], 1: [1, 2]}
    apply(release, topic(name, assignment=assigned([2, 0], [1, 2], [0, 2])))
    wanted = {0: [2, 0], 1: [1, 2], 2: [0, 2]}
    eventually(lambda: replicas(cluster, name), wanted=lambda found: found == wanted, timeout_s=WAIT_S, what=f"{wanted}")


def test_a_namespace_goes_although_the_operator_went_first(release, cluster, crds):
    """K-01: nothing has a finalizer, so nothing waits for anybody."""
    names = [unique("t") for _ in range(20)]
    apply(release, *(topic(name, partitions=1, deletionPolicy="Delete") for name in names))
    release.scale_operator(0)
    crds("delete", "namespace", release.kubectl.namespace, "--timeout=180s", timeout_s=200)
    assert crds.get("namespace", release.kubectl.namespace) is None
