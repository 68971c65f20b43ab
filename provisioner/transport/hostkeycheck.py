"""Whether the key a server shows is the one it is known by; if not, what to do about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from provisioner.errors import HostKeyError
from provisioner.quoting import words
from provisioner.transport import hostcert
from provisioner.transport.hostkeys import KnownKey, default_files, fingerprint, known_keys, name_in_file, remember

PREFERRED = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
"""Host key algorithms, best first."""

Verify = Callable[[bytes, bytes, bytes], bool]
"""(public key, signed data, signature) → whether the signature is that key's."""


@dataclass(frozen=True)
class HostKeyCheck:
    """The rules for one server. `files` are the known_hosts files, the first is the one that `accept_new` adds
    to; `warn` gets a line when it did."""

    address: str
    port: int
    files: tuple[Path, ...]
    known: tuple[KnownKey, ...]
    accept_new: bool
    warn: Callable[[str], None]

    def algorithms(self) -> tuple[str, ...]:
        """What to ask the server for: certificates if an authority is known, then known kinds, then others."""
        plain = {key.kind for key in self.known if not key.marker}
        kinds = {"rsa-sha2-512": "ssh-rsa", "rsa-sha2-256": "ssh-rsa"}
        first = [each for each in PREFERRED if kinds.get(each, each) in plain]
        order = first + [each for each in PREFERRED if each not in first]
        certified = any(key.marker == "@cert-authority" for key in self.known)
        return tuple([each + hostcert.SUFFIX for each in PREFERRED] * certified + order)

    def check(self, blob: bytes, verify: Verify) -> None:
        """Accept the key or certificate `blob` that the server proved to hold. Raises HostKeyError."""
        kind = hostcert.key_kind(blob)
        if kind.endswith(hostcert.SUFFIX):
            blob = self._certified(blob, verify)
            if not blob:
                return
            kind = hostcert.key_kind(blob)
        self._refuse_revoked(blob)
        plain = [key for key in self.known if not key.marker]
        if any(key.blob == blob for key in plain):
            return
        if plain:
            raise self._changed(kind, blob, plain)
        if not self.accept_new:
            raise self._unknown(kind, blob)
        try:
            remember(self.files[0], self.address, self.port, kind, blob)
        except OSError as error:
            raise HostKeyError(
                f"can't record the key of {self._name}",
                why=f"{self.files[0]}: {error.strerror}",
                remedy="make that file writable, or name another one as known_hosts in the inventory",
            ) from error
        self.warn(f"accepted the new {_short(kind)} key {fingerprint(blob)} and added it to {self.files[0]}")

    @property
    def _name(self) -> str:
        return name_in_file(self.address, self.port)

    def _refuse_revoked(self, blob: bytes) -> None:
        for key in self.known:
            if key.marker == "@revoked" and key.blob == blob:
                raise HostKeyError(
                    f"the key of {self._name} was revoked",
                    why=f"{key.where} marks {fingerprint(blob)} as @revoked: somebody else may hold it",
                    remedy="give the host a new key and record that one",
                )

    def _certified(self, blob: bytes, verify: Verify) -> bytes:
        """b"" when an authority we know vouches for the server, else the plain key to judge instead."""
        certificate = hostcert.parse(blob)
        self._refuse_revoked(certificate.key)
        self._refuse_revoked(certificate.authority)
        trusted = [key for key in self.known if key.marker == "@cert-authority" and key.blob == certificate.authority]
        if not trusted:
            return certificate.key
        problem = certificate.problem(self.address, time.time())
        if not problem and not verify(certificate.authority, certificate.signed, certificate.signature):
            problem = "its signature is wrong"
        if problem:
            raise HostKeyError(
                f"the host certificate of {self._name} doesn't count",
                why=f"{problem} (authority {fingerprint(certificate.authority)}, {trusted[0].where})",
                remedy="sign the host's key anew with that authority: ssh-keygen -s CA -h -n NAME KEY.pub",
            )
        return b""

    def _changed(self, kind: str, blob: bytes, plain: Sequence[KnownKey]) -> HostKeyError:
        same = [key for key in plain if key.kind == kind] or plain
        listed = ", ".join(f"{_short(key.kind)} {fingerprint(key.blob)} ({key.where})" for key in same)
        path = same[0].where.rpartition(":")[0]
        return HostKeyError(
            f"the key of {self._name} has changed: it shows {_short(kind)} {fingerprint(blob)}",
            why=f"known is {listed}. The host was installed anew, or somebody stands in between",
            remedy="compare the fingerprint on the host's console (ssh-keygen -lf /etc/ssh/ssh_host_"
            f"{_short(kind).lower()}_key.pub); if it is right, remove {', '.join(key.where for key in same)}: "
            f"ssh-keygen {words(('-R', self._name, '-f', path))}",
        )

    def _unknown(self, kind: str, blob: bytes) -> HostKeyError:
        scan = words(("ssh-keyscan", "-t", _short(kind).lower(), "-p", str(self.port), self.address))
        return HostKeyError(
            f"the key of {self._name} is unknown: {_short(kind)} {fingerprint(blob)}",
            why=f"no line for it in {' or '.join(map(str, self.files))}",
            remedy="compare the fingerprint on the host's console (ssh-keygen -lf /etc/ssh/ssh_host_"
            f"{_short(kind).lower()}_key.pub), then record it: {scan} >> {words((str(self.files[0]),))}; "
            'or set host_keys = "accept-new" in the inventory to trust whoever answers first',
        )


def _short(kind: str) -> str:
    """ "ssh-ed25519" → ED25519, "ecdsa-sha2-nistp256" → ECDSA."""
    return kind.removeprefix("ssh-").split("-")[0].upper()


def host_key_check(
    address: str, port: int, known_hosts: Path | None, *, accept_new: bool, warn: Callable[[str], None]
) -> HostKeyCheck:
    """The rules for a server by the inventory's settings. Raises HostKeyError when known_hosts can't be read."""
    files = (known_hosts.expanduser(),) if known_hosts is not None else default_files()
    try:
        known = known_keys(files, address, port)
    except OSError as error:
        raise HostKeyError(
            f"can't read the known host keys for {address}",
            why=f"{error.filename}: {error.strerror}",
            remedy="make the file readable, or name another one as known_hosts in the inventory",
        ) from error
    return HostKeyCheck(address, port, files, known, accept_new, warn)
