"""The picture of a dashboard, drawn by a real Chromium from what the real Prometheus answers, and made anew by
`PICTURES=docs/images e2e/metrics/run test_pictures.py`."""

import os
import pathlib
import time

import pytest
from browser import Browser, chromium
from drawing import page
from test_dashboards import DASHBOARDS, filled_in, read

LARGEST_BYTES = 250_000
SIZE = {"width": 1180, "height": 900}
SHOWN_S = 60
PICTURED = {"taffrail-overview"}


@pytest.fixture(scope="module")
def browser():
    if chromium() is None and os.environ.get("CI") != "true":
        pytest.skip("not installed: chromium (Debian's package)")
    with Browser() as running:
        yield running


@pytest.mark.parametrize("file", [file for file in DASHBOARDS if file.stem in PICTURED], ids=lambda file: file.stem)
def test_a_dashboard_is_drawn_from_what_prometheus_answers(prometheus, browser, tmp_path, file):
    now = time.time()

    def queried(expression, is_instant):
        expression = filled_in(expression)
        if is_instant:
            return prometheus.query(expression)
        return prometheus.ask("query_range", query=expression, start=now - SHOWN_S, end=now, step=1)["result"]

    board = read(file)
    drawn = page(board, queried)
    folder = pathlib.Path(os.environ.get("PICTURES", tmp_path))
    with browser.tab("about:blank") as tab:
        tab.page.set_viewport_size(SIZE)
        tab.page.set_content(drawn)
        assert tab.page.locator("section").count() == len(board["panels"])
        empty = tab.page.locator("section", has_text="No data").locator("h2").all_inner_texts()
        assert empty == [], "panels without data"
        picture = folder / f"dashboard-{file.stem.removeprefix('taffrail-')}.png"
        tab.page.screenshot(path=picture, full_page=True)
        assert tab.complaints == []
    assert picture.stat().st_size < LARGEST_BYTES
