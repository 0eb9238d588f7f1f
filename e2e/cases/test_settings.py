"""Settings that a broker takes must count: those that no other case looks at."""

import pytest

from raw import errors
from raw.bad_requests import BROKER_RESOURCE, SET
from raw.batch import CODECS
from raw.client import Client
from raw.connection import ConnectionClosed
from raw.groups import commit, committed, wait_for_coordinator
from raw.wait import eventually


def served(broker):
    """A new connection that has got an answer, or None if it is closed."""
    connection = broker.connect()
    try:
        connection.call("Metadata", 12, topics=[])
        return connection
    except ConnectionClosed:
        connection.close()
        return None


def is_refused(broker):
    connection = served(broker)
    if connection:
        connection.close()
    return connection is None


def set_for_all(client, name, value, **options):
    return client.alter_configs(BROKER_RESOURCE, "", (name, SET, value), **options)


def test_single_address_has_a_limit_of_its_own(own_broker):
    """max.connections.per.ip.overrides: one connection too many is closed, and a place that is given back is taken again."""
    broker = own_broker({"max.connections.per.ip.overrides": "10.9.8.7:1,127.0.0.1:2"})
    with eventually(lambda: served(broker), what="the first connection"):
        with eventually(lambda: served(broker), what="the second connection"):
            assert is_refused(broker)
        eventually(lambda: served(broker), what="a place that was given back").close()


def test_new_limit_of_connections_counts_at_once(own_broker):
    """max.connections.per.ip is dynamic: open connections stay, new ones are refused until it is raised again."""
    broker = own_broker()
    with Client(broker) as client:
        assert set_for_all(client, "max.connections.per.ip", "1") == errors.NONE
        eventually(lambda: is_refused(broker), what="a refused connection")
        assert client.metadata().brokers
        assert set_for_all(client, "max.connections.per.ip", "100") == errors.NONE
        eventually(lambda: served(broker), what="a connection that is served").close()


REFUSED = {
    "max.connections": ["0"],
    "max.connections.per.ip": ["0"],
    "max.connections.per.ip.overrides": ["127.0.0.1", "127.0.0.1:many"],
}


@pytest.mark.parametrize("name", REFUSED)
def test_limit_that_would_shut_everyone_out_is_refused(client, name):
    """An administrator who sets it could not take it back; nor is an entry taken that cannot be read."""
    for value in REFUSED[name]:
        assert set_for_all(client, name, value, validate_only=True) == errors.INVALID_REQUEST, value


@pytest.mark.parametrize("codec", CODECS)
def test_offsets_are_written_with_the_codec_of_the_settings(own_broker, codec):
    """offsets.topic.compression.codec: the bits are in the log, and the offsets are there after a crash."""
    broker = own_broker({"offsets.topic.compression.codec": CODECS[codec], "offsets.topic.num.partitions": 1})
    with Client(broker) as client:
        topic = client.new_topic("codec").name
        wait_for_coordinator(client.connection, "group")
        assert commit(client.connection, "group", topic, 7) == errors.NONE
        assert {b.codec for b in client.read("__consumer_offsets")} == {CODECS[codec]}
        broker.crash()
        client.reconnect()
        wait_for_coordinator(client.connection, "group")
        assert committed(client.connection, "group", topic) == 7
