"""Which keys a table may hold, and of which kind their values are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.config.document import Document, dotted, suggestion
from provisioner.config.positions import KeyPath


@dataclass(frozen=True, slots=True)
class Kind:
    """`name` as in "must be NAME"; `fits` tells whether a TOML value is of it."""

    name: str
    fits: Callable[[Any], bool]


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


STRING = Kind("a string", lambda value: isinstance(value, str))
WORD = Kind("a string without spaces", lambda value: isinstance(value, str) and bool(value) and not _blanks(value))
COUNT = Kind("an integer of 0 or more", lambda value: _is_integer(value) and value >= 0)
PORT = Kind("an integer from 1 to 65535", lambda value: _is_integer(value) and 1 <= value <= 65535)
SECONDS = Kind(
    "a number of seconds above 0", lambda value: (_is_integer(value) or isinstance(value, float)) and value > 0
)
BOOLEAN = Kind("true or false", lambda value: isinstance(value, bool))
WORDS = Kind("an array of strings without spaces", lambda value: isinstance(value, list) and all(map(WORD.fits, value)))
TABLE = Kind("a table", lambda value: isinstance(value, dict))
TABLES = Kind(
    "an array of tables", lambda value: isinstance(value, list) and all(isinstance(each, dict) for each in value)
)
SECRET = Kind("a secret", lambda value: isinstance(value, dict) and "secret" in value)
ABSOLUTE = Kind("an absolute path", lambda value: isinstance(value, str) and value.startswith("/"))


def choice(*values: str) -> Kind:
    """One of these strings."""
    return Kind(" or ".join(f'"{value}"' for value in values), lambda value: value in values)


def _blanks(text: str) -> bool:
    return any(char.isspace() or not char.isprintable() for char in text)


def describe(value: Any) -> str:
    """What a TOML value is, for people."""
    names = {bool: "the boolean", int: "the integer", float: "the number", str: "the string"}
    if type(value) in names:
        shown = str(value).lower() if isinstance(value, bool) else repr(value)
        return f"{names[type(value)]} {shown if len(shown) <= 60 else shown[:57] + '…'}"
    if isinstance(value, dict):
        return "a secret" if "secret" in value else "a table"
    return "an array" if isinstance(value, list) else f"the date {value}"


def check_table(doc: Document, at: KeyPath, table: Mapping[str, Any], schema: Mapping[str, Kind]) -> None:
    """Raises the document's error at the first unknown key or value of another kind."""
    for key, value in table.items():
        if key not in schema:
            place = f"[{dotted(at)}]" if at else "the inventory's top level" if "hosts" in schema else "the top level"
            raise doc.problem((*at, key), f"unknown key {key!r} in {place}", why=suggestion(key, schema))
        require(doc, (*at, key), value, schema[key])


def require(doc: Document, at: KeyPath, value: Any, kind: Kind) -> None:
    """Raises the document's error when the value isn't of the kind."""
    if kind.fits(value):
        return
    if kind is SECRET:  # what stands there may be the password itself: it isn't repeated
        name = str(at[-1])
        raise doc.problem(
            at,
            f"{dotted(at)} must be a secret",
            why="passwords don't stand in an inventory",
            remedy=f'write {name} = {{ secret = "{name}", from = "prompt" }}, or from = "env:VAR" or "file:PATH"',
        )
    raise doc.problem(at, f"{dotted(at)} must be {kind.name}, not {describe(value)}")
