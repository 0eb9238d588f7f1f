"""One controller or broker as a process of its own, in a folder of its own."""

import shutil
import urllib.request

from raw.process import Process, binary
from raw.wait import eventually

from .asked import Answering
from .host import LOOPBACK

START_TIMEOUT_S = 60
HEALTH_TIMEOUT_S = 2


class Node(Answering, Process):
    """What controllers and brokers have in common."""

    def __init__(self, role, number, settings, folder, port, metrics_port, host=LOOPBACK):
        self.role, self.number, self.settings = role, number, settings
        self.folder = folder / f"{role}-{number}"
        self.folder.mkdir(parents=True, exist_ok=True)
        super().__init__(self.folder / "log")
        self.data_folder = self.folder / "data"
        self.port, self.metrics_port, self.host = port, metrics_port, host
        self.server = f"{host.name or host.address}:{port}"
        # Another binary than the one under test, for this node alone.
        self.binary = None

    def __repr__(self):
        return f"{self.role} {self.number}"

    @property
    def address(self):
        return self.host.address, self.port

    def launch(self, controllers, *more):
        """Starts the process and waits for nothing."""
        command = [*self.host.command, self.binary or binary(), self.role, "--node-id", str(self.number)]
        command += ["--controllers", ",".join(controllers), "--listen", f"{self.host.address}:{self.port}"]
        command += ["--advertise", self.server] if self.host.name else []
        command += ["--metrics", f"{self.host.address}:{self.metrics_port}"]
        self.spawn([*command, "--data-dir", str(self.data_folder), *more], self.settings, self.folder)

    def is_ready(self):
        """What /readyz says; a process that has ended is reported at once."""
        if not self.is_alive():
            raise RuntimeError(f"{self} has ended; its log says:\n{self.log_text()[-3000:]}")
        try:
            with urllib.request.urlopen(f"http://{self.host.address}:{self.metrics_port}/readyz", timeout=HEALTH_TIMEOUT_S) as answer:
                return answer.status == 200
        except OSError:
            return False

    def wait_until_ready(self):
        eventually(self.is_ready, timeout_s=START_TIMEOUT_S, what=f"{self} that is ready")

    def wipe(self):
        """Its disk is replaced by an empty one; only while it is down."""
        assert not self.is_alive(), f"{self} runs"
        for path in self.data_folder.iterdir():
            # A volume of its own stays where it is.
            for inner in path.iterdir() if path.is_mount() else [path]:
                shutil.rmtree(inner) if inner.is_dir() else inner.unlink()


class ControllerNode(Node):
    """`taffrail controller`."""

    def __init__(self, *args, **options):
        super().__init__("controller", *args, **options)


class BrokerNode(Node):
    """`taffrail broker`."""

    def __init__(self, *args, rack=None, **options):
        super().__init__("broker", *args, **options)
        self.rack = rack
        self.bootstrap = self.server

    def launch(self, controllers, *more):
        rack = ["--rack", self.rack] if self.rack else []
        super().launch(controllers, *rack, *more)

    @property
    def logs(self):
        return self.data_folder / "logs"
