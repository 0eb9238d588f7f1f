"""Every page shows what is true, and goes on showing it."""

import re

import pytest
from raw.wait import eventually
from served import ORDERS, QUICK, QUIET, QUIET_RECORDS, SLOW, Proxy, order


def number(text):
    return int(text.replace(",", ""))


def test_health_is_told_first(page, cluster, record_property):
    page.show()
    page.wait_for("All is well.")
    tiles = page.text(".tiles").splitlines()
    assert tiles[tiles.index("Controllers") + 1] == "3 of 3" and tiles[tiles.index("Brokers") + 1] == "3 of 3"
    assert re.search(r"in sync, in \d+ topics", page.text(".tiles"))
    for broker in (1, 2, 3):
        assert page.cells(f"Broker {broker}")[1] == "may go"
    page.wait_for(SLOW, "section table")
    # Told at the end of the run: a number to read, not a limit.
    record_property("first paint", f"{page.first_paint_ms():.0f} ms after the page was asked for")


def test_brokers_are_shown_with_disks_and_leaders(page, cluster):
    page.show("brokers")
    page.wait_for("free of", "table")
    page.until(lambda: {page.cells(node.server)[1] for node in cluster.brokers} == {"serving"}, "all brokers serve")
    rows = [page.cells(node.server) for node in cluster.brokers]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert [row[3] for row in rows] == ["a", "b", "c"]
    led = sum(number(row[4]) for row in rows)
    assert led == cluster_partitions(page)
    for node in cluster.controllers:
        assert page.cells(node.server)[1] in ("active", "votes")


def cluster_partitions(page):
    return page.page.evaluate("fetch('api/health').then((it) => it.json()).then((it) => it.partitions.count)")


def test_topics_are_shown_with_their_rates_and_what_is_in_them(page):
    page.show("topics")
    assert page.cells(QUIET)[:4] == [QUIET, "1", "3", str(QUIET_RECORDS)]
    page.until(lambda: number(page.cells(ORDERS)[4].replace("–", "0").split(".")[0]) > 0, "records come in")
    assert page.cells(QUIET)[4] == "0"
    page.until(lambda: re.fullmatch(r"[1-9][\d.,]* (B|KiB|MiB)/s", page.cells(ORDERS)[5]), "bytes come in")
    page.until(lambda: page.cells(QUIET)[5] == "0 B/s", "none come in there")
    assert re.fullmatch(r"[1-9][\d.]* KiB", page.cells(QUIET)[6])
    assert "__consumer_offsets" not in page.text("main")
    page.page.get_by_label("internal").check()
    page.wait_for("__consumer_offsets")


def test_a_topic_shows_who_keeps_each_partition(page):
    page.show("topics", ORDERS)
    page.wait_for("6 partitions, 3 replicas of each")
    rows = [page.page.locator(f"[data-at='{at}'] td").all_inner_texts() for at in range(6)]
    assert [row[0] for row in rows] == [str(at) for at in range(6)]
    chips = page.page.locator("[data-at='0'] .chip")
    assert sorted(chips.all_inner_texts()) == ["1", "2", "3"]
    assert page.page.locator("[data-at='0'] .chip.leader").inner_text() == rows[0][1]
    assert "6 in order" in page.page.locator("canvas").get_attribute("aria-label")
    assert "by default" in page.text(".settings")


def test_groups_are_shown_by_how_long_they_lag(page):
    page.show("groups")
    page.wait_for(SLOW)

    def names():
        return page.page.locator("tr[data-at] td:first-child").all_inner_texts()

    page.until(lambda: {SLOW, QUICK} <= set(names()) and names().index(SLOW) < names().index(QUICK), "the slow group comes first")
    slow, quick = page.cells(SLOW), page.cells(QUICK)
    assert slow[1] == quick[1] == "Stable" and slow[2] == quick[2] == "1"
    assert number(slow[4]) > 20
    page.until(lambda: "falls behind" in page.cells(SLOW)[6], "its trend is seen")
    assert page.page.locator("tr", has_text=SLOW).locator("polyline").count() == 1
    page.page.get_by_text(SLOW).click()
    page.wait_for("6 partitions, coordinated by broker")
    assert "billing-1" in page.text("section table")


def test_messages_are_found_by_offset_and_time_and_read_in_full(page, cluster):
    page.show("messages", QUIET)
    page.wait_for(f"offsets 0 to {QUIET_RECORDS}")
    page.until(lambda: page.page.locator(".records tr[data-at]").count() == QUIET_RECORDS, "all records")
    page.page.get_by_label("From").select_option("offset")
    page.page.get_by_label("Place").fill("37")
    page.press("Enter")
    page.until(lambda: page.page.locator(".records tr[data-at]").count() == 3, "three records")
    page.page.locator(".records tr[data-at='1']").click()
    detail = page.text(".detail")
    assert '"order": 38' in detail and "order-38" in detail and order(38)["headers"][0][1] in detail
    page.page.get_by_label("From").select_option("oldest")
    page.until(lambda: page.page.locator(".records tr[data-at]").count() == QUIET_RECORDS, "from the beginning")

    cluster.work.create("times", 1)
    cluster.work.produce("times", [{"value": f"at {second}", "timestamp": 1_700_000_000_000 + second * 1000} for second in range(10)])
    page.show("messages", "times")
    page.wait_for("at 9")
    page.page.get_by_label("From").select_option("time")
    # 2023-11-14 22:13:20 UTC is second 0.
    page.page.get_by_label("Place").fill("2023-11-14T22:13:27")
    page.press("Tab")
    page.until(lambda: page.page.locator(".records tr[data-at]").count() == 3, "the last three seconds")
    assert "at 7" in page.text(".records") and "at 6" not in page.text(".records")


def test_new_messages_are_followed(page, cluster):
    cluster.work.create("followed", 2)
    cluster.work.produce("followed", [{"value": "old"}])
    page.show("messages", "followed")
    page.wait_for("old", ".records")
    page.press("t")
    for number in range(3):
        cluster.work.produce("followed", [{"value": f"new {number}"}], partition=number % 2)
        page.wait_for(f"new {number}", ".records")
    page.press("t")
    assert page.page.get_by_role("button", name="Follow").get_attribute("aria-pressed") == "false"


def test_pages_turn_without_losing_or_repeating_a_record(page, cluster):
    cluster.work.create("paged", 1)
    cluster.work.produce("paged", [{"value": f"v{number}"} for number in range(120)])
    page.show("messages", "paged")
    page.wait_for("v119", ".records")
    seen, older = values(page), page.page.get_by_role("button", name="Older")
    while older.is_enabled():
        before = values(page)
        older.click()
        page.until(lambda before=before: values(page) not in ([], before), "the page before")
        seen = values(page) + seen
    assert seen == [f"v{number}" for number in range(120)]
    page.page.get_by_role("button", name="Newer").click()
    page.until(lambda: values(page)[:1] == ["v20"], "the page after")


def values(page):
    return page.page.locator(".records tr[data-at] td:last-child").all_inner_texts()


def test_the_keyboard_is_enough(page):
    page.show("health")
    page.wait_for("All is well.")
    page.press("3")
    page.wait_for(ORDERS)
    page.until(lambda: page.focused() == "Topics", "the rows have the focus")
    page.press("/")
    assert page.focused() == "Filter topics"
    page.page.keyboard.type("audit")
    page.wait_for("1 of ")
    page.press("Escape")
    page.until(lambda: page.focused() == "Topics", "the rows have it again")
    page.press("j", "k", "Enter")
    page.wait_for("1 partition, 3 replicas of each")
    page.press("m")
    page.wait_for("offsets 0 to", "form")
    page.press("j", "j")
    page.wait_for("order-1", ".detail")
    page.press("Escape")
    page.wait_for("Of which topic?")
    page.press("?")
    assert page.page.locator("dialog").is_visible()
    page.press("Escape", "4")
    page.wait_for(SLOW)
    page.press("p")
    assert page.text("#pause-text") == "Paused"
    page.press("p", "1")
    page.wait_for("All is well.")


def test_it_works_under_a_prefix_and_asks_nobody_else(browser, cluster):
    with Proxy(cluster.console, "/ops/taffrail/") as proxy, browser.tab(proxy.address) as page:
        for part, text in [("health", "All is well."), ("brokers", "free of"), ("topics", ORDERS), ("groups", SLOW)]:
            page.show(part)
            page.wait_for(text)
        page.show("messages", QUIET)
        page.wait_for("order-1", ".records")
        assert proxy.outside == [] or proxy.outside == ["/favicon.ico"]
        assert {url.split("/")[2] for url in page.asked} == {proxy.address.split("/")[2]}
        assert page.complaints == []


@pytest.fixture
def one_broker_less(cluster):
    lost = cluster.brokers[2]
    lost.kill()
    yield lost
    cluster.restart(lost)
    cluster.wait_until_in_sync(preferred=True)


def test_what_is_wrong_is_told_with_its_reason(page, one_broker_less):
    page.show("health")
    page.wait_for("Broker 3 is away", ".cards")
    page.wait_for("lacks replicas in sync", ".cards")
    assert "Broker 3 is away." in page.text(".cards") or "broker 3 is away" in page.text(".cards")
    verdict = eventually(lambda: page.cells("Broker 1"), wanted=lambda cells: cells[1] == "may not go", what="a verdict")
    assert "would fall below the minimum" in verdict[2]
    assert page.page.locator("#mark.warning, #mark.down").count() == 1
    page.show("topics", ORDERS)
    page.wait_for("under-replicated", ".legend")
    assert page.page.locator("[data-at='0'] .chip.behind").inner_text() == "3"
    page.show("brokers")
    assert page.cells(one_broker_less.server)[1] == "away"
