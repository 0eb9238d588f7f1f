"""Alerts: promtool's unit tests, what each must carry, and that a healthy cluster under load fires none."""

import subprocess
from pathlib import Path

import pytest
import yaml
from watched import CHART, ROOT

RULES = CHART / "alerts" / "taffrail.yaml"
RUNBOOKS = ROOT / "docs" / "runbooks"
SECTIONS = ["## Meaning", "## Impact", "## Diagnosis", "## Repair"]
UNIT_TESTS = Path(__file__).parent / "alerts_test.yaml"


def alerts():
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def test_promtools_unit_tests_pass():
    subprocess.run(["promtool", "check", "rules", RULES], check=True)
    subprocess.run(["promtool", "test", "rules", UNIT_TESTS], check=True, cwd=UNIT_TESTS.parent)


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_says_what_to_do(alert):
    name, annotations = alert["alert"], alert["annotations"]
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert annotations["summary"] and annotations["description"]
    assert annotations["runbook_url"].endswith(f"/docs/runbooks/{name}.md")
    page = (RUNBOOKS / f"{name}.md").read_text()
    assert page.startswith(f"# {name}\n")
    assert [line for line in page.splitlines() if line.startswith("## ")] == SECTIONS
    assert name in UNIT_TESTS.read_text(), "no unit test names it"


def test_every_runbook_is_of_an_alert():
    assert {page.stem for page in RUNBOOKS.glob("*.md")} - {"README"} == {alert["alert"] for alert in alerts()}


def test_a_healthy_cluster_under_load_fires_nothing(prometheus):
    rules = prometheus.ask("rules")["groups"]
    loaded = [rule for group in rules for rule in group["rules"]]
    assert {rule["name"] for rule in loaded} >= {alert["alert"] for alert in alerts()}
    assert [rule for rule in loaded if rule["health"] not in {"ok", "unknown"}] == []
    firing = prometheus.query('ALERTS{alertstate="firing"}')
    assert firing == [], firing
