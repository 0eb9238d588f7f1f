"""The pictures of docs/console.md, made anew: `PICTURES=docs/images e2e/console/run test_pictures.py`."""

import os
import pathlib

import pytest
from served import ORDERS, SLOW

LARGEST_BYTES = 150_000
SIZE = {"width": 1180, "height": 720}
# What is shown, and what has to stand there before the picture is taken.
PAGES = {
    "health": (("health",), lambda page: page.page.locator("section polyline").count() >= 1),
    "brokers": (("brokers",), lambda page: "free of" in page.text("main")),
    "topics": (("topics",), lambda page: page.cells(ORDERS)[4] not in ("–", "0")),
    "topic": (("topics", ORDERS), lambda page: page.text("[data-at='0'] td:nth-child(6)") not in ("–", "0")),
    "groups": (("groups",), lambda page: "falls behind" in page.cells(SLOW)[6]),
    "messages": (("messages", ORDERS), lambda page: page.page.locator(".records tr[data-at]").count() > 3),
}


@pytest.mark.parametrize("name", PAGES)
def test_pictures_in_light_and_dark(page, tmp_path, name):
    folder = pathlib.Path(os.environ.get("PICTURES", tmp_path))
    parts, is_there = PAGES[name]
    page.page.set_viewport_size(SIZE)
    page.show(*parts)
    page.until(lambda: is_there(page), "what is to be seen")
    if name == "messages":
        page.page.locator(".records tr[data-at='3']").click()
    grounds = []
    for scheme in ("light", "dark"):
        page.page.emulate_media(color_scheme=scheme)
        picture = folder / f"console-{name}-{scheme}.png"
        page.page.screenshot(path=picture)
        assert picture.stat().st_size < LARGEST_BYTES
        grounds.append(page.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(set(grounds)) == 2, grounds
