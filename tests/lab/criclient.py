"""CRI's ``RuntimeService/Status`` asked of a lab host's containerd: what kubelet would see, told by nobody else.

A host has neither grpcio nor, always, Python. Its perl carries bytes between the socket and this side, which speaks
as much HTTP/2 (RFC 9113), HPACK (RFC 7541) and protobuf as one call needs. Response headers are not decoded: a call
without an answer says why in the gRPC status that they hold, and here only that there was none.
"""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from tests.lab import LabHost
from tests.lab.engine import docker_command

SOCKET = "/run/containerd/containerd.sock"
_CARRY = r"""
use IO::Socket::UNIX;
my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "$ARGV[0]: $!\n";
my $child = fork;
if ($child) { while (sysread STDIN, $b, 65536) { syswrite $s, $b } kill TERM => $child }
else { while (sysread $s, $b, 65536) { syswrite STDOUT, $b } }
"""
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 1, 1, 4, 8
_WIDE = 2**24


class NoAnswer(Exception):
    """The call failed: containerd doesn't run, or runs without its CRI plugin."""


@dataclass(frozen=True)
class Handler:
    """A handler as the CRI plugin has it; ``systemd_cgroup`` None where its options don't say."""

    runtime_type: str
    binary: str
    systemd_cgroup: bool | None


@dataclass(frozen=True)
class Status:
    """The part of ``Status(verbose)`` that is about handlers. ``config`` is all of the plugin's configuration."""

    default: str
    handlers: dict[str, Handler]
    config: dict[str, Any]


def status(host: LabHost) -> Status:
    """The effective handlers of a host's containerd. Raises NoAnswer where the CRI plugin doesn't answer."""
    info = dict(_info(_call(host, "/runtime.v1.RuntimeService/Status", b"\x08\x01")))
    config = json.loads(info["config"])
    containerd = config["containerd"]
    handlers = {}
    for name, runtime in containerd["runtimes"].items():
        options = runtime.get("options") or {}
        handlers[name] = Handler(
            runtime.get("runtimeType", ""), options.get("BinaryName", ""), options.get("SystemdCgroup")
        )
    return Status(containerd["defaultRuntimeName"], handlers, config)


def _call(host: LabHost, method: str, message: bytes) -> bytes:
    """The message that answers a unary call."""
    carrier = subprocess.Popen(
        [*docker_command(), "exec", "-i", host.container, "perl", "-e", _CARRY, SOCKET],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert carrier.stdin
    assert carrier.stdout
    assert carrier.stderr
    try:
        carrier.stdin.write(_request(method, message))
        carrier.stdin.flush()
        body = _answer(carrier.stdin, carrier.stdout)
    except (BrokenPipeError, EOFError) as error:
        carrier.kill()
        said = carrier.stderr.read().decode(errors="replace").strip()
        raise NoAnswer(f"{host.name}: {said or error or 'the connection was closed'}") from None
    finally:
        carrier.stdin.close()
        carrier.kill()
        carrier.wait()
        carrier.stdout.close()
        carrier.stderr.close()
    if len(body) < 5:
        raise NoAnswer(f"{host.name}: {method} gave an error and no answer")
    return body[5:]


def _request(method: str, message: bytes) -> bytes:
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": method,
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    fields = b"".join(b"\x00" + _string(name) + _string(value) for name, value in headers.items())
    return (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + _frame(_SETTINGS, 0, 0, struct.pack(">HI", 4, _WIDE))  # the window of each stream
        + _frame(_WINDOW, 0, 0, struct.pack(">I", _WIDE))
        + _frame(_HEADERS, _END_HEADERS, 1, fields)
        + _frame(_DATA, _END_STREAM, 1, struct.pack(">BI", 0, len(message)) + message)
    )


def _string(text: str) -> bytes:
    """A literal without Huffman coding; all here are shorter than 127 bytes."""
    return bytes([len(text)]) + text.encode()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _answer(to: IO[bytes], source: IO[bytes]) -> bytes:
    """The body of stream 1. Raises EOFError where the other side ends it all."""
    body = b""
    while True:
        head = _exactly(source, 9)
        kind, flags, stream = head[3], head[4], struct.unpack(">I", head[5:])[0]
        payload = _exactly(source, int.from_bytes(head[:3]))
        if kind == _SETTINGS and not flags & _ACK:
            to.write(_frame(_SETTINGS, _ACK, 0, b""))
            to.flush()
        elif kind == _PING and not flags & _ACK:
            to.write(_frame(_PING, _ACK, 0, payload))
            to.flush()
        elif kind == _GOAWAY:
            raise EOFError("containerd ended the connection")
        elif stream == 1:
            if kind == _DATA:
                body += payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload
            if kind == _RESET or (kind in (_DATA, _HEADERS) and flags & _END_STREAM):
                return body


def _exactly(source: IO[bytes], size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _info(response: bytes) -> Iterator[tuple[str, str]]:
    """The map ``info`` (field 2) of a StatusResponse."""
    for number, value in _fields(response):
        if number == 2:
            entry = dict(_fields(value))
            yield entry.get(1, b"").decode(), entry.get(2, b"").decode()


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of a message's length-delimited fields."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        wire = tag & 7
        if wire == 0:
            _, at = _varint(message, at)
        elif wire == 2:
            size, at = _varint(message, at)
            yield tag >> 3, message[at : at + size]
            at += size
        else:
            at += {1: 8, 5: 4}[wire]


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not byte & 0x80:
            return value, at
