"""Draws a dashboard as a page: its panels where Grafana puts them, with what a real Prometheus answers to their queries. It is no
Grafana, and shows no more than that: stats, lines over time, tables."""

import html
import math
import re

COLUMN_PX, ROW_PX, GAP_PX = 48, 34, 8
COLOURS = ["#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#508642", "#cca300"]
LEGENDS_MAX, ROWS_MAX = 6, 8
UNITS = {"Bps": ("B/s", 1024), "bytes": ("B", 1024), "s": ("s", None), "percentunit": ("%", None), "ms": ("ms", None), "reqps": ("req/s", 1000)}
STYLE = """
body { margin: 0; background: #111217; color: #d8d9da; font: 12px system-ui, sans-serif; }
h1 { font-size: 15px; font-weight: 500; margin: 0; padding: 12px 16px 4px; }
main { position: relative; margin: 8px; }
section { position: absolute; box-sizing: border-box; background: #181b1f; border: 1px solid #2c3235; border-radius: 2px; padding: 6px 8px; overflow: hidden; }
h2 { font-size: 12px; font-weight: 500; margin: 0 0 4px; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.big { font-size: 30px; text-align: center; padding-top: 14px; border-radius: 2px; height: calc(100% - 36px); }
.green { background: #37872d; } .red { background: #c4162a; }
svg { display: block; width: 100%; } .axis { fill: #9fa7b3; font-size: 10px; }
ul { list-style: none; margin: 2px 0 0; padding: 0; columns: 2; } li { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
li::before { content: ""; display: inline-block; width: 10px; height: 3px; margin: 0 5px 3px 0; background: var(--colour); }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: 2px 6px; border-bottom: 1px solid #2c3235; font-weight: 400; }
.none { color: #9fa7b3; text-align: center; padding-top: 20px; }
"""


def told(value, unit):
    """A value as people read it."""
    word, base = UNITS.get(unit, ("", 1000))
    if unit == "percentunit":
        return f"{value * 100:.1f} %"
    if unit == "s" and 0 < abs(value) < 1:
        value, word = value * 1000, "ms"
    step, prefixes = 0, ["", "Ki", "Mi", "Gi", "Ti"] if base == 1024 else ["", "k", "M", "G", "T"]
    while base and abs(value) >= base and step + 1 < len(prefixes):
        value, step = value / base, step + 1
    number = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return f"{number} {prefixes[step]}{word}".strip()


def legend(pattern, labels):
    """The legend of a series, as Grafana fills it in."""
    words = re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: labels.get(found[1], ""), pattern)
    return " ".join(words.split()) or "value"


def page(board, queried):
    """The page. `queried(expression, is_instant)` gives what Prometheus answers."""
    panels = [panel(each, queried) for each in board["panels"]]
    height = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in board["panels"]) * ROW_PX
    width = 24 * COLUMN_PX
    return f"<!doctype html><style>{STYLE}</style><h1>{html.escape(board['title'])}</h1><main style='width:{width}px;height:{height}px'>{''.join(panels)}</main>"


def panel(each, queried):
    place = each["gridPos"]
    width, height = place["w"] * COLUMN_PX - GAP_PX, place["h"] * ROW_PX - GAP_PX
    style = f"left:{place['x'] * COLUMN_PX}px;top:{place['y'] * ROW_PX}px;width:{width}px;height:{height}px"
    inside = {"stat": stat, "timeseries": lines, "table": table}[each["type"]](each, queried, width - 18, height)
    title = html.escape(each["title"])
    return f"<section data-panel='{title}' style='{style}'><h2>{title}</h2>{inside}</section>"


def nothing():
    return "<p class='none'>No data</p>"


def stat(each, queried, *_):
    found = queried(each["targets"][0]["expr"], True)
    if not found:
        return nothing()
    value = float(found[0]["value"][1])
    defaults = each["fieldConfig"]["defaults"]
    steps = defaults.get("thresholds", {}).get("steps", [])
    colour = next((step["color"] for step in reversed(steps) if step["value"] is None or value >= step["value"]), "green")
    return f"<div class='big {colour}'>{told(value, defaults['unit'])}</div>"


def lines(each, queried, width, height):
    unit = each["fieldConfig"]["defaults"]["unit"]
    found = [
        (legend(target["legendFormat"], one["metric"]), [(at, float(value)) for at, value in one["values"]])
        for target in each["targets"]
        for one in queried(target["expr"], False)
    ]
    series = [(name, [(at, value) for at, value in points if math.isfinite(value)]) for name, points in found]
    series = sorted((one for one in series if one[1]), key=lambda one: -one[1][-1][1])
    if not series:
        return nothing()
    moments = [at for _, points in series for at, _ in points]
    first, last = min(moments), max(moments)
    top = max(value for _, points in series for _, value in points) or 1
    drawn = height - 40 - 16 * math.ceil(min(len(series), LEGENDS_MAX) / 2)
    left = 56

    def spot(at, value):
        return f"{left + (at - first) / max(last - first, 1) * (width - left):.1f},{drawn - 4 - max(value, 0) / top * (drawn - 16):.1f}"

    parts = [f"<svg viewBox='0 0 {width} {drawn}' height='{drawn}'>"]
    for share in (0, 0.5, 1):
        y = drawn - 4 - share * (drawn - 16)
        parts.append(f"<line x1='{left}' x2='{width}' y1='{y}' y2='{y}' stroke='#2c3235'/>")
        parts.append(f"<text class='axis' x='{left - 6}' y='{y + 3}' text-anchor='end'>{told(top * share, unit)}</text>")
    for number, (_, points) in enumerate(series):
        spots = " ".join(spot(*point) for point in points)
        parts.append(f"<polyline points='{spots}' fill='none' stroke='{COLOURS[number % len(COLOURS)]}' stroke-width='1.3'/>")
    names = [
        f"<li style='--colour:{COLOURS[number % len(COLOURS)]}'>{html.escape(name)}: {told(points[-1][1], unit)}</li>"
        for number, (name, points) in enumerate(series[:LEGENDS_MAX])
    ]
    return "".join([*parts, "</svg><ul>", *names, "</ul>"])


def table(each, queried, *_):
    found = queried(each["targets"][0]["expr"], True)
    if not found:
        return nothing()
    labels = sorted({label for one in found for label in one["metric"]} - {"__name__", "job"})
    head = "".join(f"<th>{html.escape(label)}</th>" for label in [*labels, "value"])
    unit = each["fieldConfig"]["defaults"]["unit"]
    rows = [
        "".join(f"<td>{html.escape(one['metric'].get(label, ''))}</td>" for label in labels) + f"<td>{told(float(one['value'][1]), unit)}</td>"
        for one in found[:ROWS_MAX]
    ]
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
