"""The primitive types of the Kafka protocol."""

import struct


class WireError(Exception):
    """Bytes that do not have the layout they should have."""


class Reader:
    """Takes values off the front of a byte string."""

    def __init__(self, data):
        self.data = bytes(data)
        self.position = 0

    def take(self, size):
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise WireError(f"{size} bytes wanted at {self.position} of {len(self.data)}")
        piece, self.position = self.data[self.position : end], end
        return piece

    def unpack(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def unsigned_varint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def varint(self):
        value = self.unsigned_varint()
        return (value >> 1) ^ -(value & 1)

    def expect_end(self):
        left = len(self.data) - self.position
        if left:
            raise WireError(f"{left} bytes left over: {self.data[self.position :][:32].hex()}")


def encode_unsigned_varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varint(value):
    """Zigzag, as records use it; up to 64 bits."""
    return encode_unsigned_varint((value << 1) ^ (value >> 63))


def encode_bytes(data, length_form):
    if data is None:
        return struct.pack(length_form, -1)
    return struct.pack(length_form, len(data)) + data


def encode_compact_bytes(data):
    if data is None:
        return b"\x00"
    return encode_unsigned_varint(len(data) + 1) + data
