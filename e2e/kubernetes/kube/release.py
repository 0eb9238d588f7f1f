"""A release of the chart in a namespace: what a user does with helm."""

import os
import time

import pytest

from raw.wait import eventually

from .chart import CHART, helm
from .cluster import PodCluster

TIMEOUT_S = 180
REGISTRY, _, IMAGE = os.environ.get("TAFFRAIL_IMAGE", "localhost/taffrail:dev").rpartition("/")
REPOSITORY, _, TAG = IMAGE.partition(":")
# The image with kcat that `run` made for `helm test`.
KCAT = os.environ.get("TAFFRAIL_KCAT_IMAGE", "docker.io/edenhill/kcat:1.7.1")
# Volumes of the rig are folders; memory is shared by everything that runs here.
SMALL = {
    "cluster.spec.brokers.storage.size": "1Gi",
    "cluster.spec.controllers.storage.size": "1Gi",
    "cluster.spec.config.group\\.initial\\.rebalance\\.delay\\.ms": 0,
    "cluster.spec.config.offsets\\.topic\\.num\\.partitions": 4,
}


class Release:
    """`helm install NAME charts/taffrail` in the namespace of `kubectl`."""

    def __init__(self, kubectl, name="log"):
        self.kubectl, self.name = kubectl, name
        self.operator = f"{name}-taffrail-operator"
        self.cluster = PodCluster(kubectl, name)
        self.began = time.monotonic()

    def helm(self, *arguments, values=None, timeout_s=TIMEOUT_S):
        """What helm prints when it succeeds."""
        sets = [word for key, value in (values or {}).items() for word in ("--set", f"{key}={value}")]
        done = helm("--namespace", self.kubectl.namespace, *arguments, *sets, timeout_s=timeout_s)
        assert done.returncode == 0, f"{done.args}: {done.stdout}{done.stderr}"
        return done.stdout

    def values(self, brokers=3, controllers=3, **more):
        """The values of a cluster of this size, with the image under test."""
        factor = min(3, brokers)
        return SMALL | {
            "image.registry": REGISTRY,
            "image.repository": REPOSITORY,
            "image.tag": TAG,
            "test.image": KCAT,
            "cluster.spec.brokers.replicas": brokers,
            "cluster.spec.controllers.replicas": controllers,
            "cluster.spec.config.default\\.replication\\.factor": factor,
            "cluster.spec.config.min\\.insync\\.replicas": max(1, factor - 1),
            **more,
        }

    def install(self, *arguments, **options):
        return self.helm("install", self.name, CHART, *arguments, values=self.values(**options))

    def upgrade(self, *arguments, **options):
        return self.helm("upgrade", self.name, CHART, *arguments, values=self.values(**options))

    def uninstall(self):
        return self.helm("uninstall", self.name, "--wait")

    def wait_until_ready(self):
        """Until the operator has made the Cluster, and the Cluster is ready."""
        exists = lambda: self.kubectl.get("clusters.taffrail.dev", self.name)  # noqa: E731
        eventually(exists, timeout_s=60, poll_s=0.1, what=f"the Cluster {self.name}")
        self.cluster.wait_until_ready(TIMEOUT_S)

    def operators(self):
        """The operator's pods."""
        selector = f"app.kubernetes.io/name=taffrail-operator,app.kubernetes.io/instance={self.name}"
        return self.kubectl.list("pods", selector)

    def scale_operator(self, replicas):
        self.kubectl("scale", f"deployment/{self.operator}", f"--replicas={replicas}")

    def diagnosis(self):
        """What there is to know when a test failed."""
        parts = [self.kubectl.run("get", "pods,pvc,tfc,tft,tfg,pdb", "-o", "wide").stdout]
        parts += [self.kubectl.run("get", "clusters.taffrail.dev", "-o", "yaml").stdout[-6000:]]
        parts += [self.kubectl.run("get", "events", "--sort-by=.lastTimestamp").stdout[-4000:]]
        parts += [self.kubectl.run("logs", f"deployment/{self.operator}", "--tail=60").stdout]
        for pod in self.cluster.pods():
            name = pod["metadata"]["name"]
            parts.append(f"--- {name}\n" + self.kubectl.run("logs", name, "--tail=15").stdout)
        return "\n".join(parts)


@pytest.fixture(scope="module")
def release(kubectl):
    """A release that the tests of one module share; nobody has waited for anything yet."""
    installed = Release(kubectl)
    installed.install()
    return installed


@pytest.fixture
def cluster(release):
    """Its Cluster of three brokers and three controllers, once it is ready; tests leave it so."""
    release.wait_until_ready()
    return release.cluster
