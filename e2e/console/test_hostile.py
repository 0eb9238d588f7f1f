"""Names and records of strangers are shown as text, and strangers' pages get nothing."""

import contextlib
import http.client
import json
import socket
import urllib.parse

import pytest
from raw.wait import eventually
from served import QUIET, ask

SCRIPT = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
ESCAPES = "\x1b[2J\x1b]0;owned\x07 \u202eevil\u202c \x9b31m"
CONNECTIONS_MAX = 64


@pytest.fixture(scope="module")
def hostile(cluster):
    cluster.work.create("hostile", 1)
    cluster.work.produce(
        "hostile",
        [
            {"key": SCRIPT, "value": json.dumps({"a": SCRIPT, SCRIPT: 1}), "headers": [(SCRIPT, SCRIPT.encode())]},
            {"key": ESCAPES, "value": ESCAPES, "headers": [("h", b"\xff\xfe")]},
            {"key": b"\xff\x00\xfe", "value": b"\x80" * 40},
            {"key": None, "value": None},
            {"key": b"", "value": "x" * 100_000},
        ],
    )
    cluster.work.commit(SCRIPT, "hostile", 1, **{"client.id": SCRIPT})
    return "hostile"


def test_what_strangers_wrote_stays_text(page, hostile):
    page.show("messages", hostile)
    page.until(lambda: page.page.locator(".records tr[data-at]").count() == 5, "five records")
    shown = [page.page.locator(f".records tr[data-at='{at}']").inner_text() for at in range(5)]
    assert "<img src=x onerror" in shown[0]
    assert "⟨ESC⟩[2J⟨ESC⟩]0;owned⟨BEL⟩ ⟨U+202E⟩evil⟨U+202C⟩ ⟨U+009B⟩31m" in shown[1]
    assert "ff 00 fe" in shown[2] and "null" in shown[3] and "empty" in shown[4]
    details = []
    for at in range(5):
        page.page.locator(f".records tr[data-at='{at}']").click()
        details.append(page.text(".detail"))
    assert SCRIPT.replace('"', '\\"') in details[0], "as it was written"
    assert "JSON" in details[0] and "\x1b" not in details[1] and "⟨U+202E⟩" in details[1]
    assert "000010  80 80" in details[2]
    assert "cut" in details[4]
    page.page.get_by_role("button", name="Show all of it").click()
    page.until(lambda: "cut" not in page.text(".detail"), "all of it")
    assert page.page.locator("main img, main script").count() == 0
    assert "owned" not in page.page.title()


def test_names_of_groups_stay_text(page, hostile):
    page.show("groups")
    page.wait_for("<img src=x")
    page.page.get_by_text("<img src=x").click()
    page.wait_for("1 partition, coordinated by")
    assert page.page.locator("h1").inner_text().endswith(SCRIPT)
    assert page.page.locator("main img, main script").count() == 0
    assert "owned" not in page.page.title().replace(SCRIPT, "")


def test_an_address_of_strangers_stays_text_too(page, hostile):
    page.show("topics", SCRIPT)
    page.wait_for("there is no topic")
    page.show("messages", SCRIPT)
    page.page.locator("form.place").wait_for()
    page.wait_for("there is no topic")
    assert page.page.locator("main img, main script").count() == 0
    # The browser tells of answers that are refusals.
    assert all("the server responded with a status of 40" in it for it in page.complaints), page.complaints
    page.complaints.clear()


def test_every_answer_says_what_may_be_done_with_it(cluster):
    for path in ("/", "/app.js", "/style.css", "/api/health", "/nothing"):
        _, headers, _ = ask(cluster.console, path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in headers


def test_strangers_names_and_pages_are_refused(cluster):
    def status(path, **headers):
        return ask(cluster.console, path, headers={name.replace("_", "-"): value for name, value in headers.items()})[0]

    assert status("/api/health") == 200
    assert status("/api/health", Host="rebound.example") == 421
    assert status("/", Host="rebound.example:9405") == 421
    assert status("/api/messages?topic=orders", Sec_Fetch_Site="cross-site") == 403
    assert status("/api/health", Sec_Fetch_Site="same-site", Origin="http://localhost:3000") == 403
    assert status("/", Sec_Fetch_Site="cross-site") == 200, "a link from elsewhere"


def test_it_only_reads(cluster):
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert ask(cluster.console, f"/api/topic?name={QUIET}", method=method)[0] == 405


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/api/topics?sort=size", 400, "sort is 'size'"),
        ("/api/topics?colour=blue", 400, "colour is not known"),
        ("/api/topics?limit=x", 400, "limit is 'x', and a number is needed"),
        ("/api/topics?filter=%ff", 400, "the value is not UTF-8"),
        ("/api/topic", 400, "name is needed"),
        ("/api/topic?name=nowhere", 404, "there is no topic nowhere"),
        ("/api/group?name=nobody", 404, "there is no group nobody"),
        (f"/api/messages?topic={QUIET}&partition=7", 404, "has no partition 7"),
        (f"/api/messages?topic={QUIET}&from=middle", 400, "from is 'middle', and start, end, an offset"),
        (f"/api/messages?topic={QUIET}&at=0", 400, "at needs partitions and offsets"),
        ("/api/messages?topic=nowhere", 404, "topic nowhere"),
        ("/api/topics?filter=" + "a" * 9000, 400, "the question has 9007 bytes"),
        ("/../Cargo.toml", 404, "there is nothing here"),
        ("/assets/app.js", 404, ""),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(cluster, path, status, text):
    told, _, body = ask(cluster.console, path)
    assert told == status and text in body.decode(), body


def test_answers_are_bounded(cluster):
    cluster.work.create("large", 1)
    cluster.work.produce("large", [{"value": bytes([65 + number % 26]) * 500_000} for number in range(12)])
    query = urllib.parse.urlencode({"topic": "large", "from": "start", "limit": 99_999, "bytes": 99_999_999})
    status, _, body = ask(cluster.console, f"/api/messages?{query}")
    answer = json.loads(body)
    assert status == 200 and len(body) < 4 << 20
    assert 0 < len(answer["records"]) < 12 and not answer["atEnd"]
    assert answer["partitions"][0]["next"] == len(answer["records"]), "the next page begins there"


def test_clients_that_stall_or_come_in_crowds_keep_nobody_away(cluster):
    host, port = cluster.console.removeprefix("http://").split(":")
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS_MAX // 2):
            stalled = stack.enter_context(socket.create_connection((host, int(port))))
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stalled.sendall(b"GET /style.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
        assert ask(cluster.console, "/api/health")[0] == 200
        for _ in range(2 * CONNECTIONS_MAX):
            stack.enter_context(socket.create_connection((host, int(port))))

    def answers():
        with contextlib.suppress(OSError, http.client.HTTPException):
            return ask(cluster.console, "/api/health")[0] == 200
        return False

    eventually(answers, what="an answer once they have gone")
