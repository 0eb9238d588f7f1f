"""Ten thousand partitions, and as many rows as a screen has."""

import json
import time

import pytest
from raw.broker import free_ports
from served import ask
from watched import UpCluster

PARTITIONS = 10_000


@pytest.fixture(scope="module")
def large():
    """`taffrail up` with a topic of ten thousand partitions."""
    (port,) = free_ports(1)
    running = UpCluster(settings={"console": f"127.0.0.1:{port}"}, brokers=1)
    try:
        running.start()
        running.create_topic("wide", PARTITIONS)
        yield f"http://127.0.0.1:{port}"
    finally:
        # Nobody reads these files again, and a clean stop writes all of them.
        running.process.kill()
        running.remove()


def test_ten_thousand_partitions_are_listed_and_only_those_in_sight_exist(browser, large, record_property):
    with browser.tab(large) as page:
        page.show("topics")
        assert page.cells("wide")[1] == "10,000"
        page.page.get_by_text("wide").click()
        page.wait_for("10,000 partitions, 1 replica of each")
        page.wait_for("10,000 in order", ".legend")
        page.show("topics", "wide")
        record_property("first paint with 10,000 partitions", f"{page.first_paint_ms():.0f} ms")
        rows = page.page.locator("tr[data-at]")
        assert 10 < rows.count() < 100
        page.press("End")
        page.until(lambda: page.page.locator("tr[data-at='9999'] td").first.inner_text() == "9999", "the last partition")
        assert rows.count() < 100
        page.press("Home", "PageDown")
        page.until(lambda: page.page.locator("tr[data-at='0'] td, tr[data-at='12'] td").first.inner_text() != "…", "the first ones")
        assert page.complaints == []
    for path in ("/api/topics", "/api/topic?name=wide&limit=100", "/api/health"):
        begun = time.monotonic()
        ask(large, path)
        record_property(f"{path} with 10,000 partitions", f"{(time.monotonic() - begun) * 1000:.0f} ms")


def test_answers_stay_small_however_many_there_are(large):
    for path in ("/api/health", "/api/topics", "/api/topic?name=wide&limit=100", "/api/topic?name=wide&limit=9999"):
        status, _, body = ask(large, path)
        assert status == 200 and len(body) < 256 << 10, path
    assert len(json.loads(body)["partitions"]) == 500, "no page is larger"
    status, _, body = ask(large, "/api/messages?topic=wide")
    assert status == 400 and "choose one" in body.decode()
