"""Apache Kafka's command-line tools, as e2e/peer runs them."""

import subprocess

from raw.broker import CASES

TOOL = CASES.parent / "peer" / "kafka"
TIMEOUT_S = 120


def run(cluster, tool, *arguments, before=()):
    """Runs a tool against the cluster's brokers; the finished process."""
    bootstrap = ",".join(f"{node.host.name or node.host.address}:{node.port}" for node in cluster.living())
    command = [*before, "bash", str(TOOL), tool, "--bootstrap-server", bootstrap, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)


def kafka(cluster, tool, *arguments, before=()):
    """What a tool prints that succeeds."""
    done = run(cluster, tool, *arguments, before=before)
    assert done.returncode == 0, f"{done.args}: {done.stdout}\n{done.stderr[-3000:]}"
    return done.stdout
