"""What scenario.py and the adapters of the clients agree on."""

from dataclasses import dataclass, field
from typing import Protocol

EARLIEST, LATEST = -2, -1
PARTITIONS = 3


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
