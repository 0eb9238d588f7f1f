"""Fixtures: one broker that most tests share, brokers of their own for those that stop or fill one, and a RAW client."""

import contextlib
import os
import sys

import pytest

from raw import broker as brokers
from raw import long_forms
from raw.client import Client, unique
from raw.groups import Member, wait_for_coordinator
from raw.long_forms import pytest_addoption  # noqa: F401


def pytest_collection_modifyitems(config, items):
    long_forms.pytest_collection_modifyitems(config, items)
    for item in items:
        mark = item.get_closest_marker("beyond_kafka")
        if mark and brokers.is_kafka():
            item.add_marker(pytest.mark.skip(reason=f"beyond Kafka: {mark.args[0]}"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """With CI=true nothing of the short form may be skipped for want of a tool; a long form is no part of it."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("CI") == "true" and not brokers.is_kafka() and not item.get_closest_marker("long"):
        report.outcome = "failed"
        report.longrepr = f"with CI=true nothing of the short form may be skipped: {report.longrepr[2]}"


def pytest_terminal_summary(terminalreporter):
    skipped = [r for r in terminalreporter.stats.get("skipped", []) if "long form" not in str(r.longrepr)]
    if skipped:
        print(f"\n!!! {len(skipped)} case tests were SKIPPED; the reasons stand above", file=sys.stderr)


@pytest.fixture(scope="session")
def broker():
    """The broker that most tests share; it is never stopped before the end."""
    running = brokers.start_broker({"group.max.size": 70})
    yield running
    running.remove()


@pytest.fixture
def client(broker):
    with Client(broker) as connected:
        yield connected


@pytest.fixture
def coordinator(broker, client):
    """A client of the shared broker once its group coordinator serves."""
    wait_for_coordinator(client.connection, "any")
    return client


@pytest.fixture
def group():
    """The id of this test's own group."""
    return unique("group")


@pytest.fixture
def topic(coordinator):
    """The name of this test's own topic, where a group coordinator serves."""
    return coordinator.new_topic("g").name


@pytest.fixture
def members(broker, group, coordinator):
    """Makes members of this test's group: `members(count)`; their sockets are closed at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda count=1, **options: [stack.enter_context(Member(broker, group, **options)) for _ in range(count)]


@pytest.fixture
def own_broker():
    """Starts brokers that one test may stop, kill or fill: `own_broker(settings)`."""
    started = []

    def start(settings=None, **options):
        started.append(brokers.start_broker(settings, **options))
        return started[-1]

    yield start
    for one in started:
        one.remove()


@pytest.fixture(scope="module")
def restartable():
    """A broker that the tests of one module stop and start; each leaves it running."""
    running = brokers.start_broker()
    yield running
    running.remove()
