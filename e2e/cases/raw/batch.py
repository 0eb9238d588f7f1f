"""Record batches (magic 2): built with any field wrong on purpose, and read back field by field."""

import dataclasses
import gzip
import struct
import time

import cramjam
import crc32c
import lz4.frame
import zstandard

from .wire import Reader, encode_varint

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
ALL_CODECS = {"none": 0, **CODECS}
LOG_APPEND_TIME = 1 << 3
TRANSACTIONAL = 1 << 4
CONTROL = 1 << 5
CODEC_MASK = 0x07

# After base offset, length, leader epoch, magic and CRC: what the CRC covers, up to the records.
CRC_COVERED = struct.Struct(">hiqqqhii")
PREFIX = struct.Struct(">qiibI")
HEADER_BYTES = PREFIX.size + CRC_COVERED.size
SNAPPY_JAVA_MAGIC = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def now_ms():
    return time.time_ns() // 1_000_000


HOUR_AGO = now_ms() - 3_600_000  # records dated so are in every window, and no retention minds them


@dataclasses.dataclass
class Record:
    """A record; `offset` and `timestamp` are absolute (offset 0 is the batch's first)."""

    value: bytes | None = b""
    key: bytes | None = None
    headers: tuple = ()
    timestamp: int | None = None
    offset: int | None = None


@dataclasses.dataclass
class Batch:
    """A record batch; a field left `None` is computed as an honest producer would."""

    records: list
    codec: int = 0
    attributes: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    base_offset: int = 0
    leader_epoch: int = -1
    magic: int = 2
    last_offset_delta: int | None = None
    base_timestamp: int | None = None
    max_timestamp: int | None = None
    record_count: int | None = None
    crc: int | None = None
    length: int | None = None
    payload: bytes | None = None  # in place of the encoded (and compressed) records

    def encode(self):
        times = [now_ms() if r.timestamp is None else r.timestamp for r in self.records]
        base = _or(self.base_timestamp, times[0] if times else now_ms())
        count = len(self.records)
        payload = self.payload
        if payload is None:
            timed = enumerate(zip(self.records, times, strict=True))
            payload = compress(self.codec, b"".join(_encode_record(r, i, t - base) for i, (r, t) in timed))
        covered = CRC_COVERED.pack(
            self.attributes | self.codec,
            _or(self.last_offset_delta, max(count - 1, 0)),
            base,
            _or(self.max_timestamp, max(times, default=base)),
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            _or(self.record_count, count),
        )
        covered += payload
        length = _or(self.length, len(covered) + PREFIX.size - 12)
        crc = _or(self.crc, crc32c.crc32c(covered))
        return PREFIX.pack(self.base_offset, length, self.leader_epoch, self.magic, crc) + covered


def _or(value, default):
    return default if value is None else value


def _sized(data):
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


def _encode_record(record, index, timestamp_delta):
    body = b"\x00" + encode_varint(timestamp_delta) + encode_varint(_or(record.offset, index))
    body += _sized(record.key) + _sized(record.value) + encode_varint(len(record.headers))
    for key, value in record.headers:
        body += _sized(key) + _sized(value)
    return encode_varint(len(body)) + body


def values_batch(*values, **fields):
    """A batch with one keyless record for each value."""
    return Batch([Record(value=v) for v in values], **fields)


# Compression


def compress(codec, data):
    """As a client would: snappy in Java's frame (what most clients send), the others in their own frame."""
    if codec == GZIP:
        return gzip.compress(data)
    if codec == SNAPPY:
        return snappy_java_frame(data)
    if codec == LZ4:
        return lz4.frame.compress(data, block_linked=False)  # no Kafka client links blocks
    if codec == ZSTD:
        return zstandard.ZstdCompressor().compress(data)
    return data


def raw_snappy(data):
    """One snappy block without a frame, as librdkafka and sarama can send it."""
    return bytes(cramjam.snappy.compress_raw(data))


def snappy_java_frame(data, block_bytes=32 * 1024):
    """snappy-java's stream: a magic, then blocks with a big-endian length each."""
    out = bytearray(SNAPPY_JAVA_MAGIC)
    for start in range(0, len(data), block_bytes):
        block = raw_snappy(data[start : start + block_bytes])
        out += struct.pack(">i", len(block)) + block
    return bytes(out)


def decompress(codec, data):
    if codec == GZIP:
        return gzip.decompress(data)
    if codec == SNAPPY:
        return _decompress_snappy(data)
    if codec == LZ4:
        return lz4.frame.decompress(data)
    if codec == ZSTD:
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data


def _decompress_snappy(data):
    if not data.startswith(SNAPPY_JAVA_MAGIC[:8]):
        return bytes(cramjam.snappy.decompress_raw(data))
    reader, out = Reader(data[16:]), bytearray()
    while reader.position < len(reader.data):
        out += cramjam.snappy.decompress_raw(reader.take(reader.unpack(">i")))
    return bytes(out)


# Reading


@dataclasses.dataclass
class ReadBatch:
    """A batch as it came from the broker, with its records' absolute offsets and timestamps."""

    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    crc_is_right: bool
    raw: bytes
    records: list

    @property
    def codec(self):
        return self.attributes & CODEC_MASK

    @property
    def has_log_append_time(self):
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def next_offset(self):
        return self.base_offset + self.last_offset_delta + 1


def read_batches(data):
    """Every whole batch in a fetch response's records; a cut-off last one is left out, as consumers do."""
    batches, reader = [], Reader(data or b"")
    while len(reader.data) - reader.position >= HEADER_BYTES:
        length = struct.unpack_from(">i", reader.data, reader.position + 8)[0]
        if reader.position + 12 + length > len(reader.data):
            break
        batches.append(_read_batch(reader.take(12 + length)))
    return batches


def _read_batch(raw):
    base_offset, _, leader_epoch, magic, crc = PREFIX.unpack_from(raw)
    assert magic == 2, f"a batch of magic {magic} at {base_offset}"
    covered = raw[PREFIX.size :]
    attributes, last_delta, base_time, max_time, pid, epoch, sequence, count = CRC_COVERED.unpack_from(covered)
    body = Reader(decompress(attributes & CODEC_MASK, covered[CRC_COVERED.size :]))
    fixed_time = max_time if attributes & LOG_APPEND_TIME else None
    records = [_read_record(body, base_offset, base_time, fixed_time) for _ in range(count)]
    body.expect_end()
    return ReadBatch(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=last_delta,
        base_timestamp=base_time,
        max_timestamp=max_time,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        crc_is_right=crc == crc32c.crc32c(covered),
        raw=raw,
        records=records,
    )


def _take_sized(reader):
    size = reader.varint()
    return None if size < 0 else reader.take(size)


def _read_record(body, base_offset, base_timestamp, fixed_timestamp):
    reader = Reader(body.take(body.varint()))
    reader.take(1)
    timestamp = base_timestamp + reader.varint()
    offset = base_offset + reader.varint()
    key, value = _take_sized(reader), _take_sized(reader)
    headers = tuple((_take_sized(reader), _take_sized(reader)) for _ in range(reader.varint()))
    reader.expect_end()
    return Record(value, key, headers, timestamp if fixed_timestamp is None else fixed_timestamp, offset)
