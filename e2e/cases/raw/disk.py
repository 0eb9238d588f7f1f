"""A volume that can be full."""

import contextlib
import errno
import os
import subprocess

import pytest

BLOCK_BYTES = 1 << 16
SMALL_VOLUME_BYTES = 1 << 30
# The file that takes all the room.
FILLER = "filler"


@contextlib.contextmanager
def small_volume(folder, megabytes):
    """A file system of that size at `folder`, and a way to grow it; the test is skipped where none can be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    how = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "taffrail-cases", str(folder)]
    if subprocess.run(how, capture_output=True).returncode:
        pytest.skip("a full disk needs the right to mount a small file system (root)")
    try:
        yield lambda size: subprocess.run(["mount", "-o", f"remount,size={size}m", str(folder)], check=True)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_volume(folder):
    """Writes a file until nothing more fits, to the last byte; returns its path. Only for a volume that is there to be filled."""
    volume = os.statvfs(folder)
    assert volume.f_blocks * volume.f_frsize <= SMALL_VOLUME_BYTES, f"{folder} is on a large volume"
    path = folder / FILLER
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for size in (BLOCK_BYTES, 1):
            with contextlib.suppress(_Full):
                while True:
                    _write(descriptor, b"\0" * size)
    finally:
        os.close(descriptor)
    return path


class _Full(Exception):
    """There is no room."""


def _write(descriptor, block):
    try:
        os.write(descriptor, block)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _Full from error
        raise
