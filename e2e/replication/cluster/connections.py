"""Closes connections of running processes from outside: both ends see their end, as when a firewall or a proxy has had enough."""

import ctypes
import os
import pathlib
import socket
import struct

# The system call has no name in Python.
PIDFD_GETFD = 438
ESTABLISHED = "01"

_libc = ctypes.CDLL(None, use_errno=True)


def close_connections(pid, addresses):
    """Shuts down every TCP connection that the process has to one of these (host, port); how many there were."""
    inodes = _inodes(pid, addresses)
    closed = 0
    process = os.pidfd_open(pid)
    try:
        for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(link)
            except FileNotFoundError:
                continue
            if target.removeprefix("socket:[").removesuffix("]") not in inodes:
                continue
            copy = _libc.syscall(PIDFD_GETFD, process, int(link.name), 0)
            if copy >= 0:
                with socket.socket(fileno=copy) as connection:
                    closed += _shut_down(connection)
    finally:
        os.close(process)
    return closed


def _inodes(pid, addresses):
    """The sockets of the process's network that are connected to one of the addresses."""
    wanted = {_as_shown(host, port) for host, port in addresses}
    lines = pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    parts = [line.split() for line in lines]
    return {part[9] for part in parts if part[2] in wanted and part[3] == ESTABLISHED}


def _as_shown(host, port):
    """An address as the kernel prints it."""
    return f"{struct.unpack('=I', socket.inet_aton(host))[0]:08X}:{port:04X}"


def _shut_down(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return 0
    return 1
