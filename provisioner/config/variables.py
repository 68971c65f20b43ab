"""Flat dotted variables as the nested namespace that templates see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from provisioner.config.known import TABLES
from provisioner.errors import InventoryError
from provisioner.model.inventory import Host, Repository, Secret, Value


def nested(variables: Mapping[str, Value]) -> dict[str, Any]:
    """{"gpu.cards": 8} → {"gpu": {"cards": 8}}; secrets stand as their references, never as their text.

    Raises InventoryError when one name is both a value and a table.
    """
    tree: dict[str, Any] = {}
    tables: set[int] = {id(tree)}
    for name, value in variables.items():
        *parents, leaf = name.split(".")
        inner = tree
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                break
            tables.add(id(inner))
        if id(inner) not in tables or leaf in inner:
            other = next((each for each in variables if each != name and _clash(each, name)), name)
            raise InventoryError(
                f"{name} and {other} can't both be variables",
                why=f"one would be inside the other: {value.where}, {variables[other].where}",
                remedy="rename one of them",
            )
        inner[leaf] = _plain(value.value)
    return tree


def namespace(host: Host) -> dict[str, Any]:
    """All that a template of this host can name: its variables, and `host` with name, address, node, groups."""
    visible = {name: value for name, value in host.vars.items() if not name.startswith("connection.")}
    tree = nested(visible)
    for table in (*TABLES, "repositories"):
        tree.setdefault(table, {})
    tree["host"] = {
        "name": host.name,
        "address": host.connection.address,
        "node": host.node or host.name,
        "groups": list(host.groups),
    }
    return tree


def _clash(one: str, other: str) -> bool:
    return one.startswith(f"{other}.") or other.startswith(f"{one}.")


def _plain(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reference
    if isinstance(value, Repository):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
