"""Host certificates: a host key signed by an authority that known_hosts names with @cert-authority.

Source: OpenSSH, PROTOCOL.certkeys.
"""

from __future__ import annotations

import fnmatch
import struct
from dataclasses import dataclass

SUFFIX = "-cert-v01@openssh.com"
_HOST = 2
_KEY_FIELDS = {"ssh-ed25519": 1, "ecdsa-sha2-nistp256": 2, "ecdsa-sha2-nistp384": 2, "ecdsa-sha2-nistp521": 2}
_KEY_FIELDS |= {"ssh-rsa": 2, "rsa-sha2-256": 2, "rsa-sha2-512": 2}


@dataclass(frozen=True, slots=True)
class HostCertificate:
    """What a certificate says. `valid_after` and `valid_before` are seconds since the epoch; `signed` is the
    part that `signature` covers; `authority` the public key that signed it, `kind` the certified key's type and
    `key` that key as a plain public key."""

    kind: str
    key: bytes
    type: int
    principals: tuple[str, ...]
    valid_after: int
    valid_before: int
    critical: bytes
    authority: bytes
    signed: bytes
    signature: bytes

    def problem(self, address: str, now: float) -> str:
        """Why this certificate doesn't speak for `address` now; "" when it does. The signature isn't checked."""
        if self.type != _HOST:
            return "it is a user's certificate, not a host's"
        if self.critical:
            return "it holds critical options, which a host's certificate can't have"
        if not self.valid_after <= now < self.valid_before:
            return "it isn't valid at this time"
        name = address.lower()
        if self.principals and not any(fnmatch.fnmatchcase(name, each.lower()) for each in self.principals):
            return f"it is for {', '.join(self.principals)}"
        return ""


class _Reader:
    def __init__(self, blob: bytes) -> None:
        self.blob, self.at = blob, 0

    def take(self, size: int) -> bytes:
        if size > len(self.blob) - self.at:
            raise ValueError("the certificate is cut short")
        self.at += size
        return self.blob[self.at - size : self.at]

    def number(self, form: str) -> int:
        value: int = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value

    def string(self) -> bytes:
        return self.take(self.number(">I"))


def _pack(*values: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(value)) + value for value in values)


def key_kind(blob: bytes) -> str:
    """The type that a public key or certificate blob begins with. Raises ValueError."""
    return _Reader(blob).string().decode("ascii", "replace")


def parse(blob: bytes) -> HostCertificate:
    """A certificate from its wire form. Raises ValueError for anything else."""
    reader = _Reader(blob)
    kind = reader.string().decode("ascii", "replace").removesuffix(SUFFIX)
    if kind not in _KEY_FIELDS:
        raise ValueError(f"a certificate for an unknown kind of key: {kind}")
    reader.string()  # nonce
    key = _pack(kind.encode(), *(reader.string() for _ in range(_KEY_FIELDS[kind])))
    reader.number(">Q")  # serial
    type_ = reader.number(">I")
    reader.string()  # key id
    names = _Reader(reader.string())
    principals = []
    while names.at < len(names.blob):
        principals.append(names.string().decode("utf-8", "replace"))
    after, before = reader.number(">Q"), reader.number(">Q")
    critical = reader.string()
    reader.string()  # extensions
    reader.string()  # reserved
    authority = reader.string()
    signed = blob[: reader.at]
    return HostCertificate(
        kind, key, type_, tuple(principals), after, before, critical, authority, signed, reader.string()
    )
