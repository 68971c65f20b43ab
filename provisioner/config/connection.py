"""How hosts are reached: settings at three levels, made into one Connection per host; jump hosts checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from provisioner.config.document import Document
from provisioner.config.positions import KeyPath
from provisioner.config.ranges import Member
from provisioner.config.schema import BOOLEAN, PORT, SECONDS, SECRET, STRING, WORD, Kind, check_table, choice
from provisioner.config.secrets import SecretNames, path_beside
from provisioner.model.inventory import Connection, Host, Level, Value

SETTINGS: Mapping[str, Kind] = {
    "port": PORT,
    "user": WORD,
    "key": STRING,
    "known_hosts": STRING,
    "host_keys": choice("strict", "accept-new"),
    "jump": STRING,
    "become": choice("sudo", "none"),
    "sudo_password": SECRET,
    "agent": BOOLEAN,
    "timeout": SECONDS,
}
"""The keys of a `connection` table; a host's own table may hold them directly, and `address` too."""

ADDRESS: Mapping[str, Kind] = {"address": WORD}

_JUMP = re.compile(r"(?:[^\s@:]+@)?(?:[^\s@:\[\]]+|\[[0-9a-fA-F:]+\])(?::\d{1,5})?")
"""USER@ADDRESS:PORT, user and port optional, an IPv6 address in brackets."""


def read_settings(
    doc: Document, at: KeyPath, table: Mapping[str, Any], level: Level, secrets: SecretNames
) -> dict[str, Value]:
    """The connection settings of one table with their origins; paths are made absolute."""
    check_table(doc, at, table, {**SETTINGS, **(ADDRESS if level is Level.HOST else {})})
    settings: dict[str, Value] = {}
    for key, value in table.items():
        here = (*at, key)
        if key == "sudo_password":
            value = secrets.read(here, value)
        elif key in ("key", "known_hosts"):
            value = path_beside(doc.path, value)
        elif key == "jump" and value and not _JUMP.fullmatch(value):
            raise doc.problem(
                here,
                f"{value!r} is no jump host",
                remedy='write another host\'s name, USER@ADDRESS:PORT, or "" for none',
            )
        elif key == "timeout":
            value = float(value)
        settings[key] = Value(value, level, doc.where(here))
    return settings


def fill(text: str, member: Member) -> str:
    """`{name}`, `{digits}` ("07") and `{number}` ("7") of an address or node name, for one host; the
    latter two stay where the host isn't one of a range."""
    filled = text.replace("{name}", member.name)
    if member.digits:
        filled = filled.replace("{digits}", member.digits).replace("{number}", str(int(member.digits)))
    return filled


def connection(name: str, settings: Mapping[str, Value]) -> Connection:
    """One host's connection from its merged settings."""
    values = {key: value.value for key, value in settings.items()}
    values.setdefault("address", name)
    values["jump"] = values.get("jump") or None
    return Connection(**values)


def origins(reached: Connection, settings: Mapping[str, Value]) -> dict[str, Value]:
    """connection.KEY → value and origin of everything that holds for a host, defaults included; for people."""
    values = {field.name: getattr(reached, field.name) for field in fields(reached)}
    return {
        f"connection.{key}": settings.get(key) or Value(value, Level.PLAYBOOK, "built-in default")
        for key, value in values.items()
        if value is not None
    }


def check_jumps(doc: Document, hosts: Mapping[str, Host], places: Mapping[str, KeyPath]) -> None:
    """Raises the document's error when following jump hosts comes back to a host. `places`: a host's own table."""
    safe: set[str] = set()
    for name in hosts:
        chain: list[str] = []
        at: str | None = name
        while at is not None and at in hosts and at not in safe:
            if at in chain:
                circle = [*chain[chain.index(at) :], at]
                raise doc.problem(
                    _jump_place(doc, at, places),
                    f"the jump hosts of {at} go in a circle",
                    why=" → ".join(circle),
                    remedy=f'one of them must be reached directly: jump = "" in [hosts.{circle[-2]}]',
                )
            chain.append(at)
            at = hosts[at].connection.jump
        safe.update(chain)


def _jump_place(doc: Document, name: str, places: Mapping[str, KeyPath]) -> KeyPath:
    table = places[name]
    inside = ((*table, "jump"), (*table, "connection", "jump"))
    return next((at for at in inside if at in doc.positions), table)
