"""The scenario of the client matrix, for Python clients: `scenario.py CLIENT BOOTSTRAP PREFIX`.

CLIENT names a module beside this file, `CLIENT_adapter`, with a class `Client` as model.py describes it; the steps are the same for every
client in every language (README.md one folder up). Prints one line a step; exits 0 only if none failed.
"""

import importlib
import os
import random
import sys
import time

from group import GroupRun, come_and_go, describe
from model import EARLIEST, LATEST, PARTITIONS, Client, Record, check, shorten, until


class Scenario:
    def __init__(self, client: Client, prefix: str) -> None:
        self.client = client
        self.topic = prefix
        self.groups: list[str] = []  # each has a topic of its own name
        # What the topic must hold, in order of offsets, for each partition.
        self.expected: list[list[Record]] = [[] for _ in range(PARTITIONS)]
        # Every record has a time of its own, so that a search by timestamp has one right answer.
        self.clock = int(time.time() * 1000) - 3_000_000
        self.failed = False

    def record(self, partition: int, key: bytes | None, value: bytes | None, headers=()) -> Record:
        self.clock += 1000
        return Record(partition, key, value, list(headers), self.clock)

    def produce(self, records: list[Record], acks: int = -1, codec: str = "none", idempotent: bool = False) -> None:
        """Sends, then reads back from the first new offset, so that a fault shows in the step that made it."""
        starts = {p: len(self.expected[p]) for p in {r.partition for r in records}}
        producer = self.client.producer(acks, codec, idempotent)
        for record in records:
            producer.send(self.topic, record)
        producer.close()
        for record in records:
            self.expected[record.partition].append(record)
        self.read_and_compare(starts)

    def read_and_compare(self, starts: dict[int, int]) -> None:
        """Reads from `starts` to the expected end of those partitions; offsets must be dense, every byte equal."""
        position = dict(starts)
        reader = self.client.reader(self.topic, starts)

        def advance() -> bool:
            for offset, got in reader.poll(0.2):
                check(offset == position[got.partition], f"partition {got.partition}: offset {offset}, not {position[got.partition]}")
                check(offset < len(self.expected[got.partition]), f"more than was produced: {shorten(got)}")
                want = self.expected[got.partition][offset]
                check(got == want, f"at offset {offset}: got {shorten(got)}, produced {shorten(want)}")
                position[got.partition] += 1
            return all(position[p] == len(self.expected[p]) for p in position)

        until(advance, "reading back")
        reader.close()

    # The steps, in order.

    def create_topic(self) -> None:
        self.client.create_topic(self.topic, PARTITIONS)
        until(lambda: self.topic in self.client.topics(), "the created topic is listed")

    def produce_acks(self, acks: int) -> None:
        self.produce([self.record(i % PARTITIONS, b"key-%d" % i, b"acks %d value %d" % (acks, i)) for i in range(30)], acks=acks)

    def codec(self, codec: str) -> None:
        self.produce([self.record(1, b"k%d" % i, (b"%s %d " % (codec.encode(), i)) * 50) for i in range(200)], codec=codec)

    def headers(self) -> None:
        self.produce(
            [
                self.record(0, b"one", b"v", [("a", b"1")]),
                self.record(0, b"several", b"v", [("empty", b""), ("bytes", bytes(range(256)))]),
            ]
        )

    def header_null(self) -> None:
        self.produce([self.record(0, b"null header", b"v", [("null", None), ("empty", b"")])])

    def header_same_key(self) -> None:
        self.produce([self.record(0, b"same key", b"v", [("x", b"first"), ("x", b"second"), ("x", b"first")])])

    def nulls(self) -> None:
        self.produce(
            [
                self.record(2, None, b"null key"),
                self.record(2, b"null value", None),
                self.record(2, b"empty value", b""),
                self.record(2, b"", b"empty key"),
            ]
        )

    def null_record(self) -> None:
        self.produce([self.record(2, None, None)])

    def large(self) -> None:
        noise = random.Random(7)
        self.produce([self.record(i, b"large", noise.randbytes(900 * 1024)) for i in range(PARTITIONS)])

    def idempotent(self) -> None:
        self.produce([self.record(i % PARTITIONS, b"i%d" % i, b"idempotent %d" % i) for i in range(300)], idempotent=True)

    def consume_start(self) -> None:
        starts = self.client.offsets(self.topic, EARLIEST)
        check(starts == dict.fromkeys(range(PARTITIONS), 0), f"earliest offsets {starts}")
        self.read_and_compare(starts)

    def consume_end(self) -> None:
        ends = self.client.offsets(self.topic, LATEST)
        check(ends == {p: len(self.expected[p]) for p in range(PARTITIONS)}, f"latest offsets {ends}")
        reader = self.client.reader(self.topic, ends)
        check(reader.poll(0.2) == [], "records past the end")
        reader.close()
        self.produce([self.record(p, b"end", b"the only one") for p in range(PARTITIONS)])

    def consume_timestamp(self) -> None:
        # A time between two records of partition 1, in the middle of its compressed batches.
        middle = self.expected[1][len(self.expected[1]) // 2].timestamp - 500
        found = self.client.offsets(self.topic, middle)
        want = {p: next(i for i, r in enumerate(self.expected[p]) if r.timestamp >= middle) for p in range(PARTITIONS)}
        check(found == want, f"offsets for a timestamp: got {found}, expected {want}")
        self.read_and_compare(found)

    def group(self, assignor: str) -> None:
        name = f"{self.topic}-{assignor}"
        self.client.create_topic(name, PARTITIONS)
        self.groups.append(name)
        come_and_go(GroupRun(self.client, name, assignor))

    def list_groups(self) -> None:
        listed = self.client.groups()
        check(set(self.groups) <= listed, f"{sorted(self.groups)} are not all in {sorted(listed)}")

    def describe_group(self) -> None:
        describe(GroupRun(self.client, self.groups[0], "range"))

    def delete_group(self) -> None:
        for group in self.groups:
            self.client.delete_group(group)
        until(lambda: not set(self.groups) & self.client.groups(), "deleted groups are listed no more")

    def delete_topic(self) -> None:
        topics = {self.topic, *self.groups}
        for topic in topics:
            self.client.delete_topic(topic)
        until(lambda: not topics & self.client.topics(), "deleted topics are listed no more")

    def step(self, name: str, action, *arguments) -> None:
        began = time.monotonic()
        if name in self.client.cannot:
            print(f"step {name} n/a {self.client.cannot[name]}", flush=True)
            return
        try:
            action(*arguments)
            print(f"step {name} ok {time.monotonic() - began:.2f} s", flush=True)
        except Exception as error:  # a client may raise anything; the next steps are still worth their answers
            self.failed = True
            print(f"step {name} FAIL {type(error).__name__}: {error}".replace("\n", " "), flush=True)

    def run(self) -> bool:
        self.step("create-topic", self.create_topic)
        # acks=0 last: a broker may still be learning of a new topic, and what it refuses then nobody sends again.
        for name, acks in (("all", -1), ("1", 1), ("0", 0)):
            self.step(f"produce-acks-{name}", self.produce_acks, acks)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            self.step(f"codec-{codec}", self.codec, codec)
        self.step("headers", self.headers)
        self.step("header-null", self.header_null)
        self.step("header-same-key", self.header_same_key)
        self.step("nulls", self.nulls)
        self.step("null-record", self.null_record)
        self.step("large", self.large)
        self.step("idempotent", self.idempotent)
        self.step("consume-start", self.consume_start)
        self.step("consume-end", self.consume_end)
        self.step("consume-timestamp", self.consume_timestamp)
        self.step("group-eager", self.group, "range")
        self.step("group-cooperative", self.group, "cooperative-sticky")
        self.step("list-groups", self.list_groups)
        self.step("describe-group", self.describe_group)
        self.step("delete-group", self.delete_group)
        self.step("delete-topic", self.delete_topic)
        return not self.failed


def main() -> int:
    client, bootstrap, prefix = sys.argv[1:]
    module = importlib.import_module(client.replace("-", "_") + "_adapter")
    return 0 if Scenario(module.Client(bootstrap), prefix).run() else 1


if __name__ == "__main__":
    # Background threads of a client must not keep a failed run alive.
    code = main()
    sys.stdout.flush()
    os._exit(code)
