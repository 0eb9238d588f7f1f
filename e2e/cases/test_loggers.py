"""The loggers of a broker, as `kafka-configs --entity-type broker-loggers` reads and changes them: case A-02, KIP-412."""

import time

import pytest

from raw import errors
from raw.bad_requests import APPEND, DELETE, SET, SUBTRACT
from raw.broker import is_kafka
from raw.wait import eventually

BROKER_LOGGER_RESOURCE, BROKER_LOGGER_SOURCE = 8, 6
LOGGER = "kafka.server.KafkaApis" if is_kafka() else "taffrail_broker"
ROOT = "root"


@pytest.fixture
def node(client):
    """The broker's number as text, with its loggers as they were before when the test is over."""
    name = str(client.metadata().brokers[0].node_id)
    before = levels(client, name)[ROOT]
    yield name
    assert alter(client, name, (LOGGER, DELETE, None), (ROOT, SET, before)) == (errors.NONE, None)


def describe(client, node, keys=None):
    resource = {"resource_type": BROKER_LOGGER_RESOURCE, "resource_name": node, "configuration_keys": keys}
    return client.call("DescribeConfigs", 4, resources=[resource], include_synonyms=True, include_documentation=True).results[0]


def levels(client, node, *loggers):
    return {c.name: c.value for c in describe(client, node, list(loggers) or None).configs}


def alter(client, node, *operations, validate_only=False):
    configs = [{"name": name, "config_operation": operation, "value": value} for name, operation, value in operations]
    resource = {"resource_type": BROKER_LOGGER_RESOURCE, "resource_name": node, "configs": configs}
    answer = client.call("IncrementalAlterConfigs", 1, resources=[resource], validate_only=validate_only).responses[0]
    return answer.error_code, answer.error_message


def test_loggers_are_listed_with_their_levels(client, node):
    """A-02: every logger and the root, each as a setting of the source 6 that anyone may change."""
    found = describe(client, node)
    assert (found.error_code, {ROOT, LOGGER} <= {c.name for c in found.configs}) == (errors.NONE, True)
    for config in found.configs:
        assert config.value in {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"}
        assert (config.config_source, config.read_only, config.is_sensitive) == (BROKER_LOGGER_SOURCE, False, False)
        assert (config.synonyms, config.config_type, config.documentation) == ([], 0, "")
    assert set(levels(client, node, LOGGER, "nobody")) == {LOGGER}


def test_level_is_set_and_taken_away(client, node):
    """A-02: what is taken away follows the root again; a change that is only validated changes nothing."""
    for level in ("TRACE", "FATAL", "ERROR"):
        assert alter(client, node, (LOGGER, SET, level)) == (errors.NONE, None)
        assert levels(client, node, LOGGER) == {LOGGER: level}
    assert alter(client, node, (LOGGER, SET, "DEBUG"), validate_only=True) == (errors.NONE, None)
    assert levels(client, node, LOGGER) == {LOGGER: "ERROR"}
    assert alter(client, node, (LOGGER, DELETE, None), (ROOT, SET, "WARN")) == (errors.NONE, None)
    assert levels(client, node, LOGGER, ROOT) == {LOGGER: "WARN", ROOT: "WARN"}


REFUSED = {
    "an unknown logger": (("nobody", SET, "INFO"), errors.INVALID_CONFIG, "Logger nobody does not exist!"),
    "small letters": (
        (LOGGER, SET, "debug"),
        errors.INVALID_CONFIG,
        f"Cannot set the log level of {LOGGER} to debug as it is not a supported log level. "
        "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
    ),
    "no value": ((LOGGER, SET, None), errors.INVALID_REQUEST, f"Null value not supported for : {LOGGER}"),
    "the root's level taken away": (
        (ROOT, DELETE, None),
        errors.INVALID_REQUEST,
        "Removing the log level of the root logger is not allowed",
    ),
    "append": ((LOGGER, APPEND, "INFO"), errors.INVALID_REQUEST, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
    "subtract": ((LOGGER, SUBTRACT, "INFO"), errors.INVALID_REQUEST, "SUBTRACT operation is not allowed for the BROKER_LOGGER resource"),
    "operation 9": ((LOGGER, 9, "INFO"), errors.INVALID_REQUEST, "Unknown operation type 9 is not allowed for the BROKER_LOGGER resource"),
}


@pytest.mark.parametrize("operation, code, message", REFUSED.values(), ids=REFUSED)
def test_change_that_makes_no_sense_is_refused_as_a_whole(client, node, operation, code, message):
    """A-02: with Kafka's code and words; a good change beside it is not made."""
    before = levels(client, node, LOGGER, ROOT)
    other = LOGGER if operation[0] == ROOT else ROOT
    assert alter(client, node, (other, SET, "ERROR"), operation) == (code, message)
    assert levels(client, node, LOGGER, ROOT) == before


def test_loggers_of_other_nodes_are_refused(client, node):
    """A-02: by what names them, for reading and for changing."""
    change = (LOGGER, SET, "INFO")
    assert alter(client, "77", change) == (errors.INVALID_REQUEST, f"Unexpected node id. Expected {node}, but received 77")
    for name in ("", "x"):
        assert alter(client, name, change) == (errors.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    said = {name: (describe(client, name).error_code, describe(client, name).error_message) for name in ("", "x", "77")}
    assert said == {
        "": (errors.INVALID_REQUEST, "Broker id must not be empty"),
        "x": (errors.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        "77": (errors.INVALID_REQUEST, f"Unexpected broker id, expected {node} but received 77"),
    }


def test_alter_configs_knows_no_loggers(client, node):
    """A-02: KIP-412 left the older request alone."""
    resource = {"resource_type": BROKER_LOGGER_RESOURCE, "resource_name": node, "configs": [{"name": LOGGER, "value": "INFO"}]}
    answer = client.call("AlterConfigs", 2, resources=[resource], validate_only=False).responses[0]
    assert (answer.error_code, answer.error_message) == (errors.INVALID_REQUEST, "Unknown resource type 8")


@pytest.mark.beyond_kafka("its log has lines of its own shape")
def test_level_counts_for_what_is_logged_from_then_on(broker, client, node):
    """A-02: at DEBUG the broker tells of each connection that is closed, at INFO it does not."""

    def close_one():
        with broker.connect() as connection:
            connection.call("Metadata", 12, topics=[])
            return "127.0.0.1:%d" % connection.socket.getsockname()[1]

    silent = close_one()
    # At INFO nothing tells that the broker has noticed; this is a hundred times what it takes.
    time.sleep(1)
    assert alter(client, node, (LOGGER, SET, "DEBUG")) == (errors.NONE, None)
    told = close_one()
    eventually(lambda: told in broker.log_text(), what="a line on the closed connection")
    assert silent not in broker.log_text()
