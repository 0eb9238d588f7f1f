"""What happened: every send with what became of it, every record that a reader was given, in order."""

import collections
import dataclasses
import enum


class Outcome(enum.Enum):
    """What a producer knows of a send."""

    ACKNOWLEDGED = "acknowledged"
    # The broker said that it is not there, and nothing was sent again.
    REFUSED = "refused"
    # Nobody knows: the answer was lost, or the test ended first.
    UNKNOWN = "unknown"


@dataclasses.dataclass(slots=True)
class Send:
    """One record, in the order in which its writer sent it."""

    partition: int
    value: bytes
    outcome: Outcome = Outcome.UNKNOWN
    offset: int | None = None

    def acknowledge(self, offset):
        self.outcome, self.offset = Outcome.ACKNOWLEDGED, offset


@dataclasses.dataclass(slots=True, frozen=True)
class Seen:
    """One record as a reader was given it. `origin`: what its batch says of where it comes from, for a failure."""

    partition: int
    offset: int
    value: bytes
    origin: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(slots=True)
class Writer:
    """What one writer sent. `idempotent`: each of its values may stand in the log once at most."""

    name: str
    idempotent: bool = True
    sends: list[Send] = dataclasses.field(default_factory=list)
    acknowledged: int = 0

    def send(self, partition, value):
        """A send that begins now."""
        self.sends.append(Send(partition, value))
        return self.sends[-1]

    def acknowledge(self, send, offset):
        """The answer to one of its sends is there."""
        send.acknowledge(offset)
        self.acknowledged += 1


@dataclasses.dataclass(slots=True)
class Reader:
    """What one reader was given. A seek, or another assignment, begins a new run."""

    name: str
    runs: list[list[Seen]] = dataclasses.field(default_factory=lambda: [[]])

    def saw(self, partition, offset, value):
        self.runs[-1].append(Seen(partition, offset, value))

    def seek(self):
        self.runs.append([])


@dataclasses.dataclass(slots=True)
class History:
    """All of it. `log` is what stood in the partitions when everything had come to rest."""

    writers: list[Writer] = dataclasses.field(default_factory=list)
    readers: list[Reader] = dataclasses.field(default_factory=list)
    log: list[Seen] = dataclasses.field(default_factory=list)

    def writer(self, name, **options):
        self.writers.append(Writer(name, **options))
        return self.writers[-1]

    def reader(self, name):
        self.readers.append(Reader(name))
        return self.readers[-1]

    def count(self):
        """How many sends there were of each outcome."""
        return collections.Counter(send.outcome.value for writer in self.writers for send in writer.sends)
