"""Reads the one object that kubectl sends as protobuf whatever it is told: SelfSubjectAccessReview (auth can-i)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.cluster.apiserver.kinds import Object
from tests.cluster.apiserver.problem import Problem

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
_ATTRIBUTES = {1: "namespace", 2: "verb", 3: "group", 4: "version", 5: "resource", 6: "subresource", 7: "name"}
_PATH = {1: "path", 2: "verb"}


def decode(data: bytes) -> Object:
    """Raises Problem 415 for anything else than that review."""
    if not data.startswith(_MAGIC):
        raise Problem(400, "the body is no Kubernetes protobuf")
    unknown = dict(_fields(data[len(_MAGIC) :]))
    api_version, kind = (dict(_fields(unknown[1])).get(number, b"").decode() for number in (1, 2))
    if kind != "SelfSubjectAccessReview":
        raise Problem(415, f"protobuf is not taken here for {kind}")
    spec = dict(_fields(dict(_fields(unknown[2])).get(2, b"")))
    asked: Object = {}
    for number, name, texts in ((1, "resourceAttributes", _ATTRIBUTES), (2, "nonResourceAttributes", _PATH)):
        if number in spec:
            values = dict(_fields(spec[number]))
            asked[name] = {text: values[key].decode() for key, text in texts.items() if values.get(key)}
    return {"apiVersion": api_version, "kind": kind, "metadata": {}, "spec": asked}


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each length-delimited field; numbers are passed over."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            _, at = _varint(data, at)
        elif key & 7 == 2:
            length, at = _varint(data, at)
            yield key >> 3, data[at : at + length]
            at += length
        else:
            raise Problem(400, "a protobuf field of a kind that Kubernetes does not use")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
        shift += 7
