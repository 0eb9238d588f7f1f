"""One controller or broker as a process of its own, in a folder of its own."""

import shutil
import urllib.request

from raw.connection import Connection, ConnectionClosed
from raw.process import Process, binary
from raw.wait import eventually

START_TIMEOUT_S = 60
HEALTH_TIMEOUT_S = 2


class Node(Process):
    """What controllers and brokers have in common."""

    def __init__(self, role, number, settings, folder, port, metrics_port):
        self.role, self.number, self.settings = role, number, settings
        self.folder = folder / f"{role}-{number}"
        self.folder.mkdir(parents=True, exist_ok=True)
        super().__init__(self.folder / "log")
        self.data_folder = self.folder / "data"
        self.port, self.metrics_port = port, metrics_port
        self.address = ("127.0.0.1", port)
        self.server = f"127.0.0.1:{port}"

    def __repr__(self):
        return f"{self.role} {self.number}"

    def launch(self, controllers, *more):
        """Starts the process and waits for nothing."""
        command = [binary(), self.role, "--node-id", str(self.number), "--controllers", ",".join(controllers)]
        command += ["--listen", self.server, "--metrics", f"127.0.0.1:{self.metrics_port}"]
        self.spawn([*command, "--data-dir", str(self.data_folder), *more], self.settings, self.folder)

    def is_ready(self):
        """What /readyz says; a process that has ended is reported at once."""
        if not self.is_alive():
            raise RuntimeError(f"{self} has ended; its log says:\n{self.log_text()[-3000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/readyz", timeout=HEALTH_TIMEOUT_S) as answer:
                return answer.status == 200
        except OSError:
            return False

    def wait_until_ready(self):
        eventually(self.is_ready, timeout_s=START_TIMEOUT_S, what=f"{self} that is ready")

    def connect(self, **options):
        return Connection(self.address, **options)

    def wipe(self):
        """Its disk is replaced by an empty one; only while it is down."""
        assert not self.is_alive(), f"{self} runs"
        shutil.rmtree(self.data_folder)


class ControllerNode(Node):
    """`taffrail controller`."""

    def __init__(self, *args):
        super().__init__("controller", *args)


class BrokerNode(Node):
    """`taffrail broker`."""

    def __init__(self, *args, rack=None):
        super().__init__("broker", *args)
        self.rack = rack
        self.bootstrap = self.server

    def launch(self, controllers, *more):
        rack = ["--rack", self.rack] if self.rack else []
        super().launch(controllers, *rack, *more)

    @property
    def logs(self):
        return self.data_folder / "logs"

    def answers(self, api, version, **fields):
        """The answer of this very broker, or None while it gives none."""
        try:
            with self.connect() as connection:
                return connection.call(api, version, **fields)
        except (OSError, ConnectionClosed):
            return None
