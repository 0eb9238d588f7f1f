"""The resource definitions, as an API server and its users see them. No operator has to run."""

import json

import pytest

from kube.kubectl import Refused
from kube.resources import cluster, topic

KINDS = {"clusters": "tfc", "topics": "tft", "consumergroups": "tfg"}


def undocumented(text):
    """Fields that `kubectl explain --recursive=false` has no word for."""
    bare = []
    lines = text.split("FIELDS:", 1)[-1].splitlines()
    for number, line in enumerate(lines):
        if line.startswith("  ") and not line.startswith("   ") and "<" in line:
            following = "\n".join(lines[number + 1 : number + 4])
            if "<no description>" in following or not following.strip():
                bare.append(line.split()[0])
    return bare


@pytest.mark.parametrize("field", ["clusters.spec", "clusters.status", "topics.spec", "topics.status", "consumergroups.spec",
                                   "consumergroups.spec.reset", "clusters.spec.brokers.storage", "clusters.spec.rollout"])
def test_explain_has_words_for_every_field(kubectl, field):
    text = kubectl("explain", "--api-version=taffrail.dev/v1alpha1", field)
    assert "<no description>" not in text.split("FIELDS:", 1)[0]
    assert undocumented(text) == []


def test_settings_are_explained_under_their_dotted_names(kubectl):
    text = kubectl("explain", "topics.taffrail.dev.spec.config")
    assert "retention.ms" in text and "Age above which old segments are deleted" in text


def test_short_names_and_the_category_find_the_resources(kubectl):
    kubectl.apply(cluster("seen"), topic("seen"))
    for plural, short in KINDS.items():
        assert plural in kubectl("api-resources", "--api-group=taffrail.dev")
        kubectl("get", short)
    assert "topic.taffrail.dev/seen" in kubectl("get", "taffrail", "-o", "name")


def test_waiting_for_a_resource_that_nobody_acts_on_ends_with_a_timeout(kubectl):
    kubectl.apply(topic("waiting"))
    with pytest.raises(Refused, match="timed out waiting for the condition"):
        kubectl.wait_for("condition=Ready", "topics.taffrail.dev", "waiting", timeout_s=1)


def test_waiting_ends_when_the_status_says_so(kubectl):
    kubectl.apply(topic("reported"))
    ready = {"type": "Ready", "status": "True", "reason": "AsSpecified", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    kubectl.patch("topics.taffrail.dev", "reported", {"status": {"conditions": [ready]}}, "--subresource=status")
    kubectl.wait_for("condition=Ready", "topics.taffrail.dev", "reported", timeout_s=5)


def test_the_status_is_not_the_users_to_write(kubectl):
    kubectl.apply(topic("mine"))
    kubectl.patch("topics.taffrail.dev", "mine", {"status": {"partitions": 99}})
    assert "status" not in kubectl.get("topics.taffrail.dev", "mine")


def test_kubectl_scale_changes_the_number_of_brokers(kubectl):
    kubectl.apply(cluster("wide", brokers={"replicas": 3}))
    kubectl("scale", "clusters.taffrail.dev/wide", "--replicas=5")
    assert kubectl.get("clusters.taffrail.dev", "wide")["spec"]["brokers"]["replicas"] == 5


def test_two_tools_can_own_parts_of_one_cluster(kubectl):
    """Lists with keys belong to whoever wrote their items, so GitOps tools and people do not undo each other."""
    one = cluster("shared", listeners=[{"name": "inside", "port": 9092}])
    two = cluster("shared", listeners=[{"name": "outside", "port": 9094}])
    kubectl.apply(one)
    kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=json.dumps(two))
    listeners = kubectl.get("clusters.taffrail.dev", "shared")["spec"]["listeners"]
    assert sorted(listener["name"] for listener in listeners) == ["inside", "outside"]
