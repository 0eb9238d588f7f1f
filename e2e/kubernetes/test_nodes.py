"""Nodes that are drained or lose their power, under load."""

import contextlib

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
