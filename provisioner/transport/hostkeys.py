"""Which host keys are known: OpenSSH's known_hosts files, read once and asked per host.

Each line's key stays base64 text until its host is asked for: parsing every key on every connection makes a
fleet's cost quadratic. Understood: several names, `*`, `?` and `!` patterns, hashed names, `@revoked`,
`@cert-authority`. Source: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import fnmatch
import hashlib
import hmac
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SYSTEM_FILE = Path("/etc/ssh/ssh_known_hosts")


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One line that speaks of a host. `kind` as in the file ("ssh-ed25519"), `blob` the raw public key;
    `marker` "", "@revoked" or "@cert-authority"; `where` is FILE:LINE."""

    kind: str
    blob: bytes
    marker: str
    where: str


def fingerprint(blob: bytes) -> str:
    """A public key's fingerprint as OpenSSH prints it: SHA256:…"""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def name_in_file(address: str, port: int) -> str:
    """How known_hosts names a server: the address alone for port 22, else [address]:port."""
    return address.lower() if port == 22 else f"[{address.lower()}]:{port}"


def default_files() -> tuple[Path, ...]:
    """The files OpenSSH itself would ask; the first is the one it would add to."""
    return (Path("~/.ssh/known_hosts").expanduser(), SYSTEM_FILE)


@dataclass(slots=True)
class _Index:
    """One file's lines, by the ways in which they can name a host."""

    path: Path
    plain: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    hashed: list[tuple[bytes, bytes, int, str]] = field(default_factory=list)
    patterns: list[tuple[list[str], int, str]] = field(default_factory=list)

    def add(self, number: int, line: str) -> None:
        rest = line.split(None, 1)[1] if line.startswith("@") else line
        names = rest.split(None, 1)[0]
        if names.startswith("|1|"):
            with contextlib.suppress(ValueError, binascii.Error):
                salt, digest = (base64.b64decode(part, validate=True) for part in names[3:].split("|"))
                self.hashed.append((salt, digest, number, line))
        elif any(sign in names for sign in "*?!"):
            self.patterns.append((names.lower().split(","), number, line))
        else:
            for name in names.lower().split(","):
                self.plain.setdefault(name, []).append((number, line))

    def lines(self, name: str) -> list[tuple[int, str]]:
        found = dict(self.plain.get(name, ()))
        asked = name.encode()
        found |= {number: line for salt, mac, number, line in self.hashed if hmac.digest(salt, asked, "sha1") == mac}
        found |= {number: line for patterns, number, line in self.patterns if _matches(name, patterns)}
        return sorted(found.items())


def _matches(name: str, patterns: Iterable[str]) -> bool:
    hit = False
    for pattern in patterns:
        # Brackets are literal here ("[gpu*]:2222"), as they aren't to fnmatch.
        wanted = pattern.removeprefix("!").replace("[", "[[]")
        if fnmatch.fnmatchcase(name, wanted):
            if pattern.startswith("!"):
                return False
            hit = True
    return hit


_cache: dict[Path, tuple[tuple[int, int, int], _Index]] = {}
_cache_lock = threading.Lock()
_append_lock = threading.Lock()


def _index(path: Path) -> _Index:
    """The file's index, read anew only when the file changed; an absent file is an empty one."""
    with _cache_lock:
        try:
            stat = path.stat()
            stamp = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            cached = _cache.get(path)
            if cached is not None and cached[0] == stamp:
                return cached[1]
            text = path.read_text("utf-8", "surrogateescape")
        except (FileNotFoundError, NotADirectoryError):
            return _Index(path)
        index = _Index(path)
        for number, line in enumerate(text.splitlines(), 1):
            stripped = line.strip()
            if stripped and not stripped.startswith("#") and len(stripped.split()) >= 3:
                index.add(number, stripped)
        _cache[path] = (stamp, index)
        return index


def _key(path: Path, number: int, line: str) -> KnownKey | None:
    fields = line.split()
    marker = fields.pop(0) if fields[0].startswith("@") else ""
    if len(fields) < 3:
        return None
    try:
        blob = base64.b64decode(fields[2], validate=True)
    except (ValueError, binascii.Error):
        return None
    return KnownKey(fields[1], blob, marker, f"{path}:{number}")


def known_keys(files: Sequence[Path], address: str, port: int) -> tuple[KnownKey, ...]:
    """Every key, revoked key and authority that the files name for this server, in their order.

    An authority named for the plain address counts on any port, as with OpenSSH. Raises OSError when a file is
    there and can't be read.
    """
    names = dict.fromkeys((name_in_file(address, port), address.lower()))
    keys: dict[str, KnownKey] = {}
    for nth, name in enumerate(names):
        for path in files:
            for number, line in _index(path).lines(name):
                key = _key(path, number, line)
                if key is not None and (nth == 0 or key.marker):
                    keys.setdefault(key.where, key)
    return tuple(keys.values())


def remember(path: Path, address: str, port: int, kind: str, blob: bytes) -> None:
    """Append a server's key, unless just that was done, as one write under a lock; the folder and file are made
    (0700, 0600) if missing. Raises OSError.
    """
    line = f"{name_in_file(address, port)} {kind} {base64.b64encode(blob).decode()}\n".encode()
    with _append_lock:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            there = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
            if line not in there.splitlines(keepends=True):
                os.write(descriptor, line if there.endswith(b"\n") or not there else b"\n" + line)
        finally:
            os.close(descriptor)
