"""A Cluster on Kubernetes as a client on this machine sees it: brokers by the names that they advertise."""

import socket
import uuid

from cluster.asked import Answering, Asked
from raw import errors
from raw.batch import values_batch
from raw.client import PRODUCE, produce_fields
from raw.wait import eventually

from .watch import PodWatch

PORT = 9092
CONNECT_TIMEOUT_S = 1
BROKERS = "app.kubernetes.io/component=broker"
CONTROLLERS = "app.kubernetes.io/component=controller"


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

    def restart(self):
        """Asks for a rolling restart."""
        self.spec({"rollout": {"restartNonce": uuid.uuid4().hex[:8]}})

    def is_settled(self):
        """Whether the Cluster serves, and is as its newest spec says."""
        found = self.kubectl.get("clusters.taffrail.dev", self.name) or {}
        status = found.get("status") or {}
        conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
        assert status.get("observedGeneration") == found["metadata"]["generation"], status
        assert (conditions.get("Ready"), conditions.get("Reconciling")) == ("True", "False"), status
        return True

    def wait_until_ready(self, timeout_s=180):
        what = f"a Cluster {self.name} that is as its spec says"
        eventually(self.is_settled, timeout_s=timeout_s, poll_s=0.3, what=what)

    def write(self, topic, value):
        """Writes one record with acks=all to the leader of partition 0; its offset."""
        with self.leader(topic).connect() as connection:
            answer = connection.call("Produce", PRODUCE, **produce_fields(topic, values_batch(value), 0))
        answer = answer.responses[0].partition_responses[0]
        assert answer.error_code == errors.NONE, answer
        return answer.base_offset

    def watch(self):
        return PodWatch(self.kubectl, self.selector)
