"""Load on a cluster while something is done to it."""

import pytest

from ledger.load import Load

PARTITIONS = 3


@pytest.fixture
def load(cluster):
    """Writers with acks=all and readers of a topic with three replicas; their ledgers are checked at the end."""
    with Load(cluster, cluster.new_topic("load", PARTITIONS), PARTITIONS) as running:
        yield running
        running.wait_for_more()
        history = running.end()
    print(f"\n{dict(history.count())}; longest gap of a partition {running.longest_gap_s():.2f} s")
