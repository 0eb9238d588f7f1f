"""Every query of every panel and variable, asked of the real Prometheus: each returns data. And what Grafana needs of a
dashboard to show it."""

import json
import re
import subprocess

import pytest
from watched import CHART, ROOT

DASHBOARDS = sorted((CHART / "dashboards").glob("*.json"))
PANELS = {"stat", "timeseries", "table"}
RANGE = "10s"
EVERYTHING = ".*"


def read(file):
    return json.loads(file.read_text())


def filled_in(query):
    """The query as Grafana would send it with all variables at All."""
    query = query.replace("$__rate_interval", RANGE)
    query = re.sub(r"\[\d+m\]", f"[{RANGE}]", query)
    query = re.sub(r"\$\{?\w+\}?", EVERYTHING, query)
    assert "$" not in query, query
    return query


def queries():
    for file in DASHBOARDS:
        for panel in read(file)["panels"]:
            for target in panel["targets"]:
                yield pytest.param(target["expr"], id=f"{file.stem}/{panel['title']}/{target['refId']}")


def variables():
    for file in DASHBOARDS:
        for variable in read(file)["templating"]["list"]:
            if variable["type"] == "query":
                yield pytest.param(variable["query"], id=f"{file.stem}/${variable['name']}")


@pytest.mark.parametrize("expression", list(queries()))
def test_a_panels_query_returns_data(prometheus, expression):
    found = prometheus.query(filled_in(expression))
    assert found, f"nothing for {filled_in(expression)}"
    assert any(sample["value"][1] != "NaN" for sample in found), found


@pytest.mark.parametrize("query", list(variables()))
def test_a_variable_has_values(prometheus, query):
    selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)", query).groups()
    series = prometheus.ask("series", **{"match[]": filled_in(selector)})
    assert {one.get(label) for one in series} - {None}, f"{label} of {selector}"


def test_the_dashboards_are_those_that_their_generator_writes():
    subprocess.run([ROOT / "charts" / "dashboards", "--check"], check=True)
    assert len(DASHBOARDS) >= 7


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_grafana_can_show_a_dashboard(file):
    board = read(file)
    assert board["uid"] == file.stem and len(board["uid"]) <= 40 and board["title"] and board["schemaVersion"] >= 36
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    known = {variable["name"] for variable in board["templating"]["list"]}
    taken = set()
    for panel in board["panels"]:
        assert panel["type"] in PANELS and panel["title"], panel
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, f"{panel['title']} lies on another panel"
        taken |= cells
        for target in panel["targets"]:
            used = set(re.findall(r"\$\{?(\w+)", target["expr"])) - {"__rate_interval"}
            assert used <= known, f"{panel['title']} uses {used - known}"
