"""Topics, configs and what an administrator sees: cases A-01 to A-04 with one node."""

import json
import pathlib
import urllib.request

import pytest

from raw import errors
from raw.bad_requests import APPEND, BROKER_RESOURCE, DELETE, SET, SUBTRACT, TOPIC_RESOURCE
from raw.batch import Batch, Record, values_batch
from raw.client import ADMIN_TIMEOUT_MS, LATEST, Client, unique
from raw.groups import wait_for_coordinator
from raw.wait import eventually

GOLDEN = pathlib.Path(__file__).parent / "golden"
TOPIC_SOURCE, BROKER_SOURCE, DEFAULT_BROKER_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = 1, 2, 3, 4, 5
UNKNOWN_TYPE, BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(10)
MIB = 1 << 20
NO_AUTHORIZED_OPERATIONS = -(2**31)


def golden(name):
    return json.loads((GOLDEN / name).read_text())


def triples(client, topic, keys=None):
    """{key: (value, source)} of a topic's settings."""
    return {k: (c.value, c.config_source) for k, c in client.describe_configs(TOPIC_RESOURCE, topic, keys).items()}


def replace_configs(client, topic, configs, validate_only=False):
    """AlterConfigs, the form that replaces all; the topic's error code."""
    entries = [{"name": k, "value": v} for k, v in configs.items()]
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": entries}
    return client.call("AlterConfigs", 2, resources=[resource], validate_only=validate_only).responses[0].error_code


#

THREE_SETTINGS = {"cleanup_policy": "compact", "retention_ms": "100000", "segment_bytes": str(MIB)}
THREE_KEYS = ["cleanup.policy", "retention.ms", "segment.bytes"]


def test_brokers_take_settings_that_only_a_plugin_knows(client):
    """As Kafka: any name, whose value is not shown, because nothing is known of it."""
    names = ["plugin.some.key", "plugin.other.key"]
    cluster, own = "", str(client.metadata().brokers[0].node_id)
    for resource, name in ((cluster, names[0]), (own, names[0]), (own, names[1])):
        assert client.alter_configs(BROKER_RESOURCE, resource, (name, SET, "5")) == errors.NONE

    def described(resource):
        entries = client.describe_configs(BROKER_RESOURCE, resource, include_synonyms=True)
        plain = (UNKNOWN_TYPE, True, True, None)
        assert all((e.config_type, e.is_sensitive, e.read_only, e.value) == plain for n, e in entries.items() if n in names)
        return {n: (e.config_source, [s.source for s in e.synonyms]) for n, e in entries.items() if n in names}

    both = [BROKER_SOURCE, DEFAULT_BROKER_SOURCE]
    wanted = {names[0]: (BROKER_SOURCE, both), names[1]: (BROKER_SOURCE, both[:1])}
    eventually(lambda: described(own), wanted=lambda found: found == wanted, what="settings of a plugin")
    assert described(cluster) == {names[0]: (DEFAULT_BROKER_SOURCE, both[1:])}
    assert client.alter_configs(BROKER_RESOURCE, own, (names[1], APPEND, "6")) == errors.INVALID_CONFIG
    for resource in (cluster, own):
        assert client.alter_configs(BROKER_RESOURCE, resource, *((name, DELETE, None) for name in names)) == errors.NONE
    eventually(lambda: described(own) | described(cluster), wanted=lambda found: found == {}, what="that they are gone")


def test_alter_configs_drops_what_it_does_not_name(client):
    """A-01: the other settings go back to their defaults, with the default's source."""
    topic = client.new_topic("a01", **THREE_SETTINGS).name
    assert replace_configs(client, topic, {"retention.ms": "5000"}) == errors.NONE
    eventually(
        lambda: triples(client, topic, THREE_KEYS),
        wanted=lambda found: (
            found
            == {
                "cleanup.policy": ("delete", DEFAULT_SOURCE),
                "retention.ms": ("5000", TOPIC_SOURCE),
                "segment.bytes": ("1073741824", DEFAULT_SOURCE),
            }
        ),
        what="the replaced settings",
    )


def test_incremental_alter_touches_only_what_it_names(client):
    """A-01: set and delete."""
    topic = client.new_topic("a01", **THREE_SETTINGS).name
    changes = [("retention.ms", DELETE, None), ("max.message.bytes", SET, "2000")]
    assert client.alter_configs(TOPIC_RESOURCE, topic, *changes) == errors.NONE
    wanted = {
        "cleanup.policy": ("compact", TOPIC_SOURCE),
        "retention.ms": ("604800000", DEFAULT_SOURCE),
        "segment.bytes": (str(MIB), TOPIC_SOURCE),
        "max.message.bytes": ("2000", TOPIC_SOURCE),
    }
    eventually(lambda: triples(client, topic, list(wanted)), wanted=lambda found: found == wanted, what="the changed settings")
    assert client.produce(topic, values_batch(b"x" * 3000)).error_code == errors.MESSAGE_TOO_LARGE


def test_append_and_subtract_change_lists_without_duplicates(client):
    """A-01: appending twice does not duplicate; subtracting what is not there is no error."""
    topic = client.new_topic("a01", cleanup_policy="compact").name

    def after(operation, value):
        assert client.alter_configs(TOPIC_RESOURCE, topic, ("cleanup.policy", operation, value)) == errors.NONE
        return set_of_words(client, topic)

    for operation, value, wanted in (
        (APPEND, "delete", {"compact", "delete"}),
        (APPEND, "delete", {"compact", "delete"}),
        (SUBTRACT, "compact", {"delete"}),
        (SUBTRACT, "compact", {"delete"}),
    ):
        after(operation, value)
        eventually(lambda: set_of_words(client, topic), wanted=lambda found, w=wanted: found == w, what=str(wanted))


def set_of_words(client, topic):
    words = triples(client, topic, ["cleanup.policy"])["cleanup.policy"][0].split(",")
    assert len(words) == len(set(words)), words
    return set(words)


def test_explicit_value_equal_to_the_default_is_a_topic_setting(client):
    """A-01: it is remembered as set, at creation and by a change."""
    topic = client.new_topic("a01", retention_ms="604800000").name
    assert client.alter_configs(TOPIC_RESOURCE, topic, ("cleanup.policy", SET, "delete")) == errors.NONE
    wanted = {"retention.ms": ("604800000", TOPIC_SOURCE), "cleanup.policy": ("delete", TOPIC_SOURCE)}
    eventually(lambda: triples(client, topic, list(wanted)), wanted=lambda found: found == wanted, what="two topic settings")


def test_explicit_value_does_not_follow_the_brokers_default(own_broker):
    """A-01: a changed default for all brokers moves the topics that set nothing, and only them."""
    with Client(own_broker()) as client:
        explicit, following = client.new_topic("a01", retention_ms="604800000").name, client.new_topic("a01").name
        assert client.alter_configs(BROKER_RESOURCE, "", ("log.retention.ms", SET, "7000000")) == errors.NONE
        eventually(
            lambda: [triples(client, t, ["retention.ms"])["retention.ms"] for t in (explicit, following)],
            wanted=lambda found: found == [("604800000", TOPIC_SOURCE), ("7000000", DEFAULT_BROKER_SOURCE)],
            what="the new default",
        )


def test_validate_only_changes_nothing(client):
    """A-01: in both forms, for good and bad values."""
    topic = client.new_topic("a01", retention_ms="5000").name
    assert client.alter_configs(TOPIC_RESOURCE, topic, ("retention.ms", SET, "6000"), validate_only=True) == errors.NONE
    assert replace_configs(client, topic, {}, validate_only=True) == errors.NONE
    assert client.alter_configs(TOPIC_RESOURCE, topic, ("retention.ms", SET, "soon"), validate_only=True) == errors.INVALID_CONFIG
    assert triples(client, topic, ["retention.ms"]) == {"retention.ms": ("5000", TOPIC_SOURCE)}


def test_one_bad_change_refuses_all_changes_of_its_resource(client):
    """A-01: a resource is altered as a whole; other resources of the request are not touched by its failure."""
    first, second = client.new_topic("a01").name, client.new_topic("a01").name
    changes = {first: [("retention.ms", "5000"), ("segment.bytes", "1")], second: [("retention.ms", "6000")]}
    resources = [
        {
            "resource_type": TOPIC_RESOURCE,
            "resource_name": name,
            "configs": [{"name": k, "config_operation": SET, "value": v} for k, v in entries],
        }
        for name, entries in changes.items()
    ]
    answer = client.call("IncrementalAlterConfigs", 1, resources=resources, validate_only=False)
    codes = {r.resource_name: r.error_code for r in answer.responses}
    assert codes == {first: errors.INVALID_CONFIG, second: errors.NONE}
    eventually(lambda: triples(client, second, ["retention.ms"])["retention.ms"][0], wanted=lambda v: v == "6000", what="the good change")
    assert triples(client, first, ["retention.ms"])["retention.ms"][1] == DEFAULT_SOURCE


def test_settings_survive_a_restart(restartable):
    """A-01: what was altered is in the metadata log."""
    with Client(restartable) as client:
        topic = client.new_topic("a01", retention_ms="5000").name
        assert client.alter_configs(TOPIC_RESOURCE, topic, ("max.message.bytes", SET, "2000")) == errors.NONE
        restartable.crash()
        client.reconnect()
        wanted = {"retention.ms": ("5000", TOPIC_SOURCE), "max.message.bytes": ("2000", TOPIC_SOURCE)}
        eventually(lambda: triples(client, topic, list(wanted)), wanted=lambda found: found == wanted, what="the settings again")


#


def test_describe_returns_only_the_keys_asked_for(client):
    """A-02: one key, two, an unknown one; all by null and, as in Kafka, by an empty list."""
    topic, every_key = client.new_topic("a02").name, set(golden("describe_configs_topic.json"))
    for keys in (["retention.ms"], ["retention.ms", "segment.bytes"], ["no.such.key"]):
        assert set(client.describe_configs(TOPIC_RESOURCE, topic, keys)) == set(keys) & every_key
    for keys in (None, []):
        assert set(client.describe_configs(TOPIC_RESOURCE, topic, keys)) == every_key


def test_topic_settings_are_those_of_kafka(client):
    """A-02: type, value, source, read-only, sensitive and synonyms of every key, against the oracle."""
    topic = client.new_topic("a02").name
    found = client.describe_configs(TOPIC_RESOURCE, topic, include_synonyms=True)
    different = {}
    for name, wanted in golden("describe_configs_topic.json").items():
        entry = found[name]
        # The peer sets min.insync.replicas for its whole cluster; a broker with plain defaults has the same value by default.
        own = name == "min.insync.replicas"
        got = {
            "type": entry.config_type,
            "value": entry.value,
            "source": wanted["source"] if own else entry.config_source,
            "read_only": entry.read_only,
            "sensitive": entry.is_sensitive,
            "synonyms": wanted["synonyms"] if own else [dict(s) for s in entry.synonyms],
        }
        if got != wanted:
            different[name] = (got, wanted)
    assert different == {}


def test_broker_settings_known_to_both_have_kafkas_type_and_default(broker, client):
    """A-02: of the broker's keys that we have; a broker key that Kafka does not know must be our own by its name."""
    node = str(client.metadata().brokers[0].node_id)
    found = client.describe_configs(BROKER_RESOURCE, node, include_synonyms=True)
    wanted = golden("describe_configs_broker.json")
    hidden = set(broker.settings)  # keys of Kafka that it shows only where they are set
    assert not [n for n in found if n not in wanted and n not in hidden and not n.startswith("taffrail.")]
    assert {n: c.config_type for n, c in found.items() if n in wanted} == {n: wanted[n]["type"] for n in found if n in wanted}
    assert {"log.retention.ms", "num.partitions", "message.max.bytes", "auto.create.topics.enable"} <= set(found)
    for name, entry in found.items():
        if entry.config_source == DEFAULT_SOURCE and name in wanted and wanted[name]["source"] == DEFAULT_SOURCE:
            assert (name, entry.value) == (name, wanted[name]["value"])


def test_types_come_from_version_3_on(client):
    """A-02: Connect and consoles format values by them; documentation only when asked for."""
    topic = client.new_topic("a02").name
    keys = ["retention.ms", "cleanup.policy", "preallocate", "min.cleanable.dirty.ratio"]
    types = {n: c.config_type for n, c in client.describe_configs(TOPIC_RESOURCE, topic, keys, version=3).items()}
    assert types == dict(zip(keys, (LONG, LIST, BOOLEAN, DOUBLE), strict=True))
    assert all("config_type" not in c for c in client.describe_configs(TOPIC_RESOURCE, topic, keys, version=2).values())
    plain = client.describe_configs(TOPIC_RESOURCE, topic, keys)
    documented = client.describe_configs(TOPIC_RESOURCE, topic, keys, include_documentation=True)
    assert not any(c.documentation for c in plain.values())
    assert all(c.documentation for c in documented.values())


def test_synonyms_come_only_when_asked_for(client):
    """A-02: in the order of their weight: the topic's, then the broker's default."""
    topic = client.new_topic("a02", retention_ms="5000").name
    (plain,) = client.describe_configs(TOPIC_RESOURCE, topic, ["retention.ms"]).values()
    (full,) = client.describe_configs(TOPIC_RESOURCE, topic, ["retention.ms"], include_synonyms=True).values()
    assert plain.synonyms == []
    assert [(s.name, s.value, s.source) for s in full.synonyms][0] == ("retention.ms", "5000", TOPIC_SOURCE)


def test_sensitive_values_are_null(client):
    """A-02: passwords of the broker are never shown."""
    node = str(client.metadata().brokers[0].node_id)
    found = client.describe_configs(BROKER_RESOURCE, node)
    assert all(c.value is None for c in found.values() if c.is_sensitive or c.config_type == PASSWORD)


def test_default_broker_shows_only_what_is_set_for_all(own_broker):
    """A-02: the empty broker name is the cluster-wide default; what is set there shows with its source."""
    with Client(own_broker()) as client:
        assert client.alter_configs(BROKER_RESOURCE, "", ("log.retention.ms", SET, "7000000")) == errors.NONE
        node = str(client.metadata().brokers[0].node_id)

        def found():
            everywhere = client.describe_configs(BROKER_RESOURCE, "")
            here = client.describe_configs(BROKER_RESOURCE, node, ["log.retention.ms"])["log.retention.ms"]
            return (everywhere["log.retention.ms"].value, here.value, here.config_source)

        eventually(found, wanted=lambda f: f == ("7000000", "7000000", DEFAULT_BROKER_SOURCE), what="the default of all brokers")


WRITTEN = {
    "cleanup.policy": ("compact, delete", "compact,delete"),
    "max.message.bytes": (" +5000 ", "5000"),
    "min.cleanable.dirty.ratio": ("1", "1.0"),
    "preallocate": ("TRUE", "true"),
}


def test_values_are_described_alike_however_they_were_written(client):
    """A-02: tools that compare what they read with what they want must find no difference."""
    topic = client.new_topic("a02").name
    assert client.create(unique("a02"), configs={k: v for k, (v, _) in WRITTEN.items()}).error_code == errors.NONE
    assert client.alter_configs(TOPIC_RESOURCE, topic, *((k, SET, v) for k, (v, _) in WRITTEN.items())) == errors.NONE
    wanted = {k: (v, TOPIC_SOURCE) for k, (_, v) in WRITTEN.items()}
    eventually(lambda: triples(client, topic, list(WRITTEN)), wanted=lambda found: found == wanted, what="the settings")


@pytest.mark.parametrize("name", ["leader.replication.throttled.rate", "follower.replication.throttled.rate"])
def test_throttles_of_a_reassignment_are_taken(client, name):
    """A-01: kafka-reassign-partitions --throttle sets and takes away what no list of settings names."""
    node = str(client.metadata().brokers[0].node_id)
    for operation, value in ((SET, "1000000"), (DELETE, None)):
        assert client.alter_configs(BROKER_RESOURCE, node, (name, operation, value)) == errors.NONE


#

BAD_NAMES = ["", ".", "..", "../x", "a/b", "a b", "ä", "x" * 250, "a\x00b", "a\nb", "a:b", "a,b"]


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda n: repr(n[:8]))
def test_bad_name_is_refused_by_every_way_of_creation(client, name):
    """A-03: 17 from CreateTopics and from Metadata that may create."""
    assert client.create(name).error_code == errors.INVALID_TOPIC_EXCEPTION
    assert client.metadata(name, create=True).topics[0].error_code == errors.INVALID_TOPIC_EXCEPTION


def test_longest_name_and_names_that_differ_in_case_are_kept_apart(broker, client):
    """A-03: 249 characters are allowed; each of a pair has its own records, also on disk."""
    long_name = unique("x").ljust(249, "x")
    name = unique("Case")
    pair = (name, name.swapcase())
    for name in (long_name, *pair):
        assert client.create(name).error_code == errors.NONE
        client.wait_until_served(name)
        client.append_values(name, name.encode())
    for name in (long_name, *pair):
        assert client.read_values(name) == [name.encode()]
        assert broker.partition_folder(name).is_dir()


def test_name_that_collides_with_another_in_metrics_is_refused(client):
    """A-03: foo.bar after foo_bar, by CreateTopics; auto-creation makes none either."""
    base = unique("foo").replace("-", "x")
    assert client.create(f"{base}_bar").error_code == errors.NONE
    assert client.create(f"{base}.bar").error_code == errors.INVALID_TOPIC_EXCEPTION
    assert client.metadata(f"{base}.bar", create=True).topics[0].error_code != errors.NONE
    assert f"{base}.bar" not in {t.name for t in client.call("Metadata", 12, topics=None).topics}


def test_bad_names_leave_no_stray_folder(broker, client):
    """A-03: the data folder holds partitions of topics that Metadata names, and nothing else by such names."""
    for name in BAD_NAMES:
        client.create(name)
    known = {t.name for t in client.call("Metadata", 12, topics=None).topics}
    stray = {f for f in broker.partition_folders() if f.rsplit("-", 1)[0] not in known and not f.startswith("__cluster_metadata")}
    assert not {f for f in stray if "delete" not in f}


@pytest.mark.beyond_kafka("Apache Kafka has no /metrics")
def test_metrics_still_parse_after_odd_names(broker, client):
    """A-03: one line of the text format for each sample, whatever the topics are called."""
    client.new_topic("odd.name_with-all")
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    samples = [line for line in lines if line and not line.startswith("#")]
    assert samples
    for line in samples:
        float(line.rsplit(" ", 1)[1])


#


def test_consumer_that_touches_the_offsets_topic_first_does_not_spoil_it(own_broker):
    """A-04: Metadata with creation allowed as the very first request; policy, counts and flag are right all the same."""
    with Client(own_broker()) as client:
        eventually(
            lambda: client.metadata("__consumer_offsets", create=True).topics[0].error_code,
            wanted=lambda code: code == errors.NONE,
            what="the offsets topic",
        )
        check_offsets_topic(client)
        wait_for_coordinator(client.connection, "group")


def check_offsets_topic(client):
    topic = client.wait_for_topic("__consumer_offsets")
    configs = triples(client, "__consumer_offsets", ["cleanup.policy", "compression.type", "segment.bytes"])
    assert (topic.is_internal, len(topic.partitions), topic.partitions[0].replica_nodes) == (
        True,
        4,
        [client.metadata().brokers[0].node_id],
    )
    assert configs == {
        "cleanup.policy": ("compact", TOPIC_SOURCE),
        "compression.type": ("producer", TOPIC_SOURCE),
        "segment.bytes": ("104857600", TOPIC_SOURCE),
    }


INTERNAL_TOPICS = {
    "__transaction_state": {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    },
    "__share_group_state": {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "1",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    },
}


@pytest.mark.parametrize("name", INTERNAL_TOPICS)
def test_internal_topic_that_a_client_touches_first_is_born_as_its_coordinator_needs_it(own_broker, name):
    """A-04: a produce to it, then Metadata with creation allowed; what comes to be is right for good, and closed to producers."""
    with Client(own_broker()) as client:
        assert client.produce(name, values_batch(b"x")).error_code == errors.UNKNOWN_TOPIC_OR_PARTITION
        client.metadata(name, create=True)
        topic = client.wait_for_topic(name)
        assert (topic.is_internal, len(topic.partitions)) == (True, 50)
        wanted = INTERNAL_TOPICS[name]
        assert triples(client, name, list(wanted)) == {key: (value, TOPIC_SOURCE) for key, value in wanted.items()}
        assert client.produce(name, values_batch(b"x")).error_code == errors.INVALID_TOPIC_EXCEPTION


def test_schema_registrys_way_to_its_topic_works(client):
    """A-04: it makes `_schemas` compacted, reads the policy back, writes, and reads until it meets its own record."""
    name = unique("_schemas")
    assert client.create(name, configs={"cleanup.policy": "compact"}).error_code == errors.NONE
    assert client.create(name, configs={"cleanup.policy": "compact"}).error_code == errors.TOPIC_ALREADY_EXISTS
    assert triples(client, name, ["cleanup.policy"]) == {"cleanup.policy": ("compact", TOPIC_SOURCE)}
    assert not client.wait_for_topic(name).is_internal
    client.wait_until_served(name)
    noop = Record(b"x", key=b'{"keytype":"NOOP","magic":0}')
    offset = client.append(name, Batch([noop]))
    assert [(r.offset, r.key) for r in client.read_records(name)] == [(offset, noop.key)]


def test_producer_that_writes_to_an_internal_topic_first_is_refused(own_broker):
    """A-04: before the topic is there and after; nothing is made by the attempt but what a coordinator would make."""
    with Client(own_broker()) as client:
        answer = client.produce("__consumer_offsets", values_batch(b"x"))
        assert answer.error_code in (errors.UNKNOWN_TOPIC_OR_PARTITION, errors.INVALID_TOPIC_EXCEPTION)
        wait_for_coordinator(client.connection, "group")
        assert client.produce("__consumer_offsets", values_batch(b"x")).error_code == errors.INVALID_TOPIC_EXCEPTION
        check_offsets_topic(client)


def test_internal_topic_made_by_hand_is_still_internal(own_broker):
    """A-04: CreateTopics may make it, as in Kafka; it is flagged and closed to plain producers."""
    with Client(own_broker()) as client:
        client.create("__consumer_offsets", partitions=4)
        topic = client.wait_for_topic("__consumer_offsets")
        assert topic.is_internal
        client.wait_until_served("__consumer_offsets")
        assert client.produce("__consumer_offsets", values_batch(b"x")).error_code == errors.INVALID_TOPIC_EXCEPTION


def test_deleting_the_offsets_topic_is_answered_as_kafka_does(own_broker):
    """A-04: Kafka lets an administrator do it; a new lookup makes the topic again, with nothing committed."""
    with Client(own_broker()) as client:
        wait_for_coordinator(client.connection, "group")
        assert client.delete_topic("__consumer_offsets") == errors.NONE
        wait_for_coordinator(client.connection, "group")
        check_offsets_topic(client)


# Section 8, topics


def test_creation_answers_id_counts_and_settings(client):
    """Section 8, CreateTopics v5+ and v7: what was made, with the settings as DescribeConfigs has them."""
    name = unique("made")
    answer = client.create(name, partitions=3, configs={"retention.ms": 5000})
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (errors.NONE, 3, 1)
    assert answer.topic_id == client.topic_metadata(name).topic_id
    assert {c.name for c in answer.configs} == set(golden("describe_configs_topic.json"))
    (retention,) = (c for c in answer.configs if c.name == "retention.ms")
    assert (retention.value, retention.config_source) == ("5000", TOPIC_SOURCE)


def test_minus_1_means_the_brokers_defaults(client):
    """Section 8, CreateTopics v4+: partitions and replication factor."""
    answer = client.create(unique("defaults"), partitions=-1, replicas=-1)
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (errors.NONE, 1, 1)


def test_validate_only_creates_nothing(client):
    """Section 8, CreateTopics: the answer is as if it did."""
    name = unique("validate")
    assert client.create(name, validate_only=True).error_code == errors.NONE
    assert client.topic_metadata(name).error_code == errors.UNKNOWN_TOPIC_OR_PARTITION


def test_topics_of_one_request_fail_each_for_itself(client):
    """Section 8, CreateTopics: a good one is made beside bad ones."""
    good, bad = unique("good"), "a b"
    topics = [{"name": n, "num_partitions": 1, "replication_factor": 1} for n in (good, bad)]
    answer = client.call("CreateTopics", 7, topics=topics, timeout_ms=ADMIN_TIMEOUT_MS)
    assert {t.name: t.error_code for t in answer.topics} == {good: errors.NONE, bad: errors.INVALID_TOPIC_EXCEPTION}
    assert client.topic_metadata(good).error_code == errors.NONE


def test_topic_can_be_made_by_assignment(client):
    """Section 8, CreateTopics: counts -1 and one broker list for each partition."""
    name, node = unique("assigned"), client.metadata().brokers[0].node_id
    assignments = [{"partition_index": i, "broker_ids": [node]} for i in range(2)]
    topic = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
    assert client.call("CreateTopics", 7, topics=[topic], timeout_ms=ADMIN_TIMEOUT_MS).topics[0].error_code == errors.NONE
    assert [p.replica_nodes for p in client.wait_for_topic(name).partitions] == [[node]] * 2


def test_created_topic_is_in_metadata_at_once(client):
    """Section 8, CreateTopics: the answer waits until the broker that gave it can show the topic."""
    for _ in range(20):
        name = unique("at-once")
        assert client.create(name).error_code == errors.NONE
        assert client.topic_metadata(name).error_code == errors.NONE


def test_new_partitions_are_served_and_each_topic_gets_a_result(client):
    """Section 8, CreatePartitions: one result a topic; old data stays."""
    first, second = (client.new_topic("grow").name for _ in range(2))
    client.append_values(first, b"old")
    topics = [{"name": n, "count": 3, "assignments": None} for n in (first, second)]
    answer = client.call("CreatePartitions", 3, topics=topics, timeout_ms=ADMIN_TIMEOUT_MS, validate_only=False)
    assert {r.name: r.error_code for r in answer.results} == {first: errors.NONE, second: errors.NONE}
    client.wait_until_served(first, 3)
    client.append_values(first, b"new", partition=2)
    assert [client.read_values(first, partition=p) for p in range(3)] == [[b"old"], [], [b"new"]]


def test_validating_new_partitions_makes_none(client):
    """Section 8, CreatePartitions: validate_only."""
    topic = client.new_topic("grow").name
    topics = [{"name": topic, "count": 3, "assignments": None}]
    answer = client.call("CreatePartitions", 3, topics=topics, timeout_ms=ADMIN_TIMEOUT_MS, validate_only=True)
    assert answer.results[0].error_code == errors.NONE
    assert len(client.topic_metadata(topic).partitions) == 1


def test_topics_are_deleted_by_name_and_by_id(broker, client):
    """Section 8, DeleteTopics v6: the answer carries both; the topic is gone from Metadata, its folder soon after."""
    by_name, by_id = client.new_topic("gone"), client.new_topic("gone")
    topics = [{"name": by_name.name}, {"name": None, "topic_id": by_id.id}]
    answer = client.call("DeleteTopics", 6, topics=topics, timeout_ms=ADMIN_TIMEOUT_MS)
    assert {(r.name, r.topic_id, r.error_code) for r in answer.responses} == {(t.name, t.id, errors.NONE) for t in (by_name, by_id)}
    for topic in (by_name, by_id):
        assert client.topic_metadata(topic.name).error_code == errors.UNKNOWN_TOPIC_OR_PARTITION
        folder = f"{topic.name}-0"
        eventually(lambda f=folder: f not in broker.partition_folders(), what=f"no folder {folder}")


# Section 8, Metadata


def test_null_topics_mean_all_and_an_empty_list_none(client):
    """Section 8, Metadata: from v1 on; at v0 the empty list means all."""
    topic = client.new_topic("all").name
    assert topic in {t.name for t in client.call("Metadata", 12, topics=None).topics}
    assert client.call("Metadata", 1, topics=[]).topics == []
    assert topic in {t.name for t in client.call("Metadata", 0, topics=[]).topics}


def test_metadata_names_broker_cluster_and_controller(client):
    """Section 8, Metadata: the address is the one that the client used, the controller is a live broker, ids are stable."""
    first, second = client.metadata(), client.call("Metadata", 12, topics=[])
    (node,) = first.brokers
    assert (node.host, node.port) == client.broker.address
    assert (first.controller_id, second.controller_id) == (node.node_id, node.node_id)
    assert second.cluster_id and client.call("DescribeCluster", 1).cluster_id == second.cluster_id


def test_metadata_finds_topics_by_id(client):
    """Section 8, Metadata v12+: by id alone, with the name in the answer; an unknown one has its own error."""
    topic = client.new_topic("by-id")
    answer = client.call("Metadata", 12, topics=[{"name": None, "topic_id": topic.id}]).topics[0]
    assert (answer.error_code, answer.name, answer.topic_id) == (errors.NONE, topic.name, topic.id)


def test_metadata_of_a_partition_is_complete(client):
    """Section 8, Metadata: leader, epoch, replicas, in-sync replicas; authorized operations only when asked for."""
    topic = client.new_topic("complete", partitions=2).name
    node = client.metadata().brokers[0].node_id
    answer = client.topic_metadata(topic)
    assert (answer.is_internal, answer.topic_authorized_operations) == (False, NO_AUTHORIZED_OPERATIONS)
    assert [p.partition_index for p in sorted(answer.partitions, key=lambda p: p.partition_index)] == [0, 1]
    for partition in answer.partitions:
        assert (partition.error_code, partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (0, node, [node], [node])
        assert (partition.leader_epoch >= 0, partition.offline_replicas) == (True, [])


def test_unknown_topic_is_made_only_if_the_request_allows_it(client):
    """Section 8, Metadata: error 3 each time, and with the flag the topic is there soon after."""
    kept, made = unique("not-made"), unique("made")
    assert client.metadata(kept).topics[0].error_code == errors.UNKNOWN_TOPIC_OR_PARTITION
    code = client.metadata(made, create=True).topics[0].error_code
    assert code in (errors.UNKNOWN_TOPIC_OR_PARTITION, errors.LEADER_NOT_AVAILABLE)
    client.wait_for_topic(made)
    assert client.topic_metadata(kept).error_code == errors.UNKNOWN_TOPIC_OR_PARTITION


def test_unknown_topic_is_not_made_where_the_broker_forbids_it(own_broker):
    """Section 8, Metadata: `auto.create.topics.enable=false`."""
    with Client(own_broker({"auto.create.topics.enable": False})) as client:
        name = unique("forbidden")
        for _ in range(3):
            assert client.metadata(name, create=True).topics[0].error_code == errors.UNKNOWN_TOPIC_OR_PARTITION
        assert name not in {t.name for t in client.call("Metadata", 12, topics=None).topics}


# Section 8, describing the cluster


def test_describe_cluster_agrees_with_metadata(client):
    """Section 8, DescribeCluster: the same broker, cluster id and controller."""
    metadata, cluster = client.call("Metadata", 12, topics=[]), client.call("DescribeCluster", 2)
    assert cluster.error_code == errors.NONE
    assert (cluster.cluster_id, cluster.controller_id) == (metadata.cluster_id, metadata.controller_id)
    (node,) = cluster.brokers
    assert (node.broker_id, node.host, node.port, node.is_fenced) == (metadata.brokers[0].node_id, *client.broker.address, False)


def test_topic_partitions_come_in_pages_with_a_cursor(client):
    """Section 8, DescribeTopicPartitions: in the order of names and indexes, each partition once."""
    names = sorted(client.new_topic("pages", partitions=4).name for _ in range(2))
    found, cursor = [], None
    for _ in range(5):
        fields = {"topics": [{"name": n} for n in reversed(names)], "response_partition_limit": 3, "cursor": cursor}
        answer = client.call("DescribeTopicPartitions", 0, **fields)
        page = [(t.name, p.partition_index) for t in answer.topics for p in t.partitions]
        assert len(page) <= 3
        found += page
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert found == [(name, i) for name in names for i in range(4)]


def test_log_directories_tell_sizes(broker, client):
    """Section 8, DescribeLogDirs: one directory with its size and the bytes of the partition."""
    topic = client.new_topic("size").name
    client.append_values(topic, b"x" * 10_000)
    answer = client.call("DescribeLogDirs", 4, topics=[{"topic": topic, "partitions": [0]}])
    (directory,) = answer.results
    assert (answer.error_code, directory.error_code) == (errors.NONE, errors.NONE)
    assert 0 < directory.usable_bytes <= directory.total_bytes
    (entry,) = directory.topics
    (partition,) = entry.partitions
    assert (entry.name, partition.partition_index, partition.offset_lag, partition.is_future_key) == (topic, 0, 0, False)
    assert 10_000 < partition.partition_size < 11_000
    everything = client.call("DescribeLogDirs", 4, topics=None).results[0]
    assert topic in {t.name for t in everything.topics}


def test_deleted_topic_can_be_made_again_at_once(client):
    """Section 8, topics: a new id each time, and an empty log."""
    name, ids = unique("again"), set()
    for _ in range(5):
        eventually(lambda: client.create(name).error_code == errors.NONE, what="the topic made again")
        client.wait_until_served(name)
        ids.add(client.topic_metadata(name).topic_id)
        assert client.list_offset(name, LATEST).offset == 0
        client.append_values(name, b"x")
        assert client.delete_topic(name) == errors.NONE
    assert len(ids) == 5
