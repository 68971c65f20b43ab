"""Line and column of every key of a TOML text, which tomllib doesn't tell.

The text must have been accepted by tomllib before; so this scanner only finds, and checks nothing.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right

KeyPath = tuple[str | int, ...]
"""Keys, and indexes of array elements, from the document's root."""

Position = tuple[int, int]
"""Line and column, both from 1."""

_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:\\.|[^"\\\n])*"' r"|'[^'\n]*'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_OTHER_VALUE = re.compile(r"[^,\]}#\n]+")


def key_positions(text: str) -> dict[KeyPath, Position]:
    """Where each table, key and array element of a valid TOML text begins."""
    return _Scanner(text).scan()


class _Scanner:
    """One pass over a text; `at` is the offset of what comes next."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.found: dict[KeyPath, Position] = {}
        self.elements: dict[KeyPath, int] = {}
        """Arrays of tables: how many elements were begun."""

    def scan(self) -> dict[KeyPath, Position]:
        table: KeyPath = ()
        while self._skip(_BLANK) < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
        return self.found

    def _skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at

    def _note(self, path: KeyPath, offset: int) -> None:
        line = bisect_right(self.line_starts, offset)
        self.found.setdefault(path, (line, offset - self.line_starts[line - 1] + 1))

    def _header(self) -> KeyPath:
        array = self.text.startswith("[[", self.at)
        self.at += 2 if array else 1
        *parents, (last, offset) = self._keys()
        self.at += 2 if array else 1
        path: KeyPath = ()
        for key, start in parents:
            path = (*path, key)
            self._note(path, start)
            if path in self.elements:
                path = (*path, self.elements[path] - 1)
        path = (*path, last)
        if array:
            self._note(path, offset)
            self.elements[path] = self.elements.get(path, 0) + 1
            path = (*path, self.elements[path] - 1)
        else:
            self.found.pop(path, None)  # a header of its own says more than being named in another's
        self._note(path, offset)
        return path

    def _keys(self) -> list[tuple[str, int]]:
        keys: list[tuple[str, int]] = []
        while True:
            start = self._skip(_SPACE)
            quoted = self.text[start] in "\"'"
            self._skip(_STRING if quoted else _BARE_KEY)
            raw = self.text[start : self.at]
            keys.append((tomllib.loads(f"key = {raw}")["key"] if quoted else raw, start))
            self._skip(_SPACE)
            if self.text[self.at] != ".":
                return keys
            self.at += 1

    def _pair(self, table: KeyPath) -> None:
        path = table
        for key, start in self._keys():
            path = (*path, key)
            self._note(path, start)
        self.at += 1  # the equals sign
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        first = self.text[self.at]
        if first in "\"'":
            self._skip(_STRING)
        elif first == "[":
            self._array(path)
        elif first == "{":
            self.at += 1
            while self.text[self._skip(_BLANK)] != "}":
                self._pair(path)
                self._comma()
            self.at += 1
        else:
            self._skip(_OTHER_VALUE)

    def _array(self, path: KeyPath) -> None:
        self.at += 1
        index = 0
        while self.text[self._skip(_BLANK)] != "]":
            self._note((*path, index), self.at)
            self._value((*path, index))
            self._comma()
            index += 1
        self.at += 1

    def _comma(self) -> None:
        if self.text[self._skip(_BLANK)] == ",":
            self.at += 1
