"""What scenario.py and the adapters of the clients agree on."""

import os
import time
from dataclasses import dataclass, field
from typing import Protocol

EARLIEST, LATEST = -2, -1
PARTITIONS = 3
REPLICAS = int(os.environ.get("REPLICAS", "1"))
STEP_TIMEOUT_S = 15.0


@dataclass
class Record:
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    timestamp: int = 0


class Producer(Protocol):
    def send(self, topic: str, record: Record) -> None: ...
    def close(self) -> None: ...  # waits for every acknowledgement and raises if one failed


class Reader(Protocol):
    def poll(self, timeout_s: float) -> list[tuple[int, Record]]: ...  # (offset, record)
    def close(self) -> None: ...


class Member(Reader, Protocol):
    def assignment(self) -> set[int]: ...
    def commit(self) -> None: ...  # commits the positions after the records polled so far


class Client(Protocol):
    """What an adapter offers. `cannot` names the steps that the client has no way to do, with the reason."""

    cannot: dict[str, str]

    def __init__(self, bootstrap: str) -> None: ...
    def create_topic(self, topic: str, partitions: int) -> None: ...
    def delete_topic(self, topic: str) -> None: ...
    def topics(self) -> set[str]: ...
    def producer(self, acks: int, codec: str, idempotent: bool) -> Producer: ...
    def offsets(self, topic: str, at: int) -> dict[int, int]: ...  # at: EARLIEST, LATEST or a timestamp in ms
    def reader(self, topic: str, offsets: dict[int, int]) -> Reader: ...
    def member(self, group: str, topic: str, assignor: str) -> Member: ...
    def groups(self) -> set[str]: ...
    def describe_group(self, group: str) -> tuple[str, int]: ...  # state, number of members
    def delete_group(self, group: str) -> None: ...


def check(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def until(condition, what: str):
    """Calls `condition` until it returns something true, and returns that."""
    deadline = time.monotonic() + STEP_TIMEOUT_S
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {STEP_TIMEOUT_S:.0f} s")


def shorten(record: Record) -> str:
    value = "null" if record.value is None else f"{record.value[:24]} ({len(record.value)} bytes)"
    return f"{record.partition} key={record.key} value={value} headers={record.headers} ts={record.timestamp}"
