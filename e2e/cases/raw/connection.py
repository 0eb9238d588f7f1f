"""One socket to a broker: frames out, frames in, and what a closed connection looks like."""

import itertools
import select
import socket
import struct

from .schema import message
from .wire import Reader

ANSWER_TIMEOUT_S = 15
MAX_FRAME_BYTES = 1 << 30


class ConnectionClosed(Exception):
    """The broker ended the connection where an answer was due."""


def request_header(api, version, correlation_id, client_id="raw"):
    """A request header, v1 or v2 as the request's version asks for."""
    request = message(f"{api}Request")
    header = message("RequestHeader")
    fields = {
        "request_api_key": request.api_key,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    return header.encode(2 if request.is_flexible(version) else 1, fields)


def response_header_version(api, version):
    """ApiVersions is always answered with header v0, so that a client can read it before it knows the broker."""
    return 1 if api != "ApiVersions" and message(f"{api}Response").is_flexible(version) else 0


class Connection:
    """A connection that does only what it is told: no handshake, no retry, no reconnect."""

    def __init__(self, address, timeout_s=ANSWER_TIMEOUT_S, receive_buffer_bytes=None):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(timeout_s)
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    # Bytes

    def send_bytes(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ConnectionClosed(str(error)) from error

    def send_frame(self, payload):
        self.send_bytes(struct.pack(">i", len(payload)) + payload)

    def receive_bytes(self, size):
        data = bytearray()
        while len(data) < size:
            try:
                piece = self.socket.recv(min(size - len(data), 1 << 20))
            except ConnectionResetError as error:
                raise ConnectionClosed(str(error)) from error
            if not piece:
                raise ConnectionClosed(f"end of stream after {len(data)} of {size} bytes")
            data += piece
        return bytes(data)

    def receive_frame(self):
        size = struct.unpack(">i", self.receive_bytes(4))[0]
        assert 0 <= size <= MAX_FRAME_BYTES, f"the broker sent a frame of {size} bytes"
        return self.receive_bytes(size)

    # Requests

    def send(self, api, version, **fields):
        """Sends a request and returns its correlation id, without waiting for an answer."""
        correlation_id = next(self._correlation_ids)
        body = message(f"{api}Request").encode(version, fields)
        self.send_frame(request_header(api, version, correlation_id) + body)
        return correlation_id

    def receive(self, api, version, correlation_id):
        """The answer to that request, which must be the next one on this connection."""
        reader = Reader(self.receive_frame())
        header_version = response_header_version(api, version)
        found = reader.unpack(">i")
        assert found == correlation_id, f"an answer with correlation id {found} came where {correlation_id} was due"
        if header_version:
            assert reader.unsigned_varint() == 0, "a response header with tagged fields"
        return message(f"{api}Response").decode(version, reader.data[reader.position :])

    def call(self, api, version, **fields):
        """Sends a request and returns its decoded answer."""
        return self.receive(api, version, self.send(api, version, **fields))

    # What a closed or silent connection looks like

    def has_answer_within(self, seconds):
        """True if bytes of an answer are there in time; they stay to be read."""
        return bool(select.select([self.socket], [], [], seconds)[0])

    def is_closed_within(self, seconds):
        """True once the broker has ended the connection; an answer in the meantime is an error."""
        self.socket.settimeout(seconds)
        try:
            data = self.socket.recv(1)
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        assert not data, f"an answer came where the connection should have been closed: {data!r}..."
        return True
