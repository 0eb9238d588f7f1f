"""The scenario of the client matrix (e2e/clients) with topics of three replicas on three brokers."""

import os
import subprocess

import pytest

from raw.broker import CASES
from raw.client import unique

RUN = CASES.parent / "clients" / "run"
NOT_INSTALLED = 69
SHORT = ["java-4.4", "kafka-tools", "confluent-kafka", "kafka-python"]
LONG = [
    "java-2.8",
    "java-2.1",
    "aiokafka",
    "kcat",
    "librdkafka-1.9.2",
    "kafkajs",
    "platformatic",
    "franz-go",
    "kafka-go",
    "sarama-1.0.0",
    "sarama-max",
]


@pytest.mark.parametrize("client", [*SHORT, *[pytest.param(client, marks=pytest.mark.long) for client in LONG]])
def test_the_scenario_of_the_matrix_passes_on_three_brokers(cluster, client):
    environment = {**os.environ, "REPLICAS": "3"}
    command = ["bash", str(RUN), client, cluster.bootstrap, unique("matrix")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode == NOT_INSTALLED:
        pytest.skip(done.stderr.strip())
    failed = [line for line in done.stdout.splitlines() if " FAIL " in line]
    assert done.returncode == 0 and not failed, "\n".join([*failed, done.stderr[-2000:]])
