"""A TOML file that was read, and errors that point into it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from provisioner.config.positions import KeyPath, Position, key_positions
from provisioner.errors import ConfigError

_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_TOML_TWICE = re.compile(r"^Cannot (?:declare|mutate|overwrite)\b")


@dataclass(frozen=True)
class Document:
    """A TOML file's text and data. `error` is the class of the errors that it raises."""

    path: Path
    text: str
    data: dict[str, Any]
    error: type[ConfigError]

    @cached_property
    def positions(self) -> dict[KeyPath, Position]:
        """Line and column of each key and array element."""
        return key_positions(self.text)

    def position(self, at: KeyPath) -> Position | None:
        """Where a key stands, or else the nearest table that would hold it."""
        for end in range(len(at), 0, -1):
            if at[:end] in self.positions:
                return self.positions[at[:end]]
        return None

    def where(self, at: KeyPath) -> str:
        """For people: "prod.toml:14 [groups.h100.versions]"."""
        place = self.position(at)
        table = dotted(at[:-1])
        return f"{self.path.name}{f':{place[0]}' if place else ''}{f' [{table}]' if table else ''}"

    def problem(self, at: KeyPath, what: str, *, why: str = "", remedy: str = "") -> ConfigError:
        """An error at a key of this file, to be raised."""
        line, column = self.position(at) or (None, None)
        return self.error(what, why=why, remedy=remedy, file=self.path, line=line, column=column)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text was written that is no file of its own: a field (`what`) of a playbook."""

    file: Path
    line: int | None
    column: int | None
    what: str


def dotted(at: KeyPath) -> str:
    """A key path as TOML writes it: groups.h100, hosts."gpu[01-16]"; indexes are left out."""
    keys = (key for key in at if isinstance(key, str))
    return ".".join(key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else f'"{key}"' for key in keys)


def suggestion(wrong: str, known: Iterable[str]) -> str:
    """A sentence for an unknown name: the nearest known one, or all when they are few."""
    names = [str(name) for name in known]
    close = get_close_matches(wrong, names, 1)
    if close:
        return f"did you mean {close[0]!r}?"
    if not names:
        return ""
    shown = ", ".join(names[:12])
    return f"known here: {shown}{', …' if len(names) > 12 else ''}"


def read_document(path: Path, error: type[ConfigError]) -> Document:
    """Read a TOML file. Raises `error` with line and column when it can't be read or isn't TOML."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        siblings = [each.name for each in path.parent.glob(f"*{path.suffix}")] if path.parent.is_dir() else []
        raise error("there is no such file", why=suggestion(path.name, siblings), file=path) from None
    except OSError as failure:
        raise error("the file can't be read", why=failure.strerror or str(failure), file=path) from None
    try:
        text = raw.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as failure:
        before = raw[: failure.start]
        raise error(
            "the file isn't UTF-8",
            why=f"byte 0x{raw[failure.start]:02x} stands where text should",
            remedy="save it as UTF-8",
            file=path,
            line=before.count(b"\n") + 1,
            column=len(before) - (before.rfind(b"\n") + 1) + 1,
        ) from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as failure:
        raise _syntax_error(path, text, str(failure), error) from None
    return Document(path, text, data, error)


def _syntax_error(path: Path, text: str, message: str, error: type[ConfigError]) -> ConfigError:
    place = _TOML_PLACE.search(message)
    said = message[: place.start()] if place else message
    if place and place[1]:
        line, column = int(place[1]), int(place[2])
    else:
        line, column = text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1
    if _TOML_TWICE.search(said):
        return _declared_twice(path, text, line, error)
    return error(f"this isn't TOML: {said}", file=path, line=line, column=column)


def _declared_twice(path: Path, text: str, line: int, error: type[ConfigError]) -> ConfigError:
    """tomllib names neither the key nor its first place; the text before the second one tells both."""
    lines = text.split("\n")
    before = key_positions("\n".join(lines[: line - 1]))
    written = lines[line - 1].strip()
    column = len(lines[line - 1]) - len(lines[line - 1].lstrip()) + 1
    header = written.startswith("[")
    try:
        alone = key_positions(written if header else f"{written.partition('=')[0]}= 0")
    except (IndexError, tomllib.TOMLDecodeError):
        alone = {}
    end = max(alone, key=len, default=())
    table: KeyPath = ()
    if not header:
        tables = [(place, key) for key, place in before.items() if lines[place[0] - 1].lstrip().startswith("[")]
        table = max(tables, default=((0, 0), ()))[1]
    whole = (*table, *end)
    first = before.get(whole)
    host = len(whole) == 2 and whole[0] == "hosts"
    kind, name = ("host", str(whole[-1])) if host else ("table" if header else "key", dotted(whole))
    return error(
        f"the {kind} {name!r} is declared twice",
        why=f"first on line {first[0]}" if first else "an earlier line declares it",
        remedy="keep one of them",
        file=path,
        line=line,
        column=column,
    )
