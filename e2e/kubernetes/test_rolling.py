"""Restarts under load: one at a time, nothing lost, nothing reordered, and a word about what they wait for."""

import contextlib

import pytest

from kube.cluster import BROKERS
from raw import errors
from raw.bad_requests import SET, TOPIC_RESOURCE
from raw.wait import eventually

# A spec that is put right counts within so long, whatever was waited for.
ACTS_WITHIN_S = 10
ROLL_S = 240


def names(pods):
    return {pod["metadata"]["name"] for pod in pods}


def test_a_full_roll_takes_one_broker_at_a_time_and_loses_nothing(cluster, load):
    before = cluster.uids()
    with cluster.watch() as watch:
        cluster.restart()
        eventually(lambda: not set(before.values()) & set(cluster.uids().values()), timeout_s=ROLL_S, poll_s=1, what="new pods")
        cluster.wait_until_ready(ROLL_S)
    assert watch.most_away == {"broker": 1, "controller": 1}
    assert {name: len(lives) for name, lives in watch.lives.items()} == dict.fromkeys(before, 2), "each pod goes once"


@contextlib.contextmanager
def slow_follower(cluster, rig, topic):
    """A follower that has fallen out of the ISR of partition 0 and is sent nothing until the end."""
    leader, follower = cluster.leader(topic), cluster.follower(topic)

    def set_rate(rate):
        cluster.spec({"config": {"follower.replication.throttled.rate": rate}})

    with cluster.client(leader) as client:
        everyone = ("follower.replication.throttled.replicas", SET, "*")
        assert client.alter_configs(TOPIC_RESOURCE, topic, everyone) == errors.NONE
    isr = lambda: cluster.partitions(topic, of=leader)[0].isr_nodes  # noqa: E731
    rig.halt(follower)
    try:
        eventually(isr, wanted=lambda found: follower.number not in found, timeout_s=60, what=f"an ISR without {follower}")
        set_rate(0)
    finally:
        rig.go_on(follower)
    try:
        yield follower
    finally:
        set_rate(None)


@pytest.mark.long
def test_a_roll_waits_for_a_slow_follower_says_so_and_goes_on_alone(release, cluster, load, rig):
    """K-04: nobody is taken down beside a replica that is behind, however long that takes."""
    before = cluster.uids()
    with cluster.watch() as watch:
        with slow_follower(cluster, rig, load.topic) as follower:
            cluster.restart()
            # Controllers go first, and the slow one may go itself: nobody misses it more than before.
            blocked = release.kubectl.wait_for_condition(
                "clusters.taffrail.dev", "log", "RolloutBlocked", reason="UnderReplicated", timeout_s=ROLL_S
            )
            others = lambda: {pod["metadata"]["uid"] for pod in cluster.pods(BROKERS)} - {cluster.uids()[follower.pod]}  # noqa: E731
            there = others()
            assert f"{load.topic}-" in blocked["message"] and f"broker {follower.number}" in blocked["message"]
            (named, *_) = cluster.status()["rollout"]["blockedBy"]
            assert (named["topic"], named["broker"], named["minimum"]) == (load.topic, follower.number, 2) and named["since"]
            load.wait_for_more(100)
            assert others() == there, "it waits"
        eventually(lambda: not set(before.values()) & set(cluster.uids().values()), timeout_s=ROLL_S, poll_s=1, what="new pods")
        cluster.wait_until_ready(ROLL_S)
    assert watch.most_away == {"broker": 1, "controller": 1}


def test_an_image_that_cannot_be_pulled_takes_one_pod_and_the_right_one_counts_at_once(cluster, load):
    before = cluster.uids()
    image = cluster.pods()[0]["spec"]["containers"][0]["image"]
    with cluster.watch() as watch:
        cluster.spec({"template": {"image": "localhost/nowhere:1"}})
        stuck = eventually(
            lambda: [pod for pod in cluster.pods() if pod["spec"]["containers"][0]["image"] == "localhost/nowhere:1"],
            timeout_s=60, poll_s=0.5, what="a pod of the wrong image",
        )
        load.wait_for_more(50)
        assert len(stuck) == 1
        (name,) = names(stuck)
        cluster.spec({"template": {"image": image}})

        def mended():
            uid = stuck[0]["metadata"]["uid"]
            return [pod for pod in cluster.pods() if pod["metadata"]["name"] == name and pod["metadata"]["uid"] != uid]

        eventually(mended, timeout_s=ACTS_WITHIN_S, poll_s=0.2, what=f"another {name}")
        cluster.wait_until_ready(ROLL_S)
    assert max(watch.most_away.values()) == 1
    after = cluster.uids()
    assert {pod for pod in before if before[pod] != after[pod]} == {name}, "nobody else was touched"


def test_another_operator_goes_on_where_a_killed_one_stopped(release, cluster, load):
    before = cluster.uids()
    with cluster.watch() as watch:
        cluster.restart()
        eventually(lambda: set(before.values()) - set(cluster.uids().values()), timeout_s=60, poll_s=0.3, what="a pod that went")
        for pod in release.operators():
            release.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
        eventually(lambda: not set(before.values()) & set(cluster.uids().values()), timeout_s=ROLL_S, poll_s=1, what="new pods")
        cluster.wait_until_ready(ROLL_S)
    assert watch.most_away == {"broker": 1, "controller": 1}
    assert {name: len(lives) for name, lives in watch.lives.items()} == dict.fromkeys(before, 2), "nothing is done twice"


@pytest.mark.long
def test_a_spec_that_changes_twice_in_a_roll_goes_straight_to_the_newest(cluster, load):
    """K-14: pods that match already stay, the others skip what came between."""
    with cluster.watch() as watch:
        cluster.restart()
        eventually(lambda: any(len(lives) > 1 for lives in watch.lives.values()), timeout_s=60, what="a pod that went")
        cluster.restart()
        eventually(lambda: sum(len(lives) > 1 for lives in watch.lives.values()) > 2, timeout_s=120, what="more of them")
        cluster.restart()
        cluster.wait_until_ready(ROLL_S)
    assert watch.most_away == {"broker": 1, "controller": 1}
    newest = {pod["metadata"]["labels"]["taffrail.dev/revision"] for pod in cluster.pods("app.kubernetes.io/component=broker")}
    assert len(newest) == 1
    assert sorted(len(lives) for lives in watch.lives.values())[0] == 2, "who had not gone yet goes once"


@pytest.mark.long
def test_nothing_is_restarted_before_somebody_agrees_or_a_window_opens(release, cluster):
    before = cluster.uids()
    closed = {"cron": "0 0 29 2 *", "duration": "1h", "reasons": ["Restart"]}
    cluster.spec({"rollout": {"approval": "Manual", "restartNonce": "agree", "windows": [closed]}})
    blocked = release.kubectl.wait_for_condition("clusters.taffrail.dev", "log", "RolloutBlocked", reason="NotApproved")
    assert {step["target"] for step in cluster.status()["plan"]} == set(before)
    generation = int(blocked["message"].split("approvedGeneration: ")[1].split(",")[0])
    cluster.spec({"rollout": {"approvedGeneration": generation}})
    rules = lambda: {block["rule"] for block in cluster.status().get("rollout", {}).get("blockedBy", [])}  # noqa: E731
    eventually(rules, wanted=lambda found: found == {"WindowClosed"}, timeout_s=60, poll_s=0.5, what="a closed window")
    assert cluster.uids() == before
    cluster.spec({"rollout": {"approval": "Automatic", "windows": None}})
    eventually(lambda: not set(before.values()) & set(cluster.uids().values()), timeout_s=ROLL_S, poll_s=1, what="new pods")
    cluster.wait_until_ready(ROLL_S)
