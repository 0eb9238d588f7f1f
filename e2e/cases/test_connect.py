"""Kafka Connect, distributed, on topics that were created beforehand: the second half of case A-02.

Connect reads its topics' settings when it starts, so it is a strict reader of DescribeConfigs: it goes on only where the policy is
compact, and says so and ends where it is delete.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import urllib.request

import pytest

from raw.broker import CASES, free_ports
from raw.client import unique
from raw.wait import eventually

START_TIMEOUT_S = 90
TOPICS = {"config": 1, "offset": 5, "status": 3}


class Worker:
    """A Connect worker as a process of its own, ended with all that it started."""

    def __init__(self, folder, bootstrap, topics):
        self.url = f"http://127.0.0.1:{free_ports(1)[0]}"
        self.log_file = folder / "connect.log"
        properties = folder / "connect.properties"
        properties.write_text(worker_properties(bootstrap, topics, self.url))
        peer = pathlib.Path(os.environ.get("PEER_HOME", str(CASES.parent / "peer")))
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                ["bash", str(peer / "kafka"), "connect-distributed", str(properties)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def answers(self):
        assert self.process.poll() is None, f"Connect has ended:\n{self.log_text()[-3000:]}"
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/connectors", timeout=5) as answer:
            return answer.status == 200
        return False

    def log_text(self):
        return self.log_file.read_text(errors="replace")

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


def worker_properties(bootstrap, topics, url):
    lines = {
        "bootstrap.servers": bootstrap,
        "group.id": unique("connect"),
        "listeners": url,
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        **{f"{kind}.storage.topic": topic for kind, topic in topics.items()},
        **{f"{kind}.storage.replication.factor": 1 for kind in topics},
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


@contextlib.contextmanager
def connect(client, folder, policy):
    """A worker whose three topics exist already, the one for its settings with `policy`."""
    topics = {kind: unique(f"connect-{kind}") for kind in TOPICS}
    for kind, name in topics.items():
        configs = {"cleanup.policy": policy if kind == "config" else "compact"}
        assert client.create(name, TOPICS[kind], configs=configs).error_code == 0
        client.wait_for_topic(name)
    worker = Worker(folder, client.broker.bootstrap, topics)
    try:
        yield worker
    finally:
        worker.end()


@pytest.mark.long
@pytest.mark.timeout(180)
def test_connect_starts_on_topics_that_are_compacted(coordinator, tmp_path):
    """A-02: the settings of topics that were created beforehand are what Connect wants."""
    with connect(coordinator, tmp_path, "compact") as worker:
        eventually(worker.answers, timeout_s=START_TIMEOUT_S, poll_s=0.5, what="Connect's REST interface")


@pytest.mark.long
@pytest.mark.timeout(180)
def test_connect_refuses_a_topic_that_is_not_compacted(coordinator, tmp_path):
    """A-02: with `delete` Connect ends, and says why."""
    with connect(coordinator, tmp_path, "delete") as worker:
        assert worker.process.wait(START_TIMEOUT_S) != 0
        assert "cleanup.policy" in worker.log_text()
