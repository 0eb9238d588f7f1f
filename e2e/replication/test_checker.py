"""The checker finds every anomaly that is planted, and none where there is none."""

import pytest

from ledger.checker import check, tell
from ledger.history import History, Outcome, Seen


def good():
    """Two writers, two readers, two partitions, a send whose answer was lost, and nothing wrong."""
    history = History()
    first, second = history.writer("first"), history.writer("second")
    offsets = {0: 0, 1: 0}
    for number in range(20):
        for writer in (first, second):
            partition = number % 2
            value = b"%s-%d" % (writer.name.encode(), number)
            send = writer.send(partition, value)
            if number != 7:
                send.acknowledge(offsets[partition])
            # An offset that no record has is no hole: a batch may be a marker.
            history.log.append(Seen(partition, offsets[partition], value))
            offsets[partition] += 1 + (number == 9)
    first.send(0, b"never arrived")
    refused = second.send(1, b"refused")
    refused.outcome = Outcome.REFUSED
    for name, begins_at in (("early", 0), ("late", 4)):
        reader = history.reader(name)
        for record in history.log[begins_at:]:
            reader.saw(record.partition, record.offset, record.value)
    return history


def kinds(history):
    return sorted({anomaly.kind for anomaly in check(history)})


def test_a_history_without_a_fault_has_no_anomaly():
    assert tell(check(good())) == ""


def lose_one(history):
    history.log = [record for record in history.log if record.value != b"first-4"]
    for reader in history.readers:
        reader.runs = [[seen for seen in run if seen.value != b"first-4"] for run in reader.runs]


def cut_the_end(history):
    cut = {b"second-18", b"second-19"}
    history.log = [record for record in history.log if record.value not in cut]
    for reader in history.readers:
        reader.runs = [[seen for seen in run if seen.value not in cut] for run in reader.runs]


def append_twice(history):
    history.log.append(Seen(0, 40, b"first-6"))


def append_a_lost_answer_twice(history):
    history.log.append(Seen(1, 40, b"first-7"))


def change_a_value_for_one_reader(history):
    run = history.readers[0].runs[0]
    run[3] = Seen(run[3].partition, run[3].offset, b"first-19")


def acknowledge_another_offset(history):
    history.writers[0].sends[2].acknowledge(history.writers[1].sends[2].offset)


def acknowledge_out_of_order(history):
    sends = history.writers[0].sends
    sends[2].offset, sends[4].offset = sends[4].offset, sends[2].offset


def read_backwards(history):
    run = history.readers[1].runs[0]
    run[2], run[4] = run[4], run[2]


def read_twice(history):
    run = history.readers[1].runs[0]
    run.insert(3, run[2])


def skip_one(history):
    del history.readers[0].runs[0][10]


def take_back_what_was_read(history):
    history.readers[0].saw(1, 40, b"first-7")


def read_what_nobody_sent(history):
    history.log.append(Seen(0, 40, b"whose?"))


def read_what_was_refused(history):
    history.log.append(Seen(1, 40, b"refused"))


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (lose_one, ["lost"]),
        (cut_the_end, ["unseen"]),
        (append_twice, ["duplicate"]),
        (append_a_lost_answer_twice, ["duplicate"]),
        (change_a_value_for_one_reader, ["inconsistent"]),
        (acknowledge_another_offset, ["inconsistent"]),
        (acknowledge_out_of_order, ["inconsistent", "send-order"]),
        (read_backwards, ["poll-order", "poll-skip"]),
        (read_twice, ["poll-order"]),
        (skip_one, ["poll-skip"]),
        (take_back_what_was_read, ["vanished"]),
        (read_what_nobody_sent, ["phantom"]),
        (read_what_was_refused, ["phantom"]),
    ],
)
def test_a_planted_anomaly_is_found(plant, found):
    history = good()
    plant(history)
    assert kinds(history) == found, tell(check(history))


def test_a_writer_that_is_not_idempotent_may_write_twice():
    history = good()
    history.writers[0].idempotent = False
    append_twice(history)
    assert kinds(history) == []


def test_a_seek_allows_what_was_read_before():
    history = good()
    reader = history.readers[0]
    first = reader.runs[0][0]
    reader.seek()
    reader.saw(first.partition, first.offset, first.value)
    assert kinds(history) == []


def test_a_failure_tells_how_many_and_the_first_of_them():
    history = good()
    cut_the_end(history)
    text = tell(check(history))
    assert text.startswith("2 x unseen\n  unseen: partition 0: second was told offset"), text
