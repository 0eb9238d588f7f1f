"""A cluster in one process, clients that work on it, and the real Prometheus that watches it."""

import json
import pathlib
import shutil
import subprocess
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from raw.broker import free_ports
from raw.process import ROOT, Process, binary
from raw.wait import eventually

START_TIMEOUT_S = 60
CHART = ROOT / "charts" / "taffrail"
# What the chart's PodMonitor would add.
LABELS = {"namespace": "test", "app_kubernetes_io_instance": "watched", "app_kubernetes_io_component": "broker"}
SCRAPE_INTERVAL = "1s"
TOPIC = "orders"


def get(url, timeout_s=30):
    with urllib.request.urlopen(url, timeout=timeout_s) as response:
        return response.read().decode()


class UpCluster:
    """`taffrail up` with three brokers and three controllers."""

    def __init__(self, settings=None, brokers=3):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="taffrail-metrics-"))
        self.settings = {"group.initial.rebalance.delay.ms": 0, **(settings or {})}
        self.brokers = brokers
        # Brokers take ports one after another.
        self.port, self.metrics_port = free_ports(2)
        self.process = Process(self.folder / "log")

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.port}"

    @property
    def metrics_address(self):
        return f"127.0.0.1:{self.metrics_port}"

    def start(self):
        command = [binary(), "up", "--brokers", str(self.brokers), "--controllers", str(self.brokers)]
        command += ["--data-dir", str(self.folder / "data"), "--listen", self.bootstrap, "--metrics", self.metrics_address]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        self.process.spawn(command, {}, self.folder)
        eventually(self.is_ready, timeout_s=START_TIMEOUT_S, what="a cluster that is ready")

    def is_ready(self):
        if not self.process.is_alive():
            raise RuntimeError(f"it has ended; its log says:\n{self.process.log_text()[-3000:]}")
        try:
            return get(f"http://{self.metrics_address}/readyz").startswith("ready")
        except (OSError, urllib.error.URLError):
            return False

    def metrics(self, path="/metrics"):
        return get(f"http://{self.metrics_address}{path}")

    def series(self, name, **labels):
        """The values of a metric's series that have these labels, with all their labels."""
        found = []
        for line in self.metrics().splitlines():
            if line.startswith((name + "{", name + " ")):
                head, value = line.rsplit(" ", 1)
                if all(f'{label}="{wanted}"' in head for label, wanted in labels.items()):
                    found.append((head, float(value)))
        return found

    def value(self, name, **labels):
        """The sum of these series; None without any."""
        found = self.series(name, **labels)
        return sum(value for _, value in found) if found else None

    def admin(self):
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def create_topic(self, name, partitions=1, config=None):
        new = NewTopic(name, partitions, replication_factor=self.brokers, config=config or {})
        # Kept until the answer has come: with the client goes what it waits for.
        admin = self.admin()
        admin.create_topics([new])[name].result(30)

    def produce(self, topic, count, partition=0, size=20):
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
        failed = []
        for _ in range(count):
            producer.produce(topic, b"x" * size, partition=partition, on_delivery=lambda error, _: error and failed.append(error))
        assert producer.flush(30) == 0 and not failed, failed

    def consumer(self, group, **settings):
        return Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, **settings}
        )

    def remove(self):
        self.process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Load:
    """Clients that write all the time, a group that keeps up, and one that does not."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.ends = threading.Event()
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self.write, self.keep_up, self.fall_behind)]

    def start(self):
        self.cluster.create_topic(TOPIC, 6)
        for thread in self.threads:
            thread.start()

    def write(self):
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "linger.ms": 5})
        number = 0
        while not self.ends.wait(0.02):
            for _ in range(20):
                number += 1
                producer.produce(TOPIC, b"v" * 100, key=str(number).encode())
            producer.poll(0)
        producer.flush(10)

    def keep_up(self):
        consumer = self.cluster.consumer("workers")
        consumer.subscribe([TOPIC])
        while not self.ends.is_set():
            if consumer.consume(500, timeout=0.2):
                consumer.commit(asynchronous=False)
        consumer.close()

    def fall_behind(self):
        consumer = self.cluster.consumer('slow "quoted"\\')
        consumer.subscribe([TOPIC])
        while not self.ends.wait(1):
            if consumer.consume(5, timeout=5):
                consumer.commit(asynchronous=False)
        consumer.close()

    def stop(self):
        self.ends.set()
        for thread in self.threads:
            thread.join(30)


class Prometheus:
    """Debian's Prometheus with our alerts, which scrapes one cluster each second."""

    def __init__(self, target, folder):
        self.folder = folder
        (self.port,) = free_ports(1)
        config = {
            "global": {"scrape_interval": SCRAPE_INTERVAL, "evaluation_interval": SCRAPE_INTERVAL},
            "rule_files": [str(CHART / "alerts" / "*.yaml")],
            "scrape_configs": [{"job_name": "taffrail", "static_configs": [{"targets": [target], "labels": LABELS}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))
        self.process = None

    def start(self):
        command = ["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/tsdb"]
        with (self.folder / "prometheus.log").open("ab") as log:
            command.append(f"--web.listen-address=127.0.0.1:{self.port}")
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        eventually(self.is_ready, timeout_s=START_TIMEOUT_S, what="a Prometheus that is ready")

    def is_ready(self):
        assert self.process.poll() is None, (self.folder / "prometheus.log").read_text()[-2000:]
        try:
            return get(f"http://127.0.0.1:{self.port}/-/ready")
        except (OSError, urllib.error.URLError):
            return False

    def ask(self, path, **parameters):
        query = urllib.parse.urlencode(parameters, doseq=True)
        try:
            answer = get(f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {parameters}: {error.read().decode()}") from error
        return json.loads(answer)["data"]

    def query(self, expression):
        return self.ask("query", query=expression)["result"]

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(30)
