"""Where things stand in the text of a TOML document: headers, keys, values and comments as spans.

A parser gives the meaning and forgets the text; an editor that must keep every byte it needn't
change has to know positions. `scan` expects text that `tomllib` has accepted and doesn't validate
it again. Offsets are indices into the text; line ends are LF or CRLF.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass

Path = tuple[str, ...]
Span = tuple[int, int]

_BLANK = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\]|\\.)*"')
_LITERAL = re.compile(r"'[^']*'")
_MULTI_BASIC = re.compile(r'"""(?:[^\\]|\\.)*?""""{0,2}', re.S)
_MULTI_LITERAL = re.compile(r"'''.*?''''{0,2}", re.S)
_COMMENT = re.compile(r"#[^\r\n]*")
_SCALAR = re.compile(r"[^,\]}#\r\n]+")


@dataclass(frozen=True)
class Segment:
    """One part of a dotted key as written, quotes included."""

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Pair:
    """`key = value`: a statement with its whole lines, or an entry of an inline table."""

    path: Path
    segments: tuple[Segment, ...]
    start: int
    end: int
    value: Span
    inline_table: bool
    entries: tuple[Pair, ...]
    elements: tuple[Span, ...]


@dataclass(frozen=True)
class Section:
    """A `[header]` with its statements; the first section of a document is the root, without header.

    `start` to `header_end` are the header's whole lines; `array` tells `[[header]]`.
    """

    path: Path
    segments: tuple[Segment, ...]
    start: int
    header_end: int
    array: bool
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class Syntax:
    """The sections of a document in their order, and the spans of all its comments."""

    sections: tuple[Section, ...]
    comments: tuple[Span, ...]

    def statements(self) -> list[Pair]:
        """Every statement of every section that isn't an array of tables."""
        return [pair for section in self.sections if not section.array for pair in section.pairs]

    def pairs(self) -> list[Pair]:
        """Statements and the entries of inline tables, outer before inner."""
        found: list[Pair] = []
        waiting = self.statements()
        while waiting:
            pair = waiting.pop(0)
            found.append(pair)
            waiting[:0] = pair.entries
        return found


def _unquoted(key: str) -> str:
    if key[0] not in "\"'":
        return key
    return key[1:-1] if "\\" not in key else str(tomllib.loads(f"k = {key}")["k"])


@dataclass(frozen=True)
class _Value:
    end: int
    inline_table: bool = False
    entries: tuple[Pair, ...] = ()
    elements: tuple[Span, ...] = ()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.comments: list[Span] = []

    def blank(self, at: int) -> int:
        found = _BLANK.match(self.text, at)
        return found.end() if found else at

    def gap(self, at: int) -> int:
        """Past white space, line ends and comments."""
        while at < len(self.text):
            if self.text[at] == "#":
                at = self.comment(at)
            elif self.text[at] in " \t\r\n":
                at += 1
            else:
                break
        return at

    def comment(self, at: int) -> int:
        found = _COMMENT.match(self.text, at)
        assert found is not None
        self.comments.append(found.span())
        return found.end()

    def line_rest(self, at: int) -> int:
        """Past the rest of a line that holds nothing but a comment, its line end included."""
        at = self.blank(at)
        if self.text[at : at + 1] == "#":
            at = self.comment(at)
        if self.text[at : at + 2] == "\r\n":
            return at + 2
        return min(at + 1, len(self.text))

    def key(self, at: int) -> tuple[tuple[Segment, ...], int]:
        segments: list[Segment] = []
        while True:
            at = self.blank(at)
            pattern = {'"': _BASIC, "'": _LITERAL}.get(self.text[at : at + 1], _BARE_KEY)
            found = pattern.match(self.text, at)
            assert found is not None
            written = found.group()
            segments.append(Segment(_unquoted(written), *found.span()))
            at = self.blank(found.end())
            if self.text[at : at + 1] != ".":
                return tuple(segments), at
            at += 1

    def value(self, at: int, path: Path) -> _Value:
        if self.text.startswith('"""', at):
            return _Value(self.end_of(_MULTI_BASIC, at))
        if self.text.startswith("'''", at):
            return _Value(self.end_of(_MULTI_LITERAL, at))
        match self.text[at]:
            case '"':
                return _Value(self.end_of(_BASIC, at))
            case "'":
                return _Value(self.end_of(_LITERAL, at))
            case "[":
                return self.array(at, path)
            case "{":
                return self.table(at, path)
        end = self.end_of(_SCALAR, at)
        return _Value(at + len(self.text[at:end].rstrip()))

    def end_of(self, pattern: re.Pattern[str], at: int) -> int:
        found = pattern.match(self.text, at)
        assert found is not None
        return found.end()

    def array(self, at: int, path: Path) -> _Value:
        elements: list[Span] = []
        at = self.gap(at + 1)
        while self.text[at] != "]":
            if self.text[at] == ",":
                at += 1
            else:
                end = self.value(at, path).end
                elements.append((at, end))
                at = end
            at = self.gap(at)
        return _Value(at + 1, elements=tuple(elements))

    def table(self, at: int, path: Path) -> _Value:
        entries: list[Pair] = []
        at = self.blank(at + 1)
        while self.text[at] != "}":
            if self.text[at] == ",":
                at += 1
            else:
                entry = self.pair(at, path)
                entries.append(entry)
                at = entry.end
            at = self.blank(at)
        return _Value(at + 1, inline_table=True, entries=tuple(entries))

    def pair(self, at: int, prefix: Path) -> Pair:
        segments, equals = self.key(at)
        path = (*prefix, *(segment.name for segment in segments))
        start = self.blank(equals + 1)
        value = self.value(start, path)
        return Pair(
            path, segments, at, value.end, (start, value.end), value.inline_table, value.entries, value.elements
        )


def scan(text: str) -> Syntax:
    """The positions in `text`, which has to be valid TOML."""
    scanner = _Scanner(text)
    sections: list[Section] = []
    header: tuple[Path, tuple[Segment, ...], int, int, bool] = ((), (), 0, 0, False)
    pairs: list[Pair] = []
    at = 0
    while (at := scanner.gap(at)) < len(text):
        line = text.rfind("\n", 0, at) + 1
        if text[at] == "[":
            sections.append(Section(*header, tuple(pairs)))
            pairs = []
            array = text.startswith("[[", at)
            segments, at = scanner.key(at + 1 + array)
            at = scanner.line_rest(at + 1 + array)
            header = (tuple(segment.name for segment in segments), segments, line, at, array)
        else:
            pair = scanner.pair(at, header[0])
            at = scanner.line_rest(pair.end)
            pairs.append(
                Pair(
                    pair.path,
                    pair.segments,
                    line,
                    at,
                    pair.value,
                    pair.inline_table,
                    pair.entries,
                    pair.elements,
                )
            )
    sections.append(Section(*header, tuple(pairs)))
    return Syntax(tuple(sections), tuple(scanner.comments))
