"""A headless Chromium, and a tab of it that shows a console."""

import contextlib
import shutil
import time
from urllib.parse import quote

from playwright.sync_api import sync_playwright

# The system's own, as the tests download none.
NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb"]
SIZE = {"width": 1280, "height": 800}
PATIENCE_MS = 15_000


def chromium():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """The browser, for as long as the tests run."""

    def __enter__(self):
        found = chromium()
        assert found, "no Chromium: install Debian's package chromium"
        self.driver = sync_playwright().start()
        self.chromium = self.driver.chromium.launch(executable_path=found, args=ARGUMENTS)
        return self

    def __exit__(self, *_):
        self.chromium.close()
        self.driver.stop()

    @contextlib.contextmanager
    def tab(self, address, **options):
        context = self.chromium.new_context(viewport=SIZE, locale="en-GB", timezone_id="UTC", **options)
        try:
            yield Tab(context.new_page(), address)
        finally:
            context.close()


class Tab:
    """One tab. What the page complains about (errors, what its policy forbids, windows that pop up) is kept."""

    def __init__(self, page, address):
        self.page, self.address = page, address
        self.complaints, self.asked = [], []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", lambda message: message.type == "error" and self.complaints.append(f"console: {message.text}"))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.asked.append(request.url))

    def show(self, *parts, query=""):
        """Shows a part of the console: `show("topics", "orders")`."""
        path = "/".join(quote(part, safe="") for part in parts)
        self.page.goto(f"{self.address}/#/{path}{query}")

    def text(self, selector):
        return self.page.locator(selector).inner_text()

    def wait_for(self, text, selector="main"):
        """Waits until a text stands there."""
        self.page.locator(selector, has_text=text).first.wait_for()

    def cells(self, row, table="main"):
        """The cells of the row that begins with this text, once it is there."""
        found = self.page.locator(f"{table} tr", has_text=row).first
        found.wait_for()
        return found.locator("th, td").all_inner_texts()

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def focused(self):
        return self.page.evaluate("document.activeElement.getAttribute('aria-label') ?? document.activeElement.id")

    def until(self, ask, what):
        """Waits until `ask()` is true."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not ask():
            assert time.monotonic() < deadline, what
            self.page.wait_for_timeout(50)

    def first_paint_ms(self):
        paints = "performance.getEntriesByType('paint').find((it) => it.name === 'first-contentful-paint')?.startTime"
        self.until(lambda: self.page.evaluate(f"({paints}) !== undefined"), "the page is painted")
        return self.page.evaluate(paints)
