"""What the chart renders, without a cluster: names, rights, safety, and the values that are refused."""

import json
import re
import shlex
import subprocess

import pytest
import yaml

from kube.chart import CHART, helm, objects_of, refusal, rendered, template
from raw.process import binary

CRDS = CHART.parent.parent / "crds"
# The whole of `helm install log charts/taffrail`.
DEFAULTS = {
    ("ConfigMap", "log-taffrail-cluster"),
    ("CustomResourceDefinition", "clusters.taffrail.dev"),
    ("CustomResourceDefinition", "consumergroups.taffrail.dev"),
    ("CustomResourceDefinition", "topics.taffrail.dev"),
    ("Deployment", "log-taffrail-operator"),
    ("Pod", "log-taffrail-test"),
    ("Role", "log-taffrail-operator"),
    ("Role", "log-taffrail-operator-own"),
    ("RoleBinding", "log-taffrail-operator"),
    ("RoleBinding", "log-taffrail-operator-own"),
    ("ServiceAccount", "log-taffrail-operator"),
}


def operator(objects):
    """The operator's container."""
    (deployment,) = (one for (kind, _), one in objects.items() if kind == "Deployment")
    return deployment["spec"]["template"]["spec"]["containers"][0]


def roles(objects):
    """(kind, namespace) of everything that gives rights."""
    return {(one["kind"], one["metadata"].get("namespace")) for one in objects if one["kind"].endswith("Role")}


@pytest.mark.parametrize("values", [None, "values-local.yaml"])
def test_helm_finds_nothing_to_complain_about(values):
    done = helm("lint", "--strict", CHART, *(["-f", CHART / values] if values else []))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_defaults_are_the_operator_its_rights_the_definitions_and_a_cluster_as_text():
    assert set(rendered()) == DEFAULTS


def test_rendering_twice_gives_the_same():
    # Nothing is made up while rendering: no ids, no passwords (K-11).
    assert template() == template()


def test_no_hook_stands_in_the_way_of_an_install():
    for name, one in rendered().items():
        hook = one["metadata"].get("annotations", {}).get("helm.sh/hook")
        assert hook in (None, "test"), f"{name} has the hook {hook}"


def test_definitions_are_the_repositorys_and_stay_when_the_release_goes():
    objects = rendered()
    for file in sorted(CRDS.glob("*.yaml")):
        wanted = yaml.safe_load(file.read_text())
        found = objects["CustomResourceDefinition", wanted["metadata"]["name"]]
        assert found["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
        assert found == wanted


def test_the_copies_of_the_definitions_are_current():
    done = subprocess.run([CHART.parent / "crds", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_definitions_can_be_left_to_somebody_else():
    assert not any(kind == "CustomResourceDefinition" for kind, _ in rendered("crds.install=false"))


def test_the_cluster_comes_as_text_that_names_its_brokers_and_controllers():
    text = rendered()["ConfigMap", "log-taffrail-cluster"]["data"]["cluster.yaml"]
    cluster = yaml.safe_load(text)
    assert (cluster["kind"], cluster["metadata"]["name"]) == ("Cluster", "log")
    assert cluster["spec"]["brokers"]["replicas"] == cluster["spec"]["controllers"]["replicas"] == 3
    assert "--apply=/etc/taffrail/apply/cluster.yaml" in operator(rendered())["args"]


def test_without_a_cluster_nothing_is_applied_or_tested():
    objects = rendered("cluster.create=false")
    assert {kind for kind, _ in objects}.isdisjoint({"ConfigMap", "Pod"})
    assert not [argument for argument in operator(objects)["args"] if argument.startswith("--apply")]


def test_a_laptop_gets_one_of_each():
    objects = rendered(arguments=["-f", CHART / "values-local.yaml"])
    spec = yaml.safe_load(objects["ConfigMap", "log-taffrail-cluster"]["data"]["cluster.yaml"])["spec"]
    assert spec["brokers"]["replicas"] == spec["controllers"]["replicas"] == 1
    assert spec["config"]["min.insync.replicas"] == 1
    assert operator(objects)["image"] == "localhost/taffrail:dev"


@pytest.mark.parametrize(
    ("settings", "image"),
    [
        ([], "ghcr.io/taffrail/taffrail:0.1.0"),
        (["image.tag=1.2.3"], "ghcr.io/taffrail/taffrail:1.2.3"),
        (["image.registry=mirror.example.com:5000/hub"], "mirror.example.com:5000/hub/taffrail/taffrail:0.1.0"),
        (["image.registry="], "taffrail/taffrail:0.1.0"),
        ([f"image.digest=sha256:{'a' * 64}"], f"ghcr.io/taffrail/taffrail@sha256:{'a' * 64}"),
    ],
)
def test_the_image_is_the_same_for_the_operator_and_for_what_it_starts(settings, image):
    container = operator(rendered(*settings))
    assert container["image"] == image
    assert f"--image={image}" in container["args"]


# What the operator watches, how it is told, and who gives it rights where.
SCOPES = [
    ([], "streams", {("Role", "streams")}),
    (["operator.watchNamespaces={one,two}"], "one,two", {("Role", "one"), ("Role", "two"), ("Role", "streams")}),
    (["operator.watchNamespaces={streams,one}"], "streams,one", {("Role", "streams"), ("Role", "one")}),
    (["operator.watchNamespaces={*}"], "*", {("Role", "streams"), ("ClusterRole", None)}),
    (["rbac.readNodes=true"], "streams", {("Role", "streams"), ("ClusterRole", None)}),
    (["rbac.create=false"], "streams", set()),
]


@pytest.mark.parametrize(("settings", "namespaces", "rights"), SCOPES)
def test_rights_are_given_where_the_operator_watches_and_nowhere_else(settings, namespaces, rights):
    assert f"--namespaces={namespaces}" in operator(rendered(*settings))["args"]
    assert roles(objects_of(*settings)) == rights


def test_where_it_does_not_watch_the_operator_may_only_lead_and_create():
    roles = {name: one for (kind, name), one in rendered("operator.watchNamespaces={one}").items() if kind == "Role"}
    assert roles["log-taffrail-operator"]["metadata"]["namespace"] == "one"
    own = roles["log-taffrail-operator-own"]
    assert own["metadata"]["namespace"] == "streams"
    assert {verb for rule in own["rules"] if rule["apiGroups"] == ["taffrail.dev"] for verb in rule["verbs"]} == {"create"}


def test_the_right_to_read_nodes_is_nothing_more():
    role = rendered("rbac.readNodes=true")["ClusterRole", "streams-log-taffrail-operator"]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}]


def test_no_rule_gives_everything():
    for (kind, name), one in rendered("operator.watchNamespaces={*}", "rbac.readNodes=true").items():
        if kind.endswith("Role"):
            for rule in one["rules"]:
                assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"], f"{name}: {rule}"


@pytest.mark.parametrize("kind", ["Deployment", "Pod"])
def test_pods_keep_the_restricted_standard(kind):
    (found,) = (one for (which, _), one in rendered().items() if which == kind)
    pod = found["spec"]["template"]["spec"] if kind == "Deployment" else found["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        wanted = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert container["securityContext"] == wanted
        assert container["resources"]["limits"]["memory"]


def test_two_operators_have_a_budget_and_one_lease():
    objects = rendered("operator.replicas=2")
    assert objects["PodDisruptionBudget", "log-taffrail-operator"]["spec"]["maxUnavailable"] == 1
    assert "--lease=log-taffrail-operator" in operator(objects)["args"]


def test_the_roles_are_what_the_operator_asks_for():
    done = subprocess.run([binary(), "operator", "--print-rules"], capture_output=True, text=True, timeout=10)
    assert done.returncode == 0, done.stderr
    wanted, objects = yaml.safe_load(done.stdout), rendered()
    assert objects["Role", "log-taffrail-operator"]["rules"] == wanted["rules"]
    assert objects["Role", "log-taffrail-operator-own"]["rules"] == wanted["ownRules"]


def test_two_releases_of_one_namespace_share_no_name():
    mine, other = set(rendered(release="log")), set(rendered(release="audit"))
    assert {kind for kind, _ in mine & other} == {"CustomResourceDefinition"}


def test_monitoring_is_off_until_it_is_asked_for():
    objects = rendered("podMonitor.enabled=true", "prometheusRule.enabled=true", "dashboards.enabled=true", "podMonitor.labels.release=prom", "podMonitor.params.granularity={topic}")
    assert set(objects) - set(rendered()) == {
        ("PodMonitor", "log-taffrail"),
        ("PrometheusRule", "log-taffrail"),
        ("ConfigMap", "log-taffrail-dashboards"),
    }
    assert objects["PodMonitor", "log-taffrail"]["metadata"]["labels"]["release"] == "prom"
    endpoints = objects["PodMonitor", "log-taffrail"]["spec"]["podMetricsEndpoints"]
    assert endpoints == [{"port": "metrics", "interval": "30s", "params": {"granularity": ["topic"]}}]
    groups = objects["PrometheusRule", "log-taffrail"]["spec"]["groups"]
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    for rule in alerts:
        assert rule["expr"] and rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    dashboards = objects["ConfigMap", "log-taffrail-dashboards"]["data"]
    assert alerts and "taffrail-overview.json" in dashboards
    assert all(panel["targets"] for text in dashboards.values() for panel in json.loads(text)["panels"])


def test_the_pages_command_brings_prometheus_and_grafana_what_they_look_for():
    page = (CHART.parent.parent / "docs" / "grafana.md").read_text()
    (command,) = (block for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "helm" in block)
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:5] == ["helm", "upgrade", "--install", "taffrail", "charts/taffrail"]
    done = helm("template", "taffrail", CHART, *words[5:])
    assert done.returncode == 0, done.stderr
    kinds = [one["kind"] for one in yaml.safe_load_all(done.stdout) if one]
    assert {"PodMonitor", "PrometheusRule"} <= set(kinds)
    (boards,) = (one for one in yaml.safe_load_all(done.stdout) if one and one["metadata"]["name"].endswith("-dashboards"))
    assert boards["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_notes_tell_the_next_three_commands():
    done = helm("install", "log", CHART, "--dry-run=client", "--namespace", "streams", "--set", "crds.install=false")
    assert done.returncode == 0, done.stderr
    notes = done.stdout.split("NOTES:", 1)[1]
    commands = [line.strip() for line in notes.splitlines() if line.startswith("  ")]
    assert commands[:3] == [
        "kubectl wait -n streams --for=condition=Ready clusters.taffrail.dev/log --timeout=180s",
        "kubectl get -n streams tfc,tft,tfg",
        "helm test -n streams log",
    ]


# Values that make no sense, and the part of helm's answer that says where.
REFUSED = [
    ("image.tag=latest", "'/image/tag'"),
    ("image.digest=abc", "'/image/digest'"),
    ("image.pullPolicy=Sometimes", "'/image/pullPolicy'"),
    ("image.name=taffrail", "additional properties 'name' not allowed"),
    ("operator.replicas=-1", "'/operator/replicas'"),
    ("operator.watchNamespaces={One}", "'/operator/watchNamespaces/0'"),
    ("operator.watchNamespaces=one", "'/operator/watchNamespaces'"),
    ("cluster.name=Log", "'/cluster/name'"),
    ("cluster.spec.broker.replicas=3", "additional properties 'broker' not allowed"),
    ("cluster.spec.lifecycle=Asleep", "'/cluster/spec/lifecycle'"),
    ("podMonitor.interval=often", "'/podMonitor/interval'"),
    ("podMonitor.params.granularity=topic", "'/podMonitor/params/granularity'"),
    ("replicas=3", "additional properties 'replicas' not allowed"),
]


@pytest.mark.parametrize(("setting", "says"), REFUSED)
def test_values_that_make_no_sense_are_refused_by_name(setting, says):
    assert says in refusal(setting)
