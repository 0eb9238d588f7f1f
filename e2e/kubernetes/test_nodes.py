"""Nodes that are drained or lose their power, under load."""

import contextlib
import time

import pytest

from kube.kubectl import Kubectl
from raw.wait import eventually

WAIT_S = 240
# kubectl tries again every five seconds where a budget says no.
DRAIN_S = 200


def on(node, cluster):
    """The cluster's pods on a node."""
    return {pod["metadata"]["name"] for pod in cluster.pods() if pod["spec"].get("nodeName") == node}


def another_node(cluster):
    """A node with a broker that is not the one with the DNS of the whole Kubernetes."""
    pods = cluster.pods("app.kubernetes.io/component=broker")
    return next(pod["spec"]["nodeName"] for pod in pods if pod["spec"]["nodeName"] != "node-1")


@contextlib.contextmanager
def drained(node):
    kubectl = Kubectl()
    try:
        kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={DRAIN_S}s", timeout_s=DRAIN_S + 20)
        yield
    finally:
        kubectl("uncordon", node)


def test_kubectl_drain_takes_a_nodes_pods_within_the_budget(cluster, load):
    """K-05: pods are evicted as those of a Deployment are; their volumes are that node's, so they wait for it."""
    node = another_node(cluster)
    there = on(node, cluster)
    with cluster.watch() as watch:
        with drained(node):
            assert not on(node, cluster)
            load.wait_for_more(50)
            assert cluster.status()["partitions"]["underMinIsr"] == 0
        eventually(lambda: on(node, cluster) == there, timeout_s=WAIT_S, poll_s=0.5, what=f"{there} on {node}")
        cluster.wait_until_ready(WAIT_S)
    assert max(watch.most_away.values()) == 1


def test_while_a_partition_is_at_its_minimum_no_further_broker_is_given_away(cluster, load):
    node = another_node(cluster)
    with drained(node):
        away = {f"{cluster.name}-broker-{number}" for number in cluster.partitions(load.topic)[0].replica_nodes} - {
            broker.pod for broker in cluster.living()
        }
        assert away, "no replica is away"

        def budget():
            found = cluster.kubectl.get("poddisruptionbudgets", f"{cluster.name}-brokers")
            return found["status"]["disruptionsAllowed"] if found else None

        eventually(budget, wanted=lambda allowed: allowed == 0, timeout_s=60, poll_s=0.5, what="a budget of nothing")
        pod = cluster.living()[0].pod
        done = cluster.kubectl.run("create", "--raw", f"/api/v1/namespaces/{cluster.kubectl.namespace}/pods/{pod}/eviction", "-f", "-",
                                   stdin=eviction(pod, cluster.kubectl.namespace))
        assert done.returncode != 0 and "disruption budget" in done.stdout + done.stderr, done
    cluster.wait_until_ready(WAIT_S)


def eviction(pod, namespace):
    return f'{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"{pod}","namespace":"{namespace}"}}}}'


def test_a_node_that_loses_its_power_and_comes_back_costs_nothing(cluster, load, rig):
    node = another_node(cluster)
    rig.stop(node)
    try:
        load.wait_for_more(100)
    finally:
        rig.start(node)
    cluster.wait_until_ready(WAIT_S)
    cluster.wait_until_in_sync(load.topic)


# How long nobody hears of the API server: longer than the operator's Lease holds.
SILENCE_S = 60


@pytest.mark.long
def test_an_api_server_that_is_silent_for_a_minute_in_a_roll_delays_it_and_costs_nothing(cluster, load, rig):
    before = cluster.uids()
    with cluster.watch() as watch:
        cluster.restart()
        gone = lambda: set(before.values()) - set(cluster.uids().values())  # noqa: E731
        eventually(gone, timeout_s=WAIT_S, poll_s=0.3, what="a pod that went")
        with rig.silent_api():
            began = time.monotonic()
            while time.monotonic() - began < SILENCE_S:
                load.wait_for_more()
                time.sleep(1)
        eventually(lambda: not set(before.values()) & set(cluster.uids().values()), timeout_s=WAIT_S, poll_s=1, what="new pods")
        cluster.wait_until_ready(WAIT_S)
    assert {name: len(lives) for name, lives in watch.lives.items()} == dict.fromkeys(before, 2), "each pod goes once"


@pytest.mark.long
def test_a_node_that_is_gone_for_good_is_replaced_with_what_was_on_it(cluster, load, rig):
    """Its pods and disks are gone with it: the broker's data come from the others, the controller votes anew."""
    node, kubectl, everywhere = another_node(cluster), cluster.kubectl, Kubectl()
    lost = [pod for pod in cluster.pods() if pod["spec"].get("nodeName") == node]
    brokers = [int(pod["metadata"]["labels"]["taffrail.dev/id"]) for pod in lost if "-broker-" in pod["metadata"]["name"]]
    controllers = [pod["metadata"]["name"] for pod in lost if "-controller-" in pod["metadata"]["name"]]
    rig.stop(node)
    try:
        everywhere("delete", "node", node)
        load.wait_for_more(50)
        # Nothing takes data away by itself: people say that these disks are gone.
        cluster.spec({"brokers": {"replace": [{"id": number, "nonce": "node-lost"} for number in brokers]}})
        for name in controllers:
            kubectl("delete", "pvc", f"data-{name}", "--wait=false")
            kubectl("delete", "pod", name, "--force", "--grace-period=0", "--ignore-not-found")
        names = {pod["metadata"]["name"] for pod in lost}

        def replaced():
            found = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in cluster.pods()}
            assert names <= set(found) and all(found[name] not in (None, node) for name in names), found
            return True

        eventually(replaced, timeout_s=WAIT_S, poll_s=1, what=f"{names} elsewhere")
        cluster.wait_until_ready(WAIT_S)
        cluster.wait_until_in_sync(load.topic)
        eventually(cluster.voters, wanted=lambda voters: voters == {0, 1, 2}, timeout_s=WAIT_S, poll_s=0.5, what="three voters")
        load.wait_for_more(50)
    finally:
        rig.start(node)
