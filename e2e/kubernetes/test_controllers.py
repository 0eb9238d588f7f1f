"""A cluster that begins with one controller and gets more, and fewer, while it serves."""

import pytest

from kube.cluster import CONTROLLERS
from kube.release import Release
from raw.wait import eventually

WAIT_S = 300


@pytest.fixture(scope="module")
def release(kubectl):
    installed = Release(kubectl)
    installed.install(controllers=1)
    return installed


@pytest.mark.long
def test_one_controller_becomes_three_five_and_three_again_under_load(release, cluster, load):
    first = cluster.uids()
    for count in (3, 5, 3):
        cluster.spec({"controllers": {"replicas": count}})
        pods = lambda: len(cluster.pods(CONTROLLERS))  # noqa: E731
        eventually(pods, wanted=lambda found, count=count: found == count, timeout_s=WAIT_S, poll_s=0.5, what=f"{count} controllers")
        cluster.wait_until_ready(WAIT_S)
        voters = {voter["id"] for voter in cluster.status()["controllers"]["voters"]}
        assert voters == set(range(count)) == cluster.voters()
        load.wait_for_more()
    assert first.items() <= cluster.uids().items(), "who was there at the beginning was not restarted"
