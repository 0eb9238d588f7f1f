"""What only the cluster of rig/ can do: cut a node's power, halt a process in a pod."""

import contextlib
import os
import pathlib
import signal
import subprocess

import pytest

RIG = pathlib.Path(__file__).resolve().parent.parent / "rig"


def process_of(is_it):
    """The one process whose arguments are such, as this machine numbers it."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if is_it(arguments):
            found.append(int(path.parent.name))
    assert len(found) == 1, f"processes: {found}"
    return found[0]


class Rig:
    def nodes(self, *arguments):
        done = subprocess.run([RIG / "nodes", *arguments], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def stop(self, node):
        """As if its power failed."""
        self.nodes("stop", node)

    def start(self, node):
        self.nodes("start", node)

    def pid(self, broker):
        """The process of a broker, as this machine numbers it."""
        own = f"{broker.address[0]}:{broker.address[1]}".encode()
        return process_of(lambda arguments: own in arguments and b"broker" in arguments and arguments[0].endswith(b"taffrail"))

    @contextlib.contextmanager
    def silent_api(self):
        """The API server keeps its connections and answers nobody."""
        pid = process_of(lambda arguments: arguments[0].endswith(b"/kubernetes") and arguments[1:2] == [b"apiserver"])
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def halt(self, broker):
        """It keeps its sockets and says nothing."""
        os.kill(self.pid(broker), signal.SIGSTOP)

    def go_on(self, broker):
        os.kill(self.pid(broker), signal.SIGCONT)


@pytest.fixture
def rig():
    if os.environ.get("TAFFRAIL_RIG") != "1":
        pytest.skip("only on the cluster of e2e/kubernetes/rig")
    return Rig()
