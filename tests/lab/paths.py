"""Where the lab keeps what."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

LAB = Path(__file__).resolve().parent
KEYS = LAB / "keys"
SIM = LAB / "sim"
#: What belongs to this checkout's lab: client key, host keys, known_hosts. Git-ignored.
STATE = LAB / ".state"
#: What is slow to make: base systems, downloaded packages, the built repository.
CACHE = Path(os.environ.get("PROVISION_LAB_CACHE") or Path.home() / ".cache" / "provision-lab")

CLIENT_KEY = STATE / "id_ed25519"
KNOWN_HOSTS = STATE / "known_hosts"
#: The machines of tests/vm and where their sshd answers on 127.0.0.1; they share the lab's keys.
MACHINES = {f"vm-{letter}": port for port, letter in enumerate("abcdefgh", 22231)}


def fingerprint(parts: Iterable[str | Path]) -> str:
    """Twelve hex digits that change with the recipe: texts as they are, files and folders by content."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            digest.update(part.encode() + b"\0")
            continue
        for path in sorted(p for p in [part, *part.rglob("*")] if p.is_file()):
            digest.update(os.path.relpath(path, LAB).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
