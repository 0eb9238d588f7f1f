"""The broker under test as a process: started, stopped, killed and started again by its pid, on loopback, in a folder of its own.

`BROKER=taffrail` (the default) starts the binary that `TAFFRAIL_BIN` names; `BROKER=kafka` starts Apache Kafka 4.4 through the
scripts in `PEER_HOME` (default: e2e/peer), the oracle that every test here is first run against.
"""

import contextlib
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile

from .connection import Connection, ConnectionClosed
from .process import Process, binary
from .wait import eventually

CASES = pathlib.Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 60
# Below those that Linux gives to connections, and those of Kubernetes's services.
PORTS = range(10_000, 28_000)
# Short enough that no test waits for a default; each means the same to both brokers.
COMMON_SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "offsets.topic.num.partitions": 4,
    "offsets.retention.check.interval.ms": 500,
    "log.retention.check.interval.ms": 300,
    "producer.id.expiration.check.interval.ms": 200,
}


def is_kafka():
    return os.environ.get("BROKER", "taffrail") == "kafka"


def start_broker(settings=None, **options):
    """A running broker of the kind that `BROKER` names, with `settings` beside the common ones."""
    kind = KafkaBroker if is_kafka() else TaffrailBroker
    broker = kind({**COMMON_SETTINGS, **(settings or {})}, **options)
    try:
        broker.start()
    except BaseException:
        broker.remove()
        raise
    return broker


def free_ports(count):
    """Ports that nothing listens at now, all different, and none of those that the system gives to connections: one of them
    could be taken by another test's client before a broker listens there."""
    ports = []
    with contextlib.ExitStack() as held:
        while len(ports) < count:
            one = held.enter_context(socket.socket())
            try:
                one.bind(("127.0.0.1", random.choice(PORTS)))
            except OSError:
                continue
            ports.append(one.getsockname()[1])
    return ports


class Broker:
    """What the tests may ask of a broker of either kind."""

    def __init__(self, settings, folder=None):
        self.settings = settings
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="taffrail-cases-"))
        self.port, self.metrics_port = free_ports(2)
        self.address = ("127.0.0.1", self.port)
        self.bootstrap = f"127.0.0.1:{self.port}"

    def connect(self, **options):
        return Connection(self.address, **options)

    def wait_until_ready(self):
        """Until the broker answers and knows itself; a broker that has ended is reported at once."""

        def answers():
            if not self.is_alive():
                raise RuntimeError(f"the broker has ended; its log says:\n{self.log_text()[-3000:]}")
            try:
                with self.connect() as connection:
                    return connection.call("Metadata", 12, topics=[]).brokers
            except (OSError, ConnectionClosed):
                return False

        eventually(answers, timeout_s=START_TIMEOUT_S, what="a broker that answers")

    def is_alive(self):
        pid = self.pid()
        return pid is not None and pathlib.Path(f"/proc/{pid}").exists()

    def restart(self):
        self.stop()
        self.start_again()

    def crash(self):
        self.kill()
        self.start_again()

    def rss_bytes(self):
        return self._status_kib("VmRSS") * 1024

    def _status_kib(self, name):
        for line in pathlib.Path(f"/proc/{self.pid()}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise AssertionError(f"no {name} for pid {self.pid()}")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid()}/fd"))

    def partition_folder(self, topic, partition=0):
        """The folder of a partition's files, which both brokers name alike."""
        found = [p for p in self.data_folder.glob(f"**/{topic}-{partition}") if p.is_dir()]
        assert len(found) == 1, f"folders of {topic}-{partition}: {found}"
        return found[0]

    def partition_folders(self):
        return {p.parent.name for p in self.data_folder.glob("**/*.log")}


class TaffrailBroker(Process, Broker):
    """`taffrail up` with a small Cluster; the settings come from the environment, which beats it."""

    def __init__(self, settings, open_file_limit=None, **options):
        Broker.__init__(self, settings, **options)
        Process.__init__(self, self.folder / "broker.log")
        self.data_folder = self.folder / "data"
        self.cluster_file = self.folder / "cluster.yaml"
        self.open_file_limit = open_file_limit

    def start(self):
        self.write_cluster()
        self.start_again()

    def write_cluster(self):
        lines = ["apiVersion: taffrail.dev/v1alpha1", "kind: Cluster", "metadata:", "  name: cases", "spec: {}"]
        self.cluster_file.write_text("\n".join(lines) + "\n")

    def start_again(self):
        command = [binary(), "up", "-f", str(self.cluster_file), "--data-dir", str(self.data_folder)]
        command += ["--listen", self.bootstrap, "--metrics", f"127.0.0.1:{self.metrics_port}"]
        if self.open_file_limit:
            command = ["prlimit", f"--nofile={self.open_file_limit}", *command]
        self.spawn(command, self.settings, self.folder)
        self.wait_until_ready()

    def remove(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class KafkaBroker(Broker):
    """One combined node by the scripts of e2e/peer."""

    # Kafka waits 30 s before the first look at retention.
    EXTRA_SETTINGS = {"log.initial.task.delay.ms": 100}

    def __init__(self, settings, open_file_limit=None, **options):
        super().__init__({**self.EXTRA_SETTINGS, **settings}, **options)
        self.peer = pathlib.Path(os.environ.get("PEER_HOME", str(CASES.parent / "peer")))
        self.state = self.folder / "state"
        self.data_folder = self.state / "node-1" / "data"
        # The scripts put the controller 100 ports above the broker.
        self.port = eventually(_port_with_room_above, what="two free ports 100 apart")
        self.address = ("127.0.0.1", self.port)
        self.bootstrap = f"127.0.0.1:{self.port}"

    def _run(self, script, *arguments):
        environment = {**os.environ, "PEER_STATE": str(self.state)}
        command = ["bash", str(self.peer / script), *arguments]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=300).stdout

    def start(self):
        properties = [part for name, value in self.settings.items() for part in ("--prop", f"{name}={value}")]
        self._run("up", "--port", str(self.port), *properties)

    def start_again(self):
        environment = {**os.environ, "PEER_STATE": str(self.state)}
        subprocess.run(
            ["bash", str(self.peer / "node"), "start", "1"],
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=START_TIMEOUT_S,
        )
        self.wait_until_ready()

    def pid(self):
        file = self.state / "node-1" / "pid"
        return int(file.read_text()) if file.exists() else None

    def stop(self):
        self._run("node", "stop", "1")

    def kill(self):
        self._run("node", "kill", "1")

    def log_text(self):
        file = self.state / "node-1" / "server.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def remove(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            self._run("down", "--purge")
        shutil.rmtree(self.folder, ignore_errors=True)


def _port_with_room_above():
    port = free_ports(1)[0]
    if port > 65_000:
        return None
    with socket.socket() as above:
        try:
            above.bind(("127.0.0.1", port + 100))
        except OSError:
            return None
    return port
