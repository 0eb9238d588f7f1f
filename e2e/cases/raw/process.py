"""A process of the binary under test: started, stopped, killed, halted and started again by its pid."""

import os
import pathlib
import signal
import subprocess

STOP_TIMEOUT_S = 60
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent


def binary():
    return os.environ.get("TAFFRAIL_BIN", str(ROOT / "target/release/taffrail"))


def environment(settings):
    """Ours without the variables of the tests, which the binary would refuse as unknown, and with the settings."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TAFFRAIL_")}
    return own | {"TAFFRAIL_" + name.upper().replace(".", "_"): as_text(value) for name, value in settings.items()}


def as_text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Process:
    """One process of the binary, with its own log file."""

    def __init__(self, log_file):
        self.log_file = log_file
        self.process = None

    def spawn(self, command, settings, folder):
        """Starts it; what it says goes to the end of its log file."""
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder, env=environment(settings)
            )

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def pid(self):
        return self.process.pid if self.process else None

    def stop(self):
        self.end(signal.SIGTERM)

    def kill(self):
        self.end(signal.SIGKILL)

    def end(self, how):
        if self.is_alive():
            self.process.send_signal(how)
            self.process.wait(STOP_TIMEOUT_S)

    def halt(self):
        """SIGSTOP: it keeps its sockets and says nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def log_text(self):
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
