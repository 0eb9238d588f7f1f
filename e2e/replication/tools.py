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


def directories(cluster):
    """controller number -> its directory id, and what it is in the quorum, as the tool prints them."""
    printed = kafka(cluster, "kafka-metadata-quorum", "describe", "--replication")
    lines = [line.split() for line in printed.splitlines()[1:]]
    return {int(line[0]): (line[1], line[-1]) for line in lines if int(line[0]) > 100}


def remove_voter(cluster, node):
    """Has the tool take a controller's vote away."""
    directory, _ = directories(cluster)[node.number]
    kafka(cluster, "kafka-metadata-quorum", "remove-controller", "--controller-id", node.number, "--controller-directory-id", directory)


def add_voter(cluster, node, directory, folder):
    """Has the tool give a controller that follows a vote; it learns who that is from settings and a disk as a node of Kafka has
    them, which are made in `folder`."""
    disk = folder / f"disk-{node.number}"
    disk.mkdir()
    identity = {"version": 1, "cluster.id": cluster.cluster_id, "node.id": node.number, "directory.id": directory}
    settings = {
        "process.roles": "controller",
        "node.id": node.number,
        "log.dirs": disk,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://{node.server}",
        "advertised.listeners": f"CONTROLLER://{node.server}",
        "controller.quorum.bootstrap.servers": node.server,
    }
    file = folder / f"controller-{node.number}.properties"
    for path, properties in ((disk / "meta.properties", identity), (file, settings)):
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    kafka(cluster, "kafka-metadata-quorum", "--command-config", file, "add-controller")
