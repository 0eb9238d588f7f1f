"""Holds a history against the log: the anomalies that Jepsen's tests of Kafka know, and two of our own.

| kind | claim that does not hold |
|---|---|
| lost | an acknowledged record stands in the log, which goes on past its offset |
| unseen | an acknowledged record stands in the log, which ends before its offset |
| duplicate | a value of an idempotent writer stands at one offset |
| inconsistent | an offset has one value: for its writer, for every reader, and in the log |
| send-order | what one writer sends to a partition one after the other gets rising offsets |
| poll-order | a reader is given rising offsets |
| poll-skip | between two records that a reader is given one after the other there is none in the log |
| vanished | what a reader was given stands in the log (it was below the high watermark once) |
| phantom | what stands in the log was sent, and not refused |
"""

import bisect
import collections
import dataclasses

from .history import Outcome

# How many of one kind are told; all are counted.
TOLD_MAX = 5


@dataclasses.dataclass(frozen=True)
class Anomaly:
    kind: str
    partition: int
    text: str

    def __str__(self):
        return f"{self.kind}: partition {self.partition}: {self.text}"


def check(history):
    """Every anomaly of a history."""
    log = _Log(history.log)
    found = []
    found += _acknowledged(history, log)
    found += _duplicates(history, log)
    found += _inconsistent(history)
    found += _send_order(history)
    for reader in history.readers:
        for run in reader.runs:
            found += _polls(reader.name, run, log)
    found += _phantoms(history, log)
    return found


def tell(anomalies):
    """What a failed test says: how many of each kind, and the first of them."""
    by_kind = collections.defaultdict(list)
    for anomaly in anomalies:
        by_kind[anomaly.kind].append(anomaly)
    lines = []
    for kind, some in sorted(by_kind.items()):
        lines.append(f"{len(some)} x {kind}")
        lines += [f"  {anomaly}" for anomaly in some[:TOLD_MAX]]
    return "\n".join(lines)


class _Log:
    """The records of the log, by place."""

    def __init__(self, records):
        self.at = {}
        self.ends = collections.defaultdict(int)
        self.offsets = collections.defaultdict(list)
        for record in records:
            self.at[record.partition, record.offset] = record.value
            self.ends[record.partition] = max(self.ends[record.partition], record.offset + 1)
            self.offsets[record.partition].append(record.offset)
        for partition, offsets in self.offsets.items():
            offsets.sort()
            assert len(set(offsets)) == len(offsets), f"the log of partition {partition} was read twice"

    def between(self, partition, after, before):
        """The first offset of a record strictly between two others; None if there is none."""
        offsets = self.offsets[partition]
        at = bisect.bisect_right(offsets, after)
        return offsets[at] if at < len(offsets) and offsets[at] < before else None


def _sends(history):
    for writer in history.writers:
        for send in writer.sends:
            yield writer, send


def _acknowledged(history, log):
    for writer, send in _sends(history):
        if send.outcome is not Outcome.ACKNOWLEDGED or (send.partition, send.offset) in log.at:
            continue
        end = log.ends[send.partition]
        kind = "lost" if send.offset < end else "unseen"
        text = f"{writer.name} was told offset {send.offset} for {send.value!r}; the log ends at {end}"
        yield Anomaly(kind, send.partition, text)


def _duplicates(history, log):
    places = collections.defaultdict(set)
    for (partition, offset), value in log.at.items():
        places[partition, value].add(offset)
    for writer, send in _sends(history):
        offsets = places[send.partition, send.value]
        if writer.idempotent and len(offsets) > 1:
            copies = [seen for seen in history.log if seen.partition == send.partition and seen.offset in offsets]
            origins = "; ".join(f"{seen.offset}: {seen.origin}" for seen in copies)
            text = f"{send.value!r} of {writer.name} stands at {sorted(offsets)} ({origins})"
            yield Anomaly("duplicate", send.partition, text)


def _inconsistent(history):
    values = collections.defaultdict(lambda: collections.defaultdict(set))
    for writer, send in _sends(history):
        if send.outcome is Outcome.ACKNOWLEDGED:
            values[send.partition, send.offset][send.value].add(writer.name)
    for reader in history.readers:
        for run in reader.runs:
            for seen in run:
                values[seen.partition, seen.offset][seen.value].add(reader.name)
    for record in history.log:
        values[record.partition, record.offset][record.value].add("the log")
    for (partition, offset), claims in values.items():
        if len(claims) > 1:
            told = "; ".join(f"{value!r} says {', '.join(sorted(who))}" for value, who in sorted(claims.items()))
            yield Anomaly("inconsistent", partition, f"offset {offset}: {told}")


def _send_order(history):
    for writer in history.writers:
        last = {}
        for send in writer.sends:
            if send.outcome is not Outcome.ACKNOWLEDGED:
                continue
            before = last.get(send.partition)
            if before is not None and send.offset <= before.offset:
                text = f"{writer.name} sent {send.value!r} ({send.offset}) after {before.value!r} ({before.offset})"
                yield Anomaly("send-order", send.partition, text)
            last[send.partition] = send


def _polls(name, run, log):
    last = {}
    for seen in run:
        if (seen.partition, seen.offset) not in log.at:
            text = f"{name} was given {seen.value!r} at {seen.offset}; the log ends at {log.ends[seen.partition]}"
            yield Anomaly("vanished", seen.partition, text)
        before = last.get(seen.partition)
        if before is not None and seen.offset <= before:
            yield Anomaly("poll-order", seen.partition, f"{name} was given offset {seen.offset} after {before}")
        elif before is not None:
            skipped = log.between(seen.partition, before, seen.offset)
            if skipped is not None:
                text = f"{name} was given offset {seen.offset} after {before}, and {skipped} is in the log"
                yield Anomaly("poll-skip", seen.partition, text)
        last[seen.partition] = seen.offset


def _phantoms(history, log):
    sent = collections.defaultdict(set)
    for _, send in _sends(history):
        sent[send.partition, send.value].add(send.outcome)
    for (partition, offset), value in log.at.items():
        outcomes = sent.get((partition, value), set())
        if not outcomes - {Outcome.REFUSED}:
            why = "was refused" if outcomes else "was never sent"
            yield Anomaly("phantom", partition, f"{value!r} at {offset} {why}")
