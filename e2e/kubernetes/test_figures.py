"""What the operator costs and how fast it is, on the machine that this runs on: docs/kubernetes.md has the targets.

Nothing here fails because something is slow: figures are printed, and judged by people.
"""

import os
import pathlib
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from kube.kubectl import Kubectl
from kube.raw_api import is_ready, raw_api
from kube.release import Release
from kube.resources import consumer_group, topic
from kube.rig import process_of
from kube.watch import PodWatch
from kube.watch import is_ready as pod_is_ready
from raw.wait import eventually

TOPICS = 1000
PARTITIONS = 12
GROUPS = 100
ONE_BY_ONE = 100
AT_ONCE = 16
WAIT_S = 600
REST_S = 60
PAGE = 4096

pytestmark = pytest.mark.long


def told(what, value):
    print(f"\nFIGURE {what}: {value}")


def operator_process(namespace):
    """The process of the one operator of this rig that watches the namespace."""
    return process_of(lambda arguments: b"operator" in arguments and f"--namespaces={namespace}".encode() in arguments)


def memory_bytes(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(("brokers", "controllers"), [(1, 1), (3, 3)])
def test_how_long_it_takes_to_the_first_record(crds, brokers, controllers, request):
    namespace = f"first-{uuid.uuid4().hex[:6]}"
    crds("create", "namespace", namespace)
    request.addfinalizer(lambda: crds.delete("namespace", namespace))
    release = Release(Kubectl(namespace))
    began = time.monotonic()
    release.install(brokers=brokers, controllers=controllers)
    cluster = release.cluster
    eventually(cluster.living, timeout_s=WAIT_S, poll_s=0.1, what="a broker that listens")
    new = lambda: cluster.new_topic(partitions=1, replicas=min(3, brokers))  # noqa: E731
    name = eventually(new, timeout_s=WAIT_S, poll_s=0.1, what="a topic")
    cluster.write(name, b"first")
    told(f"first record of {brokers}+{controllers}", f"{time.monotonic() - began:.1f} s")


def test_how_long_a_topic_takes_to_be_ready(release, cluster):
    with raw_api(release.kubectl.namespace) as api:
        took = []
        for number in range(ONE_BY_ONE):
            began = time.monotonic()
            api.create("topics", topic(f"one-{number}", partitions=3))
            eventually(lambda number=number: is_ready(api.get("topics", f"one-{number}")), timeout_s=WAIT_S, poll_s=0.005)
            took.append(time.monotonic() - began)
        took.sort()
        p99 = took[max(0, len(took) * 99 // 100 - 1)]
        told("a Topic, applied to Ready", f"median {took[len(took) // 2]:.3f} s, p99 {p99:.3f} s, most {took[-1]:.3f} s")
        api.delete_all("topics")


def test_a_thousand_topics_at_once_and_the_operator_beside_them(release, cluster, rig):
    pid = operator_process(release.kubectl.namespace)
    told("operator memory before", f"{memory_bytes(pid) / 2**20:.1f} MiB")
    with raw_api(release.kubectl.namespace) as api:
        before = api.writes("topics")
        began = time.monotonic()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            specs = (topic(f"many-{number}", partitions=PARTITIONS, replicas=1) for number in range(TOPICS))
            list(pool.map(lambda one: api.create("topics", one), specs))
        applied = time.monotonic() - began
        count = lambda: sum(map(is_ready, api.list("topics")))  # noqa: E731
        eventually(count, wanted=lambda ready: ready >= TOPICS, timeout_s=WAIT_S, poll_s=0.5, what=f"{TOPICS} Topics that are Ready")
        took = time.monotonic() - began
        written = api.writes("topics") - before - TOPICS
        told(f"{TOPICS} Topics x {PARTITIONS}", f"all Ready after {took:.1f} s (applied within {applied:.1f} s)")
        told("API writes of the operator a Topic", f"{written / TOPICS:.2f}")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            groups = (consumer_group(f"group-{number}") for number in range(GROUPS))
            list(pool.map(lambda one: api.create("consumergroups", one), groups))
        time.sleep(REST_S / 2)
        spent, began = cpu_s(pid), time.monotonic()
        writes = api.writes("topics") + api.writes("consumergroups") + api.writes("clusters")
        time.sleep(REST_S)
        share = (cpu_s(pid) - spent) / (time.monotonic() - began)
        writes = api.writes("topics") + api.writes("consumergroups") + api.writes("clusters") - writes
        told(f"operator memory with {TOPICS} Topics and {GROUPS} ConsumerGroups", f"{memory_bytes(pid) / 2**20:.1f} MiB")
        told("operator CPU when nothing changes", f"{100 * share:.2f} % of a core, {writes} API writes in {REST_S} s")


class TimedWatch(PodWatch):
    """When each pod came and was ready, by this machine's clock."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.came, self.was_ready = {}, {}

    def take(self, event):
        super().take(event)
        uid, now = event["object"]["metadata"]["uid"], time.monotonic()
        self.came.setdefault(uid, now)
        if pod_is_ready(event["object"]):
            self.was_ready.setdefault(uid, now)


def test_how_long_a_full_roll_takes(cluster):
    before = cluster.uids()
    with TimedWatch(cluster.kubectl, cluster.selector) as watch:
        began = time.monotonic()
        cluster.restart()
        eventually(lambda: not set(before.values()) & set(cluster.uids().values()), timeout_s=WAIT_S, poll_s=0.2, what="new pods")
        cluster.wait_until_ready(WAIT_S)
        took = time.monotonic() - began
        time.sleep(1)
    new = [uid for uid in watch.was_ready if uid not in before.values()]
    starts = sum(watch.was_ready[uid] - watch.came[uid] for uid in new)
    assert len(new) == len(before)
    told(f"a full roll of {len(new)} pods", f"{took:.1f} s, of which pod starts {starts:.1f} s: {(took - starts) / len(new):.1f} s a pod beyond it")
