"""A cluster that sleeps and wakes, and one whose operator and definitions are upgraded: what there is stays what it was."""

import os
import shutil

import pytest
import yaml

from kube.chart import CHART
from kube.resources import topic
from raw.wait import eventually

WAIT_S = 240
# The image under test under another name, which `run` gives to the nodes.
NEXT_TAG = os.environ.get("TAFFRAIL_NEXT_TAG")


def claims(cluster):
    """claim -> uid: another uid is another disk."""
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in cluster.kubectl.list("pvc", cluster.selector)}


def test_a_cluster_that_sleeps_wakes_with_its_data_and_the_identity_of_its_quorum(release, cluster):
    kept = cluster.new_topic("kept", partitions=1)
    values = [b"%d" % number for number in range(10)]
    for value in values:
        cluster.write(kept, value)
    before = cluster.status()["clusterId"], claims(cluster), cluster.voting_disks()
    cluster.spec({"lifecycle": "Stopped"})
    eventually(lambda: not cluster.pods(), timeout_s=WAIT_S, poll_s=0.5, what="no pods")
    release.kubectl.wait_for_condition("clusters.taffrail.dev", "log", "Ready", reason="Stopped")
    assert claims(cluster) == before[1]
    cluster.spec({"lifecycle": "Running"})
    cluster.wait_until_ready(WAIT_S)
    with cluster.client(cluster.leader(kept)) as client:
        assert client.read_values(kept) == values
    assert (cluster.status()["clusterId"], claims(cluster), cluster.voting_disks()) == before


def test_another_image_of_the_operator_restarts_nothing(release, cluster):
    """K-10: whoever upgrades the operator decides when brokers follow."""
    if NEXT_TAG is None:
        pytest.skip("no second image: set TAFFRAIL_NEXT_TAG to a tag that the nodes have")
    before = cluster.uids()
    release.upgrade(**{"image.tag": NEXT_TAG})
    release.kubectl("rollout", "status", f"deployment/{release.operator}", f"--timeout={WAIT_S}s", timeout_s=WAIT_S)
    release.kubectl.apply(topic("after-the-upgrade", partitions=1))
    release.kubectl.wait_for("condition=Ready", "topics.taffrail.dev", "after-the-upgrade")
    cluster.wait_until_ready(WAIT_S)
    assert cluster.uids() == before
    release.upgrade()
    release.kubectl("rollout", "status", f"deployment/{release.operator}", f"--timeout={WAIT_S}s", timeout_s=WAIT_S)


def newer_chart(folder):
    """The chart with a field of Topics that this release of the operator does not know."""
    chart = folder / "taffrail"
    shutil.copytree(CHART, chart)
    file = chart / "files" / "crds" / "taffrail.dev_topics.yaml"
    definition = yaml.safe_load(file.read_text())
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["purpose"] = {"type": "string", "description": "What it is for."}
    file.write_text(yaml.safe_dump(definition))
    return chart


def test_definitions_change_with_the_chart_under_resources_that_live_on(release, cluster, tmp_path):
    """An operator that does not know a field yet acts on all others, and on all other resources."""
    release.kubectl.apply(topic("old", partitions=1))
    release.kubectl.wait_for("condition=Ready", "topics.taffrail.dev", "old")
    before, id_before = cluster.uids(), release.kubectl.get("topics.taffrail.dev", "old")["status"]["topicId"]
    adopt = {"crds.adopt": "true"}
    chart = newer_chart(tmp_path)
    release.helm("upgrade", release.name, chart, "--take-ownership", values=release.values(**adopt))
    try:
        explain = lambda: release.kubectl("explain", "topics.taffrail.dev.spec.purpose")  # noqa: E731
        eventually(lambda: "What it is for." in explain(), timeout_s=60, what="the new field")
        release.kubectl.apply(topic("new", partitions=1, purpose="audit"), topic("old", partitions=2))
        for name in ("new", "old"):
            release.kubectl.wait_for("condition=Ready", "topics.taffrail.dev", name)
        eventually(lambda: len(cluster.partitions("old")) == 2, timeout_s=60, what="two partitions")
        assert release.kubectl.get("topics.taffrail.dev", "new")["spec"]["purpose"] == "audit"
        assert release.kubectl.get("topics.taffrail.dev", "old")["status"]["topicId"] == id_before
        assert cluster.uids() == before
    finally:
        release.kubectl.delete("topics.taffrail.dev", "new")
        release.helm("upgrade", release.name, CHART, "--take-ownership", values=release.values(**adopt))


@pytest.mark.long
def test_resources_outlive_the_release_and_its_definitions_and_are_served_by_the_next_one(release, cluster):
    release.kubectl.apply(topic("kept", partitions=1))
    release.kubectl.wait_for("condition=Ready", "topics.taffrail.dev", "kept")
    before, id_before = cluster.uids(), release.kubectl.get("topics.taffrail.dev", "kept")["status"]["topicId"]
    release.uninstall()
    release.install()
    cluster.wait_until_ready(WAIT_S)
    release.kubectl.apply(topic("kept", partitions=2))
    eventually(lambda: len(cluster.partitions("kept")) == 2, timeout_s=WAIT_S, what="two partitions")
    assert release.kubectl.get("topics.taffrail.dev", "kept")["status"]["topicId"] == id_before
    assert cluster.uids() == before
