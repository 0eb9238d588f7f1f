"""ConsumerGroups from YAML: seen, reset once while nobody is in them, let go. The ids of groups are the resources' names."""

import pytest

from kube.release import KCAT
from kube.resources import consumer_group
from raw import errors
from raw.client import unique
from raw.groups import DEAD, Member, commit, committed, form_group, state_of
from raw.wait import eventually

WAIT_S = 60
GROUPS = "consumergroups.taffrail.dev"
RECORDS = 10


@pytest.fixture
def topic(cluster):
    name = cluster.new_topic("orders", partitions=1)
    for number in range(RECORDS):
        cluster.write(name, b"%d" % number)
    return name


def coordinator(cluster, group):
    """A connection to the broker that keeps `group`."""

    def find():
        answer = cluster.living()[0].answers("FindCoordinator", 4, key_type=0, coordinator_keys=[group])
        found = answer.coordinators[0] if answer else None
        return cluster.broker(found.node_id) if found and found.error_code == errors.NONE else None

    return eventually(find, timeout_s=WAIT_S, what=f"the coordinator of {group}")


def status(release, group):
    return release.kubectl.get(GROUPS, group).get("status", {})


def reasons(release, group):
    events = release.kubectl.list("events")
    return [event["reason"] for event in events if event["involvedObject"]["name"] == group]


def test_a_group_is_reset_once_and_only_while_it_is_empty(release, cluster, topic):
    """K-07: a live group is left alone, and neither another operator nor another resource does it again."""
    group = unique("billing")
    resource = consumer_group(group, management="Managed", reset={"requestId": "one", "to": "Earliest"})
    broker = coordinator(cluster, group)
    with Member(broker, group, session_timeout_ms=120_000) as member:
        form_group(member)
        assert member.commit(topic, 6) == errors.NONE
        release.kubectl.apply(resource)
        blocked = release.kubectl.wait_for_condition(GROUPS, group, "ResetBlocked", reason="GroupActive")
        assert "1 members" in blocked["message"]
        seen = status(release, group)
        assert (seen["state"], seen["members"], seen["totalLag"]) == ("Stable", 1, RECORDS - 6)
        assert committed(member.connection, group, topic) == 6
        assert member.leave() == errors.NONE
    release.kubectl.wait_for("condition=ResetComplete", GROUPS, group, WAIT_S)
    with broker.connect() as connection:
        assert committed(connection, group, topic) == 0
        last = status(release, group)["lastReset"]
        assert last == {"requestId": "one", "state": "Completed", "before": {f"{topic}-0": 6}, "after": {f"{topic}-0": 0}}
        assert reasons(release, group) == ["ResetBlocked", "GroupReset"]
        assert commit(connection, group, topic, 8) == errors.NONE
        release.kubectl.delete(GROUPS, group)
        release.scale_operator(0)
        release.kubectl.apply(resource)
        release.scale_operator(1)
        release.kubectl.wait_for("condition=ResetComplete", GROUPS, group, WAIT_S)
        assert committed(connection, group, topic) == 8
    assert status(release, group)["totalLag"] == 2
    line = release.kubectl("get", "tfg", group).splitlines()[1]
    assert line.split()[:5] == [group, "Empty", "0", "2", "2"]


def test_a_group_goes_with_its_resource_if_that_says_so(release, cluster, topic):
    kept, gone = unique("kept"), unique("gone")
    for group, policy in ((kept, "Retain"), (gone, "Delete")):
        with coordinator(cluster, group).connect() as connection:
            assert commit(connection, group, topic, 3) == errors.NONE
        release.kubectl.apply(consumer_group(group, management="Managed", deletionPolicy=policy))
        release.kubectl.wait_for("condition=Ready", GROUPS, group, WAIT_S)
    release.kubectl.delete(GROUPS, kept, gone)
    with coordinator(cluster, gone).connect() as connection:
        eventually(lambda: state_of(connection, gone), wanted=lambda state: state == DEAD, timeout_s=WAIT_S, what="no group")
    with coordinator(cluster, kept).connect() as connection:
        assert committed(connection, kept, topic) == 3


def consumer(cluster, group, topic):
    """A Deployment whose one pod consumes `topic` in `group`."""
    labels = {"app": group}
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    command = ["kcat", "-b", cluster.bootstrap, "-q", "-X", "auto.offset.reset=earliest", "-G", group, topic]
    pod = {
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "kcat", "image": KCAT, "command": command, "securityContext": security}],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": group}, "spec": spec}


def test_a_workload_is_parked_for_a_reset_and_comes_back(release, cluster, topic):
    """A live group is reset without anybody having to stop its consumers by hand."""
    group = unique("worker")
    release.kubectl.apply(consumer(cluster, group, topic))
    release.kubectl.apply(consumer_group(group))
    eventually(
        lambda: status(release, group).get("members"),
        wanted=lambda members: members == 1, timeout_s=WAIT_S, poll_s=0.5, what="a member",
    )
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "name": group}
    reset = {"requestId": "one", "to": "Offset", "offset": 4, "ifActive": "Park", "workloadRef": workload}
    release.kubectl.apply(consumer_group(group, management="Managed", topics=[topic], reset=reset))
    release.kubectl.wait_for("condition=ResetComplete", GROUPS, group, WAIT_S)
    last = status(release, group)["lastReset"]
    assert (last["state"], last["after"]) == ("Completed", {f"{topic}-0": 4})
    eventually(
        lambda: release.kubectl.get("deployment", group)["spec"]["replicas"],
        wanted=lambda replicas: replicas == 1, timeout_s=WAIT_S, poll_s=0.5, what="the workload",
    )
    assert release.kubectl.get("configmap", f"{group}-parked") is None
    assert [reason for reason in reasons(release, group) if "Workload" in reason] == ["WorkloadParked", "WorkloadRestored"]
    release.kubectl.delete("deployment", group)


def test_a_group_that_nobody_has_used_begins_where_it_is_told(release, cluster, topic):
    group = unique("new")
    release.kubectl.apply(consumer_group(group, management="Managed", topics=[topic], initialOffsets={"from": "Latest"}))
    release.kubectl.wait_for("condition=Ready", GROUPS, group, WAIT_S)
    with coordinator(cluster, group).connect() as connection:
        assert committed(connection, group, topic) == RECORDS
    assert reasons(release, group) == ["InitialOffsetsSet"]


@pytest.mark.long
def test_lag_that_lasts_is_a_condition_until_it_is_gone(release, cluster, topic):
    group = unique("slow")
    with coordinator(cluster, group).connect() as connection:
        assert commit(connection, group, topic, 3) == errors.NONE
        release.kubectl.apply(consumer_group(group, lag={"warn": 5, "window": "10s"}))
        lagging = release.kubectl.wait_for_condition(GROUPS, group, "Lagging", reason="LagHigh", timeout_s=WAIT_S)
        assert lagging["message"].startswith("7 records behind")
        assert commit(connection, group, topic, RECORDS) == errors.NONE
    eventually(
        lambda: release.kubectl.condition(GROUPS, group, "Lagging"),
        wanted=lambda condition: condition is None, timeout_s=WAIT_S, poll_s=0.5, what="no lag",
    )
