"""Encodes and decodes any request or response from Kafka's own message definitions.

The definitions are the JSON files that the kafka-python package carries; what Kafka 4.4 added since is in `ADDED_IN_4_4`.
Values are plain: requests are built from keyword arguments and dictionaries, responses come back as `Struct`.
Decoding is strict: bytes left over, or too few, are an error, so a test that reads a reply has also checked its layout.
"""

import functools
import importlib.resources
import json
import re
import struct
import uuid

import kafka.protocol.schemas.resources as definitions

from .wire import (
    Reader,
    encode_bytes,
    encode_compact_bytes,
    encode_unsigned_varint,
)

FIXED = {
    "bool": struct.Struct(">?"),
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "uint32": struct.Struct(">I"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
}
FOREVER = 32767

# message -> (newest version, fields appended, dotted path of the structure that gets them)
ADDED_IN_4_4 = {
    "ApiVersionsRequest": (
        5,
        "",
        [
            {"name": "ClusterId", "type": "string", "versions": "5+", "nullableVersions": "5+", "default": "null"},
            {"name": "NodeId", "type": "int32", "versions": "5+", "default": "-1"},
        ],
    ),
    "ApiVersionsResponse": (5, "", []),
    "DeleteGroupsRequest": (3, "", []),
    "DeleteGroupsResponse": (
        3,
        "Results",
        [{"name": "ErrorMessage", "type": "string", "versions": "3+", "nullableVersions": "3+", "default": "null"}],
    ),
}


class Struct(dict):
    """A decoded structure: a dictionary whose entries are attributes too, as tests read better that way."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no field {name} at this version; there are {', '.join(self)}") from None


def snake_case(name):
    """`TopicID` style names as Python spells them: `ThrottleTimeMs` becomes `throttle_time_ms`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def version_range(text):
    """(first, last) of a range as the definitions write it: "3+", "0-12", "5" or "none"."""
    if not text or text == "none":
        return (1, 0)
    first, _, last = text.replace("+", f"-{FOREVER}").partition("-")
    return (int(first), int(last or first))


class Field:
    """One field of a message, with the versions at which it exists, may be null, and travels as a tagged field."""

    def __init__(self, definition, common):
        self.name = snake_case(definition["name"])
        self.type = definition["type"]
        self.versions = version_range(definition.get("versions", "0+"))
        self.nullable_versions = version_range(definition.get("nullableVersions"))
        self.tagged_versions = version_range(definition.get("taggedVersions"))
        self.tag = definition.get("tag")
        self.always_rigid = definition.get("flexibleVersions") == "none"
        self.is_array = self.type.startswith("[]")
        self.element = self.type.removeprefix("[]")
        nested = definition.get("fields") or common.get(self.element)
        self.fields = [Field(f, common) for f in nested] if nested else None
        self.default = self._default(definition.get("default"))

    def _default(self, text):
        if text == "null":
            return None
        if self.is_array:
            return []
        if self.fields:
            return {}
        if self.type == "bool":
            return text in (True, "true")
        if self.type == "uuid":
            return uuid.UUID(int=0)
        if self.type == "float64":
            return float(text or 0)
        if self.type in FIXED:
            return int(str(text or 0), 0)
        return text or ("" if self.type == "string" else b"")

    def exists(self, version):
        return self.versions[0] <= version <= self.versions[1]

    def is_nullable(self, version):
        return self.nullable_versions[0] <= version <= self.nullable_versions[1]

    def is_tagged(self, version):
        return self.tagged_versions[0] <= version <= self.tagged_versions[1]

    # Encoding

    def encode(self, value, version, flexible):
        flexible = flexible and not self.always_rigid
        if self.is_array:
            return self._encode_array(value, version, flexible)
        if self.fields and self.is_nullable(version):
            return b"\xff" if value is None else b"\x01" + encode_fields(self.fields, value, version, flexible)
        return self._encode_one(value, version, flexible)

    def _encode_array(self, values, version, flexible):
        count = -1 if values is None else len(values)
        head = encode_unsigned_varint(count + 1) if flexible else struct.pack(">i", count)
        return head + b"".join(self._encode_one(v, version, flexible) for v in values or [])

    def _encode_one(self, value, version, flexible):
        if self.fields:
            return encode_fields(self.fields, value, version, flexible)
        if self.element in FIXED:
            return FIXED[self.element].pack(value)
        if self.element == "uuid":
            return value.bytes
        data = value.encode() if isinstance(value, str) else value
        if flexible:
            return encode_compact_bytes(data)
        return encode_bytes(data, ">h" if self.element == "string" else ">i")

    # Decoding

    def decode(self, reader, version, flexible):
        flexible = flexible and not self.always_rigid
        if self.is_array:
            count = reader.unsigned_varint() - 1 if flexible else reader.unpack(">i")
            return None if count < 0 else [self._decode_one(reader, version, flexible) for _ in range(count)]
        if self.fields and self.is_nullable(version) and reader.unpack(">b") < 0:
            return None
        return self._decode_one(reader, version, flexible)

    def _decode_one(self, reader, version, flexible):
        if self.fields:
            return decode_fields(self.fields, reader, version, flexible)
        if self.element in FIXED:
            return reader.unpack(FIXED[self.element].format)
        if self.element == "uuid":
            return uuid.UUID(bytes=reader.take(16))
        is_text = self.element == "string"
        size = reader.unsigned_varint() - 1 if flexible else reader.unpack(">h" if is_text else ">i")
        if size < 0:
            return None
        data = reader.take(size)
        return data.decode() if is_text else data


def encode_fields(fields, values, version, flexible):
    """The bytes of a structure; fields that `values` leaves out get their default, unknown names are refused."""
    unknown = set(values) - {f.name for f in fields}
    if unknown:
        raise TypeError(f"no such field: {', '.join(sorted(unknown))}")
    present = [f for f in fields if f.exists(version)]
    body = b"".join(f.encode(values.get(f.name, f.default), version, flexible) for f in present if not f.is_tagged(version))
    if not flexible:
        return body
    tagged = sorted((f.tag, f.encode(values[f.name], version, True)) for f in present if f.is_tagged(version) and f.name in values)
    body += encode_unsigned_varint(len(tagged))
    for tag, data in tagged:
        body += encode_unsigned_varint(tag) + encode_unsigned_varint(len(data)) + data
    return body


def decode_fields(fields, reader, version, flexible):
    """A structure from its bytes; tagged fields that were not sent have their default."""
    present = [f for f in fields if f.exists(version)]
    result = Struct((f.name, f.decode(reader, version, flexible)) for f in present if not f.is_tagged(version))
    if not flexible:
        return result
    tagged = {f.tag: f for f in present if f.is_tagged(version)}
    result.update((f.name, f.default) for f in tagged.values())
    for _ in range(reader.unsigned_varint()):
        tag, data = reader.unsigned_varint(), Reader(reader.take(reader.unsigned_varint()))
        if tag in tagged:
            result[tagged[tag].name] = tagged[tag].decode(data, version, True)
            data.expect_end()
    return result


class Message:
    """A request, response or header: encodes and decodes itself at any version that Kafka 4.4 knows."""

    def __init__(self, definition):
        common = {s["name"]: s["fields"] for s in definition.get("commonStructs", [])}
        self.name = definition["name"]
        self.api_key = definition.get("apiKey")
        self.versions = version_range(definition["validVersions"])
        self.flexible_versions = version_range(definition["flexibleVersions"])
        self.fields = [Field(f, common) for f in definition["fields"]]

    def is_flexible(self, version):
        return self.flexible_versions[0] <= version <= self.flexible_versions[1]

    def encode(self, version, values):
        return encode_fields(self.fields, values, version, self.is_flexible(version))

    def decode(self, version, data):
        """Takes a whole body; raises `WireError` if it is short or has bytes left over."""
        reader = Reader(data)
        result = decode_fields(self.fields, reader, version, self.is_flexible(version))
        reader.expect_end()
        return result


def _patch(definition):
    newest, path, added = ADDED_IN_4_4[definition["name"]]
    definition["validVersions"] = f"{version_range(definition['validVersions'])[0]}-{newest}"
    fields = definition["fields"]
    if path:
        fields = next(f["fields"] for f in fields if f["name"] == path)
    known = {f["name"] for f in fields}
    fields.extend(f for f in added if f["name"] not in known)


@functools.cache
def message(name):
    """The message of that name, such as "MetadataRequest"."""
    text = importlib.resources.files(definitions).joinpath(f"{name}.json").read_text()
    definition = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    if name in ADDED_IN_4_4:
        _patch(definition)
    return Message(definition)
