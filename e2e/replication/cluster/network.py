"""A network whose wires can be cut: a namespace for each node, joined by a bridge in one of its own. Nothing of it is reachable
from outside.

A wire is cut by telling its end a wrong hardware address of the other end: what is sent goes nowhere, in silence, as with a
broken cable or a firewall that drops; connections stay open, and nobody is told. Each direction is cut by itself.
"""

import contextlib
import ctypes
import itertools
import os
import pathlib
import subprocess

import pytest

from .host import Host

CLONE_NEWNET = 0x40000000
NOWHERE = "02:00:00:00:00:00"
# Of the last number of a host's address; the bridge, where tests and their clients are, has the one after it.
HOSTS_MAX = 200
RUN = pathlib.Path("/run/netns")

_libc = ctypes.CDLL(None, use_errno=True)
_networks = itertools.count(1)


class Network:
    """Hosts at `10.0.0.1`, `10.0.0.2` and so on, each in a namespace, and the bridge, where a test goes by `inside()`. Whoever
    has a wire is named by its address."""

    def __init__(self):
        self.name = f"taffrail-{os.getpid()}-{next(_networks)}"
        self.hosts = []
        self.cuts = set()
        self.bridge_address = f"10.0.0.{HOSTS_MAX + 1}"
        if os.geteuid() != 0 or _ip("netns", "add", self.name, check=False):
            self._cannot_be_made()
        self._in(
            self.name,
            "link set lo up",
            "link add bridge type bridge forward_delay 0",
            f"address add {self.bridge_address}/24 dev bridge",
            "link set bridge up",
        )

    def _cannot_be_made(self):
        """A laptop without root goes without these tests; where all must run, they fail."""
        reason = "a network that can be cut needs network namespaces (root)"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)

    def add_host(self):
        """One more host."""
        number = len(self.hosts) + 1
        assert number <= HOSTS_MAX, f"{number} hosts"
        address, own = f"10.0.0.{number}", f"{self.name}-{number}"
        _ip("netns", "add", own)
        self._in(self.name, f"link add wire{number} type veth peer name wire netns {own}", f"link set wire{number} up master bridge")
        self._in(
            own,
            "link set lo up",
            f"link set wire address {_hardware(number)}",
            f"address add {address}/24 dev wire",
            "link set wire up",
        )
        self.hosts.append(address)
        return Host(address, command=("nsenter", f"--net={RUN / own}"))

    @contextlib.contextmanager
    def inside(self):
        """This thread, and the threads and processes that it starts, are at the bridge meanwhile."""
        with open("/proc/thread-self/ns/net") as before, open(RUN / self.name) as bridge:
            _enter(bridge)
            try:
                yield
            finally:
                _enter(before)

    # Cutting

    def cut_between(self, some, others):
        """Nothing passes between any of `some` and any of `others`."""
        self.cut_all(both_ways(some, others))

    def others(self, address):
        """Whoever has a wire, clients among them, but this one."""
        return [other for other in [*self.hosts, self.bridge_address] if other != address]

    def cut_all(self, pairs):
        """Nothing that a sender sends reaches its receiver any more, for each pair of the two; the other way stays."""
        self._tell_addresses(pairs, lambda _: NOWHERE)
        self.cuts |= set(pairs)

    def heal(self, pairs=None):
        """All that was cut passes again; or just these pairs."""
        pairs = self.cuts & set(pairs) if pairs is not None else set(self.cuts)
        self._tell_addresses(pairs, self._hardware_of)
        self.cuts -= pairs

    def _tell_addresses(self, pairs, hardware):
        told = {}
        for sender, receiver in pairs:
            wire = "bridge" if sender == self.bridge_address else "wire"
            line = f"neighbour replace {receiver} lladdr {hardware(receiver)} nud permanent dev {wire}"
            told.setdefault(self._namespace(sender), []).append(line)
        for namespace, lines in told.items():
            self._in(namespace, *lines)

    def _hardware_of(self, address):
        if address != self.bridge_address:
            return _hardware(int(address.rsplit(".", 1)[1]))
        with self.inside():
            shown = subprocess.run(["ip", "-brief", "link", "show", "bridge"], check=True, capture_output=True, text=True)
        return shown.stdout.split()[2]

    # Namespaces

    def _namespace(self, address):
        return self.name if address == self.bridge_address else f"{self.name}-{self.hosts.index(address) + 1}"

    def _in(self, namespace, *lines):
        subprocess.run(["ip", "-netns", namespace, "-batch", "-"], input="\n".join(lines), check=True, text=True)

    def remove(self):
        for address in self.hosts:
            _ip("netns", "delete", self._namespace(address))
        _ip("netns", "delete", self.name)


def both_ways(some, others):
    """Every pair of one of `some` and one of `others`, as sender and receiver and the other way round."""
    return [pair for one in some for other in others for pair in ((one, other), (other, one))]


def _hardware(number):
    return f"02:54:00:00:00:{number:02x}"


def _ip(*arguments, check=True):
    return subprocess.run(["ip", *arguments], check=check, capture_output=not check).returncode


def _enter(namespace):
    if _libc.setns(namespace.fileno(), CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"cannot enter {namespace.name}")
