"""`--set NAME=VALUE`: the strongest level of variables, from the command line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from provisioner.config.document import suggestion
from provisioner.config.known import KINDS, RESERVED, TABLES
from provisioner.config.schema import describe
from provisioner.config.secrets import secrets_in
from provisioner.errors import UsageError
from provisioner.model.inventory import Host, Level, Value

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
"""A variable's dotted name; each part can be written in a template."""


def read_sets(sets: Sequence[str], hosts: Sequence[Host]) -> dict[str, Value]:
    """The variables of all `--set` options. `hosts` as the inventory has them, to tell which hold secrets.

    Raises UsageError for a malformed one, an unknown name, a value of another kind, or a secret.
    """
    found: dict[str, Value] = {}
    for text in sets:
        name, sign, raw = text.partition("=")
        name = name.strip()
        if not sign or not VARIABLE.fullmatch(name):
            raise UsageError(f"--set {name!r} isn't NAME=VALUE", remedy="for example: --set versions.toolkit=1.18.0")
        _refuse_secret(name, raw, hosts)
        found[name] = Value(_value(name, raw, hosts), Level.SET, f"--set {name}")
    return found


def _refuse_secret(name: str, raw: str, hosts: Sequence[Host]) -> None:
    held = any(any(secrets_in(host.vars[name].value)) for host in hosts if name in host.vars)
    connection = name.split(".")[0] in ("connection", "repositories")
    if held or re.match(r"\s*\{.*\bsecret\b", raw) or (connection and "password" in name):
        raise UsageError(
            f"--set can't set {name}: it is a secret",
            why="the command line is seen by every user of this machine and kept in the shell's history",
            remedy='set it in the inventory: { secret = "NAME", from = "env:VAR", "file:PATH" or "prompt" }',
        )


def _value(name: str, raw: str, hosts: Sequence[Host]) -> Any:
    first, _, key = name.partition(".")
    if name in KINDS:
        return _known_value(name, raw)
    if first in TABLES:
        why = suggestion(f"{first}.{key}", (f"{first}.{each}" for each in TABLES[first]))
        raise UsageError(f"--set {name}: there is no such variable", why=why)
    if first in RESERVED:
        raise UsageError(
            f"--set {name}: only variables can be set there",
            why=f"{first} isn't one",
            remedy="change it in the inventory",
        )
    close = get_close_matches(first, TABLES, 1, 0.8)
    if close and key:
        raise UsageError(f"--set {name}: there is no such variable", why=f"did you mean '{close[0]}.{key}'?")
    if any(isinstance(host.vars[name].value, str) for host in hosts if name in host.vars):
        return raw
    return _literal(raw)


def _known_value(name: str, raw: str) -> Any:
    """The text itself when the variable is a string ("580.95" is no number here), else what TOML makes of it."""
    kind = KINDS[name]
    for value in (raw, _literal(raw), raw.split(",")):
        if kind.fits(value):
            return value
    raise UsageError(f"--set {name}: it must be {kind.name}, not {describe(_literal(raw))}")


def _literal(raw: str) -> Any:
    """true, false, integers, quoted strings and arrays as TOML reads them; everything else is text."""
    if not re.fullmatch(r"true|false|[+-]?\d+|\".*\"|'.*'|\[.*\]", raw.strip(), re.DOTALL):
        return raw
    try:
        return tomllib.loads(f"value = {raw.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return raw
