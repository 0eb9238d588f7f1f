"""Listeners for clients of other networks: a port of every machine, and load balancers, whose answers are played here."""

import pytest

from cluster.asked import Answering
from raw.client import METADATA
from raw.wait import eventually

WAIT_S = 180


class Way(Answering):
    """What answers at `host:port`."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.address = host, int(port)

    def told(self):
        """broker -> the address that clients who come this way are told, or None while nobody answers."""
        answer = self.answers("Metadata", METADATA, topics=[], allow_auto_topic_creation=False)
        return answer and {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}


def bootstrap(cluster, listener):
    """Addresses that the Cluster's status has for a listener."""
    found = {one["name"]: one["bootstrap"] for one in cluster.status().get("listeners", [])}
    return found.get(listener, "").split(",")


def until_told(way, wanted):
    eventually(way.told, wanted=lambda told: told == wanted, timeout_s=WAIT_S, poll_s=0.5, what=f"{way.address} tells {wanted}")


@pytest.mark.long
def test_clients_are_told_the_addresses_of_the_way_they_came(release, cluster):
    cluster.spec({"listeners": [
        {"name": "plain", "port": 9092},
        {"name": "nodes", "port": 9094, "type": "NodePort"},
        {"name": "outside", "port": 9095, "type": "LoadBalancer"},
    ]})
    cluster.wait_until_ready()
    ports, pods = {}, {}
    for broker in range(3):
        service = release.kubectl.get("service", f"log-broker-{broker}-nodes")
        ports[broker] = service["spec"]["ports"][0]["nodePort"]
        pods[broker] = release.kubectl.get("pod", f"log-broker-{broker}")
    nodes = {broker: f"{pods[broker]['status']['hostIP']}:{ports[broker]}" for broker in pods}
    assert sorted(bootstrap(cluster, "nodes")) == sorted(nodes.values())
    for address in nodes.values():
        until_told(Way(address), nodes)
    assert bootstrap(cluster, "outside") == [""], "no load balancer has answered yet"

    balanced = {broker: f"192.0.2.{broker + 1}:9095" for broker in range(3)}
    for broker, address in balanced.items():
        status = {"status": {"loadBalancer": {"ingress": [{"ip": address.split(":")[0]}]}}}
        release.kubectl.patch("service", f"log-broker-{broker}-outside", status, "--subresource=status")
    eventually(
        lambda: sorted(bootstrap(cluster, "outside")),
        wanted=lambda found: found == sorted(balanced.values()), timeout_s=WAIT_S, poll_s=0.5, what="load balancers",
    )
    cluster.wait_until_ready()
    inside = cluster.broker(0).address[0]
    until_told(Way(f"{inside}:9095"), balanced)
    until_told(Way(f"{inside}:9092"), {broker: ":".join(map(str, cluster.broker(broker).address)) for broker in range(3)})
