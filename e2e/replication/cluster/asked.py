"""What a test asks of a cluster's brokers, wherever they run."""

from raw import errors
from raw.client import CREATE_TOPICS, METADATA, Client, as_configs, unique
from raw.connection import Connection, ConnectionClosed
from raw.wait import eventually

WAIT_S = 60
# A node that is cut off is asked in vain, and others are asked after it.
ASK_TIMEOUT_S = 3


class Answering:
    """A broker that can be dialled at its `address`."""

    def connect(self, **options):
        return Connection(self.address, **options)

    def answers(self, api, version, **fields):
        """The answer of this very broker, or None while it gives none."""
        try:
            with self.connect(timeout_s=ASK_TIMEOUT_S) as connection:
                return connection.call(api, version, **fields)
        except (OSError, ConnectionClosed):
            return None


class Asked:
    """A cluster with `brokers`, some of which may be down (`is_alive`), or out of reach (`cut_off`)."""

    brokers = ()
    controllers = ()
    # Nodes that a test has cut off: whoever asks the cluster does not ask them.
    cut_off = frozenset()

    def broker(self, number):
        return next(node for node in self.brokers if node.number == number)

    def living(self):
        return [node for node in self.brokers if node.is_alive() and node not in self.cut_off]

    def client(self, node=None):
        """A RAW client of one broker, by default the first that lives."""
        return Client(node or self.living()[0])

    def metadata(self, *topics, of=None):
        """Metadata as one broker tells them; None while it gives no answer."""
        node = of or self.living()[0]
        names = [{"name": name} for name in topics]
        return node.answers("Metadata", METADATA, topics=names, allow_auto_topic_creation=False)

    def partitions(self, topic, of=None):
        """index -> the partition's metadata, as one broker tells them."""
        answer = self.metadata(topic, of=of)
        if answer is None or answer.topics[0].error_code != errors.NONE:
            return {}
        return {partition.partition_index: partition for partition in answer.topics[0].partitions}

    def leader(self, topic, partition=0, other_than=None):
        """The broker that leads, once there is one that lives (and is another than `other_than`)."""

        def find():
            for node in self.living():
                found = self.partitions(topic, of=node).get(partition)
                if found and found.leader_id >= 0:
                    leader = self.broker(found.leader_id)
                    if leader in self.living() and leader is not other_than:
                        return leader
            return None

        return eventually(find, timeout_s=WAIT_S, what=f"a leader of {topic}-{partition}")

    def follower(self, topic, partition=0):
        leader = self.leader(topic, partition)
        replicas = self.partitions(topic)[partition].replica_nodes
        return self.broker(next(number for number in replicas if number != leader.number))

    def new_topic(self, prefix="t", partitions=3, replicas=3, **configs):
        """A new topic that every living broker knows and whose leaders serve; its name. `_` stands for `.` in config names."""
        name = unique(prefix)
        configs = as_configs({key.replace("_", "."): value for key, value in configs.items()})
        topic = {"name": name, "num_partitions": partitions, "replication_factor": replicas, "configs": configs}
        with self.client() as client:
            answer = client.call("CreateTopics", CREATE_TOPICS, topics=[topic], timeout_ms=WAIT_S * 1000, validate_only=False)
        # A broker asks again when a controller does not answer in time, as Kafka's do; by then the first request may have done it.
        assert answer.topics[0].error_code in (errors.NONE, errors.TOPIC_ALREADY_EXISTS), answer
        self.wait_until_known(name, partitions)
        return name

    def wait_until_known(self, topic, partitions):
        def known():
            for node in self.living():
                found = self.partitions(topic, of=node)
                assert len(found) == partitions, f"{node}: {found}"
                assert all(partition.leader_id >= 0 for partition in found.values()), f"{node}: {found}"
            return True

        eventually(known, timeout_s=WAIT_S, what=f"{topic} on every broker")

    def wait_until_in_sync(self, *topics, preferred=False):
        """Until every replica of these topics (default: of all) is in sync, as every living broker tells it; `preferred`: and
        leads where it is the preferred leader, so that no leadership goes back by itself soon."""

        def in_sync():
            for node in self.living():
                answer = node.answers("Metadata", METADATA, topics=[{"name": t} for t in topics] or None)
                assert answer is not None, f"{node} does not answer"
                for topic in answer.topics:
                    assert topic.error_code == errors.NONE, topic
                    for partition in topic.partitions:
                        assert partition.leader_id >= 0, f"{node}: {topic.name}: {partition}"
                        replicas, isr = set(partition.replica_nodes), set(partition.isr_nodes)
                        assert replicas == isr, f"{node}: {topic.name}: {partition}"
                        is_preferred = partition.leader_id == partition.replica_nodes[0]
                        assert is_preferred or not preferred, f"{node}: {topic.name}: {partition}"
            return True

        eventually(in_sync, timeout_s=WAIT_S, poll_s=0.1, what="all replicas in sync")

    def wait_until_whole(self, *topics):
        """Until these topics are in sync, and every controller has its vote."""
        self.wait_until_in_sync(*topics)
        wanted = {node.number for node in self.controllers}
        eventually(self.voters, wanted=lambda voters: voters == wanted, timeout_s=WAIT_S, poll_s=0.1, what="every vote")

    def quorum(self, of=None):
        """What a broker is told of the quorum: leader_id, leader_epoch, current_voters and more; None while it does not know."""
        topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        answer = (of or self.living()[0]).answers("DescribeQuorum", 2, topics=topics)
        return answer.topics[0].partitions[0] if answer is not None and answer.error_code == errors.NONE else None

    def voters(self):
        quorum = self.quorum()
        return {voter.replica_id for voter in quorum.current_voters} if quorum else set()

    def voting_disks(self):
        """The directory ids of the voters: a controller whose disk was lost is another voter than the one before."""
        quorum = self.quorum()
        return {voter.replica_directory_id for voter in quorum.current_voters} if quorum else set()

    def delete_topic(self, topic):
        """Deletes a topic whose records would not outlive a disk, before a test on the same cluster wipes one."""
        with self.client() as client:
            assert client.delete_topic(topic) == errors.NONE
