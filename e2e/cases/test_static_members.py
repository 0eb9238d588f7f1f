"""G-05 with a real client: librdkafka's static members with the cooperative-sticky strategy, while the broker is killed."""

import random
import threading
import time

import confluent_kafka
import pytest

from raw.client import Client
from raw.groups import STABLE, describe, wait_for_coordinator
from raw.wait import eventually

PARTITIONS = 12
INSTANCES = ("a", "b", "c")
SESSION_TIMEOUT_MS = 6_000
ROUNDS = 20


class Process:
    """A consumer as a process would be one: it polls until it is told to end, and does not say that it leaves."""

    def __init__(self, bootstrap, group, topic, instance):
        self.instance = instance
        self.errors = []
        self.assigned = set()
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.instance.id": instance,
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": 500,
                "reconnect.backoff.max.ms": 500,
                "error_cb": self.errors.append,
                "log_level": 2,
            }
        )
        self.consumer.subscribe([topic])
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._poll)
        self.thread.start()

    def _poll(self):
        while not self.ending.is_set():
            message = self.consumer.poll(0.1)
            # Asked for here, because the library lets one thread at a time in, and the next poll is the first to get there.
            self.assigned = {p.partition for p in self.consumer.assignment()}
            if message is not None and message.error():
                self.errors.append(message.error())

    def fatal(self):
        return [error for error in self.errors if error.fatal() or error.code() == confluent_kafka.KafkaError.FENCED_INSTANCE_ID]

    def end(self):
        """Static members send no LeaveGroup when they close."""
        self.ending.set()
        self.thread.join()
        self.consumer.close()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_kills_of_the_broker_fence_no_static_member(own_broker):
    """20 kills at any moment of a rebalance; some outlast the session, and some processes are started anew meanwhile."""
    broker = own_broker({"group.min.session.timeout.ms": 1000, "auto.create.topics.enable": False})
    seed = time.time_ns() % (1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    with Client(broker) as client:
        topic = client.new_topic("static", PARTITIONS).name
        group = "static-members"
        wait_for_coordinator(client.connection, group)
    processes = {instance: Process(broker.bootstrap, group, topic, instance) for instance in INSTANCES}
    try:
        for number in range(ROUNDS):
            time.sleep(chance.uniform(0.2, 4))
            for instance in chance.sample(INSTANCES, chance.choice((0, 1, 1, 2))):
                processes[instance].end()
                processes[instance] = Process(broker.bootstrap, group, topic, instance)
                time.sleep(chance.uniform(0, 0.3))
            time.sleep(chance.uniform(0, 0.5))
            broker.kill()
            time.sleep(SESSION_TIMEOUT_MS / 1000 + 1 if number % 5 == 4 else chance.uniform(0, 1))
            broker.start_again()
            assert not [p.fatal() for p in processes.values() if p.fatal()], f"round {number}"

        def shared():
            parts = [p.assigned for p in processes.values()]
            return all(parts) and sorted(n for part in parts for n in part) == list(range(PARTITIONS))

        eventually(shared, timeout_s=60, what="every partition with one member")
        with Client(broker) as client:
            described = describe(client.connection, group)
            assert (described.group_state, len(described.members)) == (STABLE, len(INSTANCES))
        assert not [p.fatal() for p in processes.values() if p.fatal()]
    finally:
        for process in processes.values():
            process.end()
