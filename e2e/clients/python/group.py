"""The steps about consumer groups."""

import time

from model import PARTITIONS, Client, Member, Record, check, shorten, until


class GroupRun:
    """One group, with a topic of its own name, while its members come and go."""

    def __init__(self, client: Client, name: str, assignor: str) -> None:
        self.client = client
        self.name = name
        self.assignor = assignor
        self.serial = 0

    def join(self) -> Member:
        return self.client.member(self.name, self.name, self.assignor)

    def send(self, count: int) -> set[bytes]:
        """Produces records over all partitions; gives their values, for `collect`."""
        values = [b"%s %d" % (self.name.encode(), self.serial + i) for i in range(count)]
        self.serial += count
        producer = self.client.producer(-1, "none", False)
        for i, value in enumerate(values):
            producer.send(self.name, Record(i % PARTITIONS, None, value, [], int(time.time() * 1000)))
        producer.close()
        return set(values)

    def collect(self, values: set[bytes], *members: Member) -> None:
        """Polls the members until all these values have come, each of them once."""
        left = set(values)

        def take() -> bool:
            for member in members:
                for _, record in member.poll(0.05):
                    check(record.value in left, f"came twice, or is before the committed offset: {shorten(record)}")
                    left.discard(record.value)
            return not left

        until(take, f"{len(values)} records for {len(members)} members")

    def settle(self, *members: Member) -> None:
        """Waits until each member owns partitions and together they own each one once."""

        def settled() -> bool:
            for member in members:
                check(member.poll(0.05) == [], "a record, though all are read and committed")
            owned = [member.assignment() for member in members]
            return all(owned) and sorted(p for o in owned for p in o) == list(range(PARTITIONS))

        until(settled, f"{len(members)} members own the partitions")

    def described(self, state: str, members: int) -> None:
        want = (state, members)
        until(lambda: self.client.describe_group(self.name) == want, f"described as {state} with {members} members")


def come_and_go(run: GroupRun) -> None:
    """Two members share the partitions, one leaves, a later member resumes at the committed offsets."""
    first, second = run.join(), run.join()
    run.settle(first, second)
    run.collect(run.send(30), first, second)
    first.commit()
    second.commit()
    second.close()
    run.settle(first)
    run.collect(run.send(30), first)
    first.commit()
    uncommitted = run.send(9)
    run.collect(uncommitted, first)
    first.close()
    third = run.join()
    run.collect(uncommitted, third)
    third.commit()
    third.close()


def describe(run: GroupRun) -> None:
    run.described("Empty", 0)
    only = run.join()
    run.settle(only)
    run.described("Stable", 1)
    only.close()
    run.described("Empty", 0)
