"""The lock as a file: TOML that a person can compare, one line a package, in one order whatever the run's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provisioner.config.document import Document, dotted, read_document
from provisioner.config.known import KINDS
from provisioner.config.positions import KeyPath
from provisioner.config.schema import STRING, TABLES, WORD, WORDS, Kind, check_table, choice
from provisioner.config.tomltext import toml_array, toml_string
from provisioner.errors import LockError
from provisioner.model.lock import Closure, Lock, LockedPackage

HEADER = """\
# Written by `provision lock`; kept under version control, not edited by hand.
# The exact packages per distribution. Those of the roles driver and toolkit are installed at exactly
# these versions and held; dependencies are recorded only.
"""

_TEXTS: Mapping[str, Kind] = {
    "distribution": WORD,
    "arch": WORD,
    "source": KINDS["driver.source"],
    "driver": STRING,
    "flavour": STRING,
    "toolkit": STRING,
}
_CLOSURE: Mapping[str, Kind] = {**_TEXTS, "top": WORDS, "packages": TABLES}
_PACKAGE: Mapping[str, Kind] = {
    "name": WORD,
    "version": WORD,
    "arch": WORD,
    "role": choice("driver", "toolkit", "dependency"),
}


def write_lock(lock: Lock) -> str:
    """The text of the file; equal locks give equal texts."""
    parts = [HEADER]
    for closure in sorted(lock.closures, key=_order):
        lines = ["", "[[closures]]"]
        lines += [f"{key} = {toml_string(getattr(closure, key))}" for key in _TEXTS]
        lines += [f"top = {toml_array(closure.top)}", "packages = ["]
        for package in sorted(closure.packages):
            fields = ", ".join(f"{key} = {toml_string(getattr(package, key))}" for key in _PACKAGE)
            lines.append(f"    {{ {fields} }},")
        parts.append("\n".join([*lines, "]", ""]))
    return "".join(parts)


def read_lock(path: Path) -> Lock | None:
    """The lock, or None when there is no such file. Raises LockError with the line of what is wrong."""
    if not path.exists():
        return None
    doc = read_document(path, LockError)
    check_table(doc, (), doc.data, {"closures": TABLES})
    return Lock(tuple(_closure(doc, ("closures", n), table) for n, table in enumerate(doc.data.get("closures", ()))))


def _closure(doc: Document, at: KeyPath, table: Mapping[str, Any]) -> Closure:
    _complete(doc, at, table, _CLOSURE)
    packages = []
    for number, inner in enumerate(table["packages"]):
        here = (*at, "packages", number)
        _complete(doc, here, inner, _PACKAGE)
        packages.append(LockedPackage(**inner))
    texts = {key: table[key] for key in _TEXTS}
    return Closure(**texts, top=tuple(table["top"]), packages=tuple(packages))


def _complete(doc: Document, at: KeyPath, table: Mapping[str, Any], schema: Mapping[str, Kind]) -> None:
    """Every key is there and of its kind."""
    check_table(doc, at, table, schema)
    missing = [key for key in schema if key not in table]
    if missing:
        raise doc.problem(
            at,
            f"{dotted(at)} lacks {', '.join(missing)}",
            why="the lock was edited, or written by another version",
            remedy="write it anew: provision lock",
        )


def _order(closure: Closure) -> tuple[str, ...]:
    return tuple(getattr(closure, key) for key in _TEXTS)
