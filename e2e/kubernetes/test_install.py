"""From `helm install` to records, and what stays when the release goes."""

import time

from kube.chart import CHART
from kube.release import Release
from kube.resources import topic
from raw.wait import eventually

WAIT_S = 120


def test_helm_install_alone_ends_in_a_cluster_that_takes_records(release):
    cluster = release.cluster
    eventually(cluster.living, timeout_s=WAIT_S, poll_s=0.2, what="a broker that listens")
    # The first broker that listens may be the only one yet.
    first = eventually(lambda: cluster.new_topic(partitions=1), timeout_s=WAIT_S, poll_s=0.2, what="a topic with three replicas")
    assert cluster.write(first, b"first") == 0
    print(f"\nfirst acknowledged record of 3 + 3 pods {time.monotonic() - release.began:.1f} s after helm install began")
    release.wait_until_ready()


def test_health_shows_at_a_glance(release, cluster):
    release.kubectl.apply(topic("orders", partitions=3))
    release.kubectl.wait_for("condition=Ready", "topics.taffrail.dev", "orders")
    head, line = release.kubectl("get", "tfc").splitlines()
    assert head.split() == ["NAME", "READY", "BROKERS", "URP", "OFFLINE", "VERSION", "ROLLING", "AGE"]
    assert line.split()[:5] == ["log", "True", "3", "0", "0"]
    assert release.kubectl("get", "tft").splitlines()[1].split()[:4] == ["orders", "log", "3", "3"]


def test_helm_test_produces_and_consumes(release, cluster):
    release.helm("test", release.name, "--logs")


def test_an_upgrade_without_a_change_changes_nothing(release, cluster):
    before = cluster.uids()
    spec = release.kubectl.get("clusters.taffrail.dev", "log")
    for _ in range(2):
        release.upgrade()
    release.helm("upgrade", release.name, CHART, "--reuse-values")
    after = release.kubectl.get("clusters.taffrail.dev", "log")
    assert after["metadata"]["generation"] == spec["metadata"]["generation"]
    assert cluster.uids() == before


def test_what_a_release_made_outlives_it_and_is_found_again(release, cluster):
    kept = cluster.new_topic(partitions=1)
    cluster.write(kept, b"kept")
    before = cluster.uids()
    release.uninstall()
    assert cluster.uids() == before
    assert cluster.write(kept, b"without an operator") == 1
    # Another name is another release: the Cluster and the definitions are not its own, and serve it all the same.
    other = Release(release.kubectl, "again")
    other.install(**{"cluster.name": "log"})
    cluster.spec({"config": {"log.retention.ms": 3600000}})
    cluster.wait_until_ready()
    assert cluster.uids() == before, "a setting that needs no restart restarted pods"
    other.uninstall()
    release.install()
    release.wait_until_ready()
    assert cluster.uids() == before
    assert cluster.write(kept, b"with an operator again") == 2
