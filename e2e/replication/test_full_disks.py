"""S-03 with three brokers: the volume of one is full to the last byte. Only the partitions are there; the metadata are the
controllers'."""

import pytest

from cluster import faults
from ledger.load import Load, check_all
from raw import errors
from raw.batch import values_batch
from raw.client import Client
from raw.wait import eventually

PARTITIONS = 3
WAIT_S = 60
# The page that a file ends in has room on a full volume too.
MORE_THAN_A_PAGE = bytes(100_000)


def test_a_follower_without_room_leaves_the_isr_and_comes_back(apart):
    topic = apart.new_topic(partitions=1)
    with Load(apart, topic, 1) as load:
        node = apart.follower(topic)
        with faults.full(node):
            left(apart, topic, node)
            load.wait_for_more()
            assert node.is_alive() and apart.metadata(topic, of=node).topics[0].error_code == errors.NONE
        apart.wait_until_whole(topic)
        load.wait_for_more()
        print("a full follower:", check_all(apart, load))


def left(cluster, topic, node):
    """Waits until the broker is out of the topic's ISR."""

    def out():
        found = cluster.partitions(topic).get(0)
        return found and node.number not in found.isr_nodes

    eventually(out, timeout_s=WAIT_S, poll_s=0.1, what=f"an ISR without {node}")


@pytest.mark.parametrize("again", ["stays", "is killed"])
def test_a_leader_without_room_says_so_serves_reads_and_goes_on_by_itself(apart, again):
    topic, doomed = apart.new_topic(partitions=1), apart.new_topic(prefix="doomed", partitions=1)
    leader = apart.leader(topic)
    kept = apart.new_topic(prefix="kept", partitions=PARTITIONS)
    partition = next(p for p in range(PARTITIONS) if apart.leader(kept, p) is leader)
    values = [b"%d" % number for number in range(100)]
    with Client(leader) as client:
        client.append_values(kept, *values, partition=partition)
    with Load(apart, topic, 1) as load:
        with faults.full(leader):
            if again == "is killed":
                leader.kill()
                apart.restart(leader)
            refused(apart, kept, partition, leader)
            eventually(lambda: reads_and_deletes(apart, kept, partition, values), timeout_s=WAIT_S, what="reads and deletes")
            with apart.client() as client:
                assert client.delete_topic(doomed) == errors.NONE
            assert leader.is_alive()
        load.wait_for_more()
        apart.wait_until_whole(topic, kept)
        load.wait_for_more()
        print("a full leader", again, check_all(apart, load))


def test_what_is_behind_a_batch_that_had_no_room_is_refused_alike_until_that_has_come_again(apart):
    """A client with several requests on its way would take "out of order" for a loss, and begin a new epoch."""
    topic = apart.new_topic(partitions=1)
    leader = apart.leader(topic)
    with Client(leader) as client:
        producer_id = client.producer_id()

        def produced(sequence):
            batch = values_batch(MORE_THAN_A_PAGE, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            return client.produce(topic, batch).error_code

        assert produced(0) == errors.NONE
        with faults.full(leader):
            assert [produced(sequence) for sequence in (1, 2)] == [errors.KAFKA_STORAGE_ERROR] * 2
        assert produced(3) == errors.KAFKA_STORAGE_ERROR, "whether there is room again or not"
        eventually(lambda: produced(1) == errors.NONE, timeout_s=WAIT_S, what="room")
        assert [produced(sequence) for sequence in (2, 3)] == [errors.NONE] * 2
        assert produced(5) == errors.OUT_OF_ORDER_SEQUENCE_NUMBER


def reads_and_deletes(cluster, topic, partition, values):
    """Whether the leader gives the values back and lets the first half of them be deleted; leadership may go back meanwhile."""
    with Client(cluster.leader(topic, partition)) as client:
        if client.start_offset(topic, partition) == 0:
            assert client.read_values(topic, partition=partition)[: len(values)] == values
        return client.delete_records(topic, len(values) // 2, partition).error_code == errors.NONE


def refused(cluster, topic, partition, node):
    """Waits until the broker says that it has no room, or another one leads in its place."""

    def told():
        if cluster.leader(topic, partition) is not node:
            return True
        with Client(node) as client:
            answer = client.produce(topic, values_batch(b"refused"), partition, timeout_ms=1000)
            return answer.error_code == errors.KAFKA_STORAGE_ERROR

    eventually(told, timeout_s=WAIT_S, what=f"{node} without room")
