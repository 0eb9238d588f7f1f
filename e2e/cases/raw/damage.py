"""What tests do to a stopped broker's files, and how they look whether what is served is sound."""

import pathlib

from . import errors
from .batch import read_batches


def segments(broker, topic, ending=".log", partition=0):
    return sorted(broker.partition_folder(topic, partition).glob(f"*{ending}"))


def spoil_tail(file, size, damage):
    """Takes that many bytes from the end ("cut"), or makes them zeros ("zeroed")."""
    whole = file.stat().st_size
    size = max(size, 2)  # a batch's very last byte, the count of its last record's headers, is 0 anyway
    with file.open("r+b") as handle:
        handle.truncate(whole - size)
        if damage == "zeroed":
            handle.truncate(whole)


def truncate_index(file):
    with file.open("r+b") as handle:
        handle.truncate(file.stat().st_size // 2)


def garble_index(file):
    file.write_bytes(b"\xff" * max(file.stat().st_size, 24))


INDEX_DAMAGE = {"deleted": pathlib.Path.unlink, "truncated": truncate_index, "garbled": garble_index}


def flip_byte(file, position):
    with file.open("r+b") as handle:
        handle.seek(position)
        byte = handle.read(1)[0]
        handle.seek(position)
        handle.write(bytes([byte ^ 0xFF]))


def fetch_or_error(client, topic, partition=0):
    """Reads the whole partition; its first error code, 0 if there is none. A batch with a wrong CRC is a failure."""
    offset = 0
    while True:
        answer = client.fetch(topic, offset, partition)
        if answer.error_code:
            return answer.error_code
        batches = read_batches(answer.records)
        if any(not b.crc_is_right for b in batches):
            raise RuntimeError(f"a damaged batch was served from {topic} at {offset}")
        if not batches:
            return errors.NONE
        offset = batches[-1].next_offset
