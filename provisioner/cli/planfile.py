"""Saved plans: what `plan --out` writes and `apply --plan` reads."""

from __future__ import annotations

from pathlib import Path

from provisioner.errors import UsageError
from provisioner.model import planjson
from provisioner.model.plan import Plan
from provisioner.replacing import replace_file


def save(found: Plan, path: Path) -> None:
    """Write the plan atomically, readable by its owner only: it holds what the hosts' files will hold."""
    try:
        replace_file(path, planjson.dumps(found).encode(errors="surrogateescape"), private=True)
    except OSError as error:
        raise UsageError(
            f"can't save the plan to {path}", why=error.strerror or str(error), remedy="name another --out FILE"
        ) from error


def load(path: Path) -> Plan:
    """A saved plan. Raises UsageError when there is none, ConfigError when it can't be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"can't read the saved plan {path}",
            why=(error.strerror or str(error)) if isinstance(error, OSError) else "it isn't UTF-8",
            remedy="make one with `provision plan --out FILE`",
        ) from error
    return planjson.loads(text, str(path))
