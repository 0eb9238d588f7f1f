"""A Cluster on Kubernetes as a client on this machine sees it: brokers by the names that they advertise."""

import socket

from cluster.asked import Answering, Asked

PORT = 9092
CONNECT_TIMEOUT_S = 1
BROKERS = "app.kubernetes.io/component=broker"


class PodBroker(Answering):
    """One broker, whatever pod it runs in now."""

    def __init__(self, cluster, number):
        self.number = number
        self.pod = f"{cluster.name}-broker-{number}"
        self.address = f"{self.pod}.{cluster.name}-brokers.{cluster.kubectl.namespace}.svc", PORT

    def __repr__(self):
        return self.pod

    def is_alive(self):
        """Whether something listens there."""
        try:
            socket.create_connection(self.address, timeout=CONNECT_TIMEOUT_S).close()
            return True
        except OSError:
            return False


class PodCluster(Asked):
    """The Cluster `name` in the namespace of `kubectl`."""

    def __init__(self, kubectl, name="log"):
        self.kubectl, self.name = kubectl, name
        self.bootstrap = f"{name}-bootstrap.{kubectl.namespace}.svc:{PORT}"
        self.selector = f"taffrail.dev/cluster={name}"
        self._known = {}

    @property
    def brokers(self):
        """The brokers that have a pod now."""
        return [self.broker(int(pod["metadata"]["labels"]["taffrail.dev/id"])) for pod in self.pods(BROKERS)]

    def broker(self, number):
        return self._known.setdefault(number, PodBroker(self, number))

    def pods(self, selector=None):
        return self.kubectl.list("pods", ",".join(filter(None, [self.selector, selector])))

    def uids(self):
        """pod -> uid: another uid is another life."""
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.pods()}

    def spec(self, change):
        """Changes the spec, as `kubectl edit` does."""
        return self.kubectl.patch("clusters.taffrail.dev", self.name, {"spec": change})

    def status(self):
        return (self.kubectl.get("clusters.taffrail.dev", self.name) or {}).get("status") or {}

    def wait_until_ready(self, timeout_s=180):
        """Until the Cluster is as its newest spec says."""
        self.kubectl.wait_for("condition=Ready", "clusters.taffrail.dev", self.name, timeout_s)
