"""An inventory as text and JSON: its hosts, and each value with its origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from provisioner.model.inventory import Host, Inventory, Secret
from provisioner.report.names import counted
from provisioner.report.paint import PLAIN, Paint
from provisioner.report.printable import one_line


def hosts_table(inventory: Inventory, paint: Paint = PLAIN) -> str:
    """One line a host: name, how it is reached, its groups."""
    rows = [("HOST", "ADDRESS", "NODE", "GROUPS")]
    rows += [
        (host.name, address(host), host.node or host.name, ", ".join(host.groups) or "-") for host in inventory.hosts
    ]
    lines = columns(rows)
    return "\n".join([paint("bold", lines[0]), *lines[1:], counted(len(inventory.hosts), "host")]) + "\n"


def host_values(host: Host, paint: Paint = PLAIN) -> str:
    """One host: each variable, `connection.*` among them, with its value, level and place."""
    rows = [
        (name, shown(plain(value.value)), value.level.value, value.where) for name, value in sorted(host.vars.items())
    ]
    head = f"{host.name}  {counted(len(host.vars), 'value')}"
    return "\n".join([paint("bold", one_line(head)), *(f"  {line}" for line in columns(rows))]) + "\n"


def host_json(host: Host) -> dict[str, Any]:
    """The same as data."""
    return {
        "groups": list(host.groups),
        "node": host.node,
        "connection": plain(host.connection),
        "variables": {
            name: {"value": plain(value.value), "level": value.level.value, "where": value.where}
            for name, value in sorted(host.vars.items())
        },
    }


def address(host: Host) -> str:
    """USER@ADDRESS:PORT, as far as it says more than the defaults, and the way there."""
    reached = host.connection
    user = f"{reached.user}@" if reached.user else ""
    port = f":{reached.port}" if reached.port != 22 else ""
    return f"{user}{reached.address}{port}" + (f" via {reached.jump}" if reached.jump else "")


def plain(value: Any) -> Any:
    """A value as JSON-able data; a secret as its reference."""
    if isinstance(value, Secret):
        return value.reference
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def shown(value: Any, width: int = 70) -> str:
    """A value on one line; one longer than `width` characters cut."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        text = ", ".join(f"{key} = {shown(item, width)}" for key, item in value.items() if item not in (None, "", []))
    elif isinstance(value, list | tuple):
        text = f"[{', '.join(shown(item, width) for item in value)}]"
    else:
        text = str(value)
    text = one_line(text)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def columns(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows as lines with aligned columns."""
    cells = [tuple(one_line(cell) for cell in row) for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))] if cells else []
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
