"""TOML text for keys and values, in the quoting style of the file they go into."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def string(value: str, quote: str = '"') -> str:
    """A TOML string; `quote` is `"` or `'`, the latter only where the value allows it."""
    if quote == "'" and "'" not in value and not _CONTROL.search(value):
        return f"'{value}'"
    escaped = "".join(_ESCAPES.get(c, f"\\u{ord(c):04x}" if _CONTROL.match(c) else c) for c in value)
    return f'"{escaped}"'


def key(name: str, quote: str = '"') -> str:
    """A key: bare where TOML allows it, quoted otherwise."""
    return name if _BARE_KEY.fullmatch(name) else string(name, quote)


def value(item: object, quote: str = '"') -> str:
    """A value as it stands after the equals sign; tables become inline tables."""
    match item:
        case bool():
            return "true" if item else "false"
        case str():
            return string(item, quote)
        case Mapping():
            inside = ", ".join(f"{key(str(name), quote)} = {value(inner, quote)}" for name, inner in item.items())
            return f"{{ {inside} }}" if inside else "{}"
        case list() | tuple():
            return f"[{', '.join(value(inner, quote) for inner in item)}]"
        case _:
            return str(item)


def parsed_string(text: str) -> str | None:
    """The string that TOML text stands for; None where it stands for anything else."""
    try:
        item = tomllib.loads(f"item = {text}")["item"]
    except ValueError:
        return None
    return item if isinstance(item, str) else None
