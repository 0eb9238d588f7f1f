"""Asks a running Apache Kafka 4.4 what it says, and keeps the answers beside this file.

    python golden/generate.py 127.0.0.1:19092

The broker should have Kafka's defaults, as e2e/peer starts it. What differs from machine to machine (addresses, paths, ids)
is written as "(static)". The files are checked in: our broker must say the same.
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from raw import bad_requests
from raw.connection import Connection

STATIC = 4
CLIENT = {"client_software_name": "raw", "client_software_version": "1"}


def write(name, value):
    (HERE / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def api_versions(connection):
    keys = connection.call("ApiVersions", 4, **CLIENT).api_keys
    return {str(k.api_key): {"min": k.min_version, "max": k.max_version} for k in keys}


def without_place(source, value):
    return "(static)" if source == STATIC and value is not None else value


def configs(connection, kind, name):
    """name -> what DescribeConfigs v4 says, without the documentation."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    result = connection.call("DescribeConfigs", 4, resources=[resource], include_synonyms=True).results[0]
    assert result.error_code == 0, result
    return {c.name: config(c) for c in sorted(result.configs, key=lambda c: c.name)}


def config(entry):
    return {
        "type": entry.config_type,
        "value": without_place(entry.config_source, entry.value),
        "source": entry.config_source,
        "read_only": entry.read_only,
        "sensitive": entry.is_sensitive,
        "synonyms": [{"name": s.name, "value": without_place(s.source, s.value), "source": s.source} for s in entry.synonyms],
    }


def error_codes(address):
    known = bad_requests.prepare(address)
    return {r.name: bad_requests.answer(address, r, known) for r in bad_requests.TABLE}


def main(bootstrap):
    host, port = bootstrap.rsplit(":", 1)
    address = (host, int(port))
    write("error_codes.json", error_codes(address))
    with Connection(address) as connection:
        node = str(connection.call("Metadata", 12, topics=[]).brokers[0].node_id)
        write("apiversions_4.4.json", api_versions(connection))
        write("describe_configs_topic.json", configs(connection, bad_requests.TOPIC_RESOURCE, bad_requests.TOPIC))
        write("describe_configs_broker.json", configs(connection, bad_requests.BROKER_RESOURCE, node))


if __name__ == "__main__":
    main(sys.argv[1])
