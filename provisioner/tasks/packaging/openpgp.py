"""Fingerprints of an armoured OpenPGP key, without gpg (RFC 4880: armour 6.2, packets 4.2, fingerprints 12.2)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator

PUBLIC_KEY = 6
"""Packet tag of a primary public key; subkeys (14) are bound to one and don't name a key file."""


def fingerprints(armoured: str) -> tuple[str, ...]:
    """Fingerprints (40 upper-case hex digits) of all primary keys of version 4 in the text, in their order.

    Raises ValueError when the text isn't an armoured public key, or holds a key of another version.
    """
    found = []
    for data in _blocks(armoured):
        for tag, body in _packets(data):
            if tag != PUBLIC_KEY:
                continue
            if body[:1] != b"\x04":
                raise ValueError(f"it holds a key of version {body[0] if body else '?'}; version 4 can be checked")
            framed = b"\x99" + len(body).to_bytes(2, "big") + body
            found.append(hashlib.sha1(framed, usedforsecurity=False).hexdigest().upper())
    if not found:
        raise ValueError("it holds no public key")
    return tuple(found)


def _blocks(text: str) -> Iterator[bytes]:
    blocks = re.findall(
        r"-----BEGIN PGP PUBLIC KEY BLOCK-----\s*?\n(.*?)-----END PGP PUBLIC KEY BLOCK-----",
        text.replace("\r\n", "\n"),
        re.S,
    )
    if not blocks:
        raise ValueError("there is no line -----BEGIN PGP PUBLIC KEY BLOCK-----")
    for block in blocks:
        lines = [line.strip() for line in block.split("\n")]
        while lines and re.match(r"[A-Za-z]+: ", lines[0]):
            lines.pop(0)
        try:
            yield base64.b64decode("".join(line for line in lines if not line.startswith("=")), validate=True)
        except binascii.Error as error:
            raise ValueError(f"its armour is damaged: {error}") from error


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        head = data[at]
        if not head & 0x80:
            raise ValueError("its packets are damaged")
        at += 1
        if head & 0x40:
            tag, (size, at) = head & 0x3F, _new_length(data, at)
        else:
            tag, width = (head >> 2) & 0x0F, 1 << (head & 3)
            if width == 8:
                raise ValueError("a packet of indeterminate length")
            size, at = int.from_bytes(data[at : at + width], "big"), at + width
        if at + size > len(data):
            raise ValueError("it breaks off in the middle")
        yield tag, data[at : at + size]
        at += size


def _new_length(data: bytes, at: int) -> tuple[int, int]:
    first = data[at] if at < len(data) else 0
    if first < 192:
        return first, at + 1
    if first < 224:
        return ((first - 192) << 8) + data[at + 1] + 192, at + 2
    if first == 255:
        return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5
    raise ValueError("a packet of partial lengths")
