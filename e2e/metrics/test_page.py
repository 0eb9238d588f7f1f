"""The commands of docs/grafana.md, taken from the page and run: only ports are others, as tests share a machine."""

import os
import re
import subprocess

import pytest
from raw.broker import free_ports
from raw.process import ROOT, binary
from raw.wait import eventually
from watched import START_TIMEOUT_S, get

PAGE = (ROOT / "docs" / "grafana.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def block_with(language, text):
    (found,) = [block for block in blocks(language) if text in block]
    return found


@pytest.fixture
def place(tmp_path):
    """A folder that is like the root of the repository, with `taffrail` in PATH and ports of its own."""
    (tmp_path / "charts").symlink_to(ROOT / "charts")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "taffrail").symlink_to(binary())
    listen, metrics, web = free_ports(3)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "TAFFRAIL_LISTEN": f"127.0.0.1:{listen}",
        "TAFFRAIL_METRICS": f"127.0.0.1:{metrics}",
        "TAFFRAIL_CONSOLE": "off",
        "TAFFRAIL_CONTEXTS": str(tmp_path / "contexts.yaml"),
    }
    return tmp_path, environment, {"127.0.0.1:9404": f"127.0.0.1:{metrics}", "127.0.0.1:9090": f"127.0.0.1:{web}"}


def with_ports(text, ports):
    for told, own in ports.items():
        text = text.replace(told, own)
    return text


def test_a_prometheus_of_ones_own_watches_a_cluster_by_the_pages_commands(place):
    folder, environment, ports = place
    (folder / "prometheus.yml").write_text(with_ports(block_with("yaml", "scrape_configs"), ports).replace("15s", "1s"))
    script = with_ports(block_with("sh", "prometheus --config.file"), ports)
    # A group of its own, so that all that they start can be ended.
    running = subprocess.Popen(["bash", "-e", "-c", script], cwd=folder, env=environment, start_new_session=True)
    web = ports["127.0.0.1:9090"]

    def answers(path, text):
        assert running.poll() is None, "the commands have ended"
        try:
            return text in get(f"http://{web}{path}")
        except OSError:
            return False

    try:
        eventually(lambda: answers("/api/v1/rules", "TaffrailPartitionsUnderMinIsr"), timeout_s=START_TIMEOUT_S, what="alerts are loaded")
        client = ["taffrail", "topic", "create", "orders", "-b", environment["TAFFRAIL_LISTEN"]]
        subprocess.run(client, env=environment, check=True, timeout=START_TIMEOUT_S, stdout=subprocess.DEVNULL)
        client = ["taffrail", "topic", "consume", "orders", "-g", "readers", "-e", "-b", environment["TAFFRAIL_LISTEN"]]
        subprocess.run(client, env=environment, check=True, timeout=START_TIMEOUT_S)
        query = re.search(r"`(kafka_consumergroup_\w+)` the lag of groups", PAGE)[1]
        path = f"/api/v1/query?query={query}"
        eventually(lambda: answers(path, '"group":"readers"'), timeout_s=START_TIMEOUT_S, what="the lag of a group")
        for command in block_with("sh", "curl").splitlines():
            told = subprocess.run(["bash", "-c", with_ports(command, ports)], env=environment, capture_output=True, text=True, check=True)
            assert "kafka_topic_partitions" in told.stdout and "taffrail_" not in told.stdout, told.stdout[:2000]
    finally:
        os.killpg(running.pid, 15)
        running.wait(START_TIMEOUT_S)


def test_the_dashboards_of_the_page_are_those_that_there_are():
    told = set(re.findall(r"`(taffrail-[a-z-]+)`", PAGE))
    assert told == {file.stem for file in (ROOT / "charts" / "taffrail" / "dashboards").glob("*.json")}
