"""Hosts with names: a hosts file of their own, which is all the name service there is. Addresses are of loopback."""

import os
import pathlib
import subprocess

import pytest

from .host import Host

# Binds the hosts file in a mount namespace of the process alone, and becomes the command.
IN_OWN_NAMESPACE = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"')


class Names:
    """Names and their addresses; whoever runs with `command` before it asks this file."""

    def __init__(self, folder):
        self.file = pathlib.Path(folder) / "hosts"
        self.addresses = {"localhost": "127.0.0.1"}
        self._write()
        self.command = (*IN_OWN_NAMESPACE, str(self.file))
        if os.geteuid() != 0 or subprocess.run([*self.command, "true"], capture_output=True).returncode:
            reason = "names of one's own need mount namespaces (root)"
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)

    def host(self, name, address):
        """A place under this name, which is at this address from now on."""
        self.addresses[name] = address
        self._write()
        return Host(address, name, self.command)

    def _write(self):
        # In place: those who run have this very file.
        self.file.write_text("".join(f"{address} {name}\n" for name, address in self.addresses.items()))
