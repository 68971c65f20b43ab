"""Which inventory is meant when none is named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from provisioner.errors import UsageError

VARIABLE = "PROVISION_INVENTORY"
FOLDER = "inventories"
USUAL = "prod.toml"


def locate(named: str | None, folder: Path, environment: Mapping[str, str]) -> Path:
    """The inventory that was named; else PROVISION_INVENTORY; else the only file in `inventories/` of `folder` (the
    working folder); else `inventories/prod.toml`. The path is relative to `folder` unless it was written absolute.

    Raises UsageError with the candidates. Whether the file can be read is found out by loading it.
    """
    if named:
        return Path(named).expanduser()
    if environment.get(VARIABLE):
        return Path(environment[VARIABLE]).expanduser()
    candidates = sorted(path.name for path in (folder / FOLDER).glob("*.toml"))
    if len(candidates) == 1:
        return Path(FOLDER, candidates[0])
    if USUAL in candidates:
        return Path(FOLDER, USUAL)
    raise UsageError(
        "it isn't clear which inventory is meant",
        why=f"candidates: {', '.join(f'{FOLDER}/{name}' for name in candidates)}"
        if candidates
        else f"there is no {FOLDER}/*.toml in {folder}",
        remedy=f"name one as INVENTORY, or set {VARIABLE}"
        if candidates
        else f"write one: provision init HOST... > {FOLDER}/{USUAL}",
    )
