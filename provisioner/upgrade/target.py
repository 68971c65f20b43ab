"""Where the target version is written: the inventory, comments kept, and the lock. Shown before it is done."""

from __future__ import annotations

from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from provisioner.errors import InventoryError, UsageError
from provisioner.model.inventory import Host, Inventory, Level


def with_version(inventory: Inventory, hosts: tuple[Host, ...], name: str, version: str) -> str:
    """The inventory file's text with `versions.NAME = VERSION` at its top level; everything else stays byte for byte.

    Raises UsageError when a host of the roll takes the version from its group or its own table: which of them is
    meant to move is for a person to say. Raises InventoryError when the file can't be edited.
    """
    variable = f"versions.{name}"
    text = inventory.path.read_text(encoding="utf-8")
    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:
        raise InventoryError("the inventory can't be edited", why=str(error), file=inventory.path) from error
    elsewhere = [host for host in hosts if _set_below(document, host, name)]
    if elsewhere:
        named = ", ".join(host.name for host in elsewhere)
        raise UsageError(
            f"{variable} of {named} is not the inventory's top-level one",
            why="a group or the host itself sets it, and --to writes the top level only",
            remedy=f"change it there by hand, run `provision lock {inventory.path}`, then leave --to out",
        )
    table = document.get("versions")
    if table is None:
        table = tomlkit.table()
        document["versions"] = table
    if not isinstance(table, Table):
        raise InventoryError("[versions] is not a table that can be edited", file=inventory.path)
    if name in table:
        item = table[name]
        trivia = getattr(item, "trivia", None)
        table[name] = version
        if trivia is not None and hasattr(table[name], "trivia"):
            # A comment behind the value stays behind it.
            table[name].trivia.comment_ws, table[name].trivia.comment = trivia.comment_ws, trivia.comment
    else:
        table[name] = version
    return tomlkit.dumps(document)


def _set_below(document: tomlkit.TOMLDocument, host: Host, name: str) -> bool:
    """Does a group of the host, or its own table, set the version?"""
    groups, hosts = document.get("groups", {}), document.get("hosts", {})
    tables = [groups.get(group, {}) for group in host.groups]
    value = host.vars.get(f"versions.{name}")
    own = value is not None and value.level is Level.HOST
    return (
        own
        or any("versions" in table and name in table["versions"] for table in tables)
        or (host.name in hosts and name in hosts[host.name].get("versions", {}))
    )


def differing(path: Path, after: str) -> tuple[str, str, str] | None:
    """(path, text before, text after) when the file would change."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    return (str(path), before, after) if before != after else None
