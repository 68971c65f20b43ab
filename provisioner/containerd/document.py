"""A TOML file that is edited in place: every change is an insertion or a replacement of a few characters.

Each change is proved before it counts: the new text is parsed again and its meaning compared with
the meaning that was intended. Where TOML's rules or an unusual spelling make the change mean
anything else, `Refused` is raised and the file stays as it was.
"""

from __future__ import annotations

import codecs
import re
import tomllib
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from provisioner.containerd import literal
from provisioner.containerd.result import Refused
from provisioner.containerd.syntax import Pair, Path, Section, Segment, Span, Syntax, scan

Table = dict[str, Any]


def same(left: object, right: object) -> bool:
    """Equal in type and value; NaN equals itself, `1` differs from `true` and from `1.0`."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and (left == right or repr(left) == repr(right))


def without_empty_tables(item: object) -> object:
    """The same meaning where a header without content doesn't count."""
    if isinstance(item, dict):
        kept = {name: without_empty_tables(inner) for name, inner in item.items()}
        return {name: inner for name, inner in kept.items() if inner != {}}
    return item


def at(table: object, path: Path) -> object:
    """What stands at `path`, or None."""
    for name in path:
        if not isinstance(table, dict) or name not in table:
            return None
        table = table[name]
    return table


@dataclass(frozen=True)
class Document:
    """The text of a TOML file (without its byte order mark, which `bom` remembers)."""

    text: str
    bom: bool = False

    @staticmethod
    def parse(data: bytes, name: str, *, any_bytes: bool = False) -> Document:
        """Raises `Refused` where `data` isn't UTF-8 or not TOML; `name` is the file's, for the message.

        `any_bytes` lets bytes that aren't UTF-8 pass, as the TOML reader of containerd 1.x does; they
        are kept as they are.
        """
        bom = data.startswith(codecs.BOM_UTF8)
        try:
            text = data[3 * bom :].decode("utf-8", "surrogateescape" if any_bytes else "strict")
            document = Document(text, bom)
            document.meaning  # noqa: B018 - parses
        except UnicodeDecodeError as error:
            raise Refused(
                f"{name} isn't UTF-8 text (byte {error.start + 3 * bom}), and containerd 2 doesn't start with it.",
                "Save the file as UTF-8.",
            ) from None
        except ValueError as error:
            raise Refused(
                f"{name} isn't valid TOML: {error}. containerd doesn't start with it.",
                "Correct that line by hand; a table that stands there twice has to be merged into one.",
            ) from None
        return document

    def encode(self) -> bytes:
        """The bytes of the file."""
        return codecs.BOM_UTF8 * self.bom + self.text.encode("utf-8", "surrogateescape")

    @cached_property
    def meaning(self) -> Table:
        """The parsed document. Not to be changed."""
        return tomllib.loads(self.text)

    @cached_property
    def syntax(self) -> Syntax:
        """The positions of headers, keys, values and comments."""
        return scan(self.text)

    @cached_property
    def newline(self) -> str:
        """The line end that most lines have."""
        crlf = self.text.count("\r\n")
        return "\r\n" if crlf * 2 > self.text.count("\n") else "\n"

    @cached_property
    def quote(self) -> str:
        """The quotes of most plugin names, or else of most values: `"` or `'`."""
        for pattern in (r"{q}io\.containerd", r"={q}|= {q}"):
            single, double = (len(re.findall(pattern.format(q=q), self.text)) for q in "'\"")
            if single != double:
                return "'" if single > double else '"'
        return '"'

    @cached_property
    def step(self) -> str:
        """One level of indentation."""
        return "\t" if re.search(r"^\t+[^\s#]", self.text, re.M) else "  "

    # Reading positions

    def pair(self, path: Path) -> Pair | None:
        """The statement or inline entry that sets exactly `path`."""
        return next((pair for pair in self.syntax.pairs() if pair.path == path), None)

    def section(self, path: Path) -> Section | None:
        """The section with the header `[path]`; the root for an empty path."""
        return next((s for s in self.syntax.sections if s.path == path and not s.array), None)

    def statement_of(self, path: Path) -> Pair | None:
        """The statement whose lines hold `path`, be it inside an inline table."""
        found = [s for s in self.syntax.statements() if path[: len(s.path)] == s.path]
        return found[0] if found else None

    def comments(self) -> list[str]:
        """The text of every comment, from its `#` on."""
        return [self.text[start:end] for start, end in self.syntax.comments]

    def indent(self, position: int) -> str:
        """The white space before the first character of the line at `position`."""
        line = self.text[self.text.rfind("\n", 0, position) + 1 :]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def spelled(self, path: Path) -> str:
        """`path` as the file already spells its first parts, for a header or a dotted key."""
        best: tuple[Segment, ...] = ()
        for section in self.syntax.sections:
            chains = [section.segments, *(section.segments + pair.segments for pair in section.pairs)]
            for chain in chains:
                shared = 0
                while shared < min(len(chain), len(path)) and chain[shared].name == path[shared]:
                    shared += 1
                if shared > len(best):
                    best = chain[:shared]
        known = [self.text[segment.start : segment.end] for segment in best]
        return ".".join(known + [literal.key(name, self.quote) for name in path[len(best) :]])

    # Changing text

    def replaced(self, span: Span, text: str) -> Document:
        """The document with the characters of `span` replaced; unproved."""
        return Document(self.text[: span[0]] + text + self.text[span[1] :], self.bom)

    def proved(self, change: Callable[[Table], None], new: Document, *, loosely: bool = False) -> Document:
        """`new`, if it means this document with `change` applied; `loosely` forgives empty tables."""
        intended = deepcopy(self.meaning)
        change(intended)
        try:
            actual: object = new.meaning
        except ValueError:
            actual = None
        if loosely:
            right = same(without_empty_tables(intended), without_empty_tables(actual))
        else:
            right = same(intended, actual)
        if not right:
            raise Refused(
                "The way this file is written leaves no place where the change would mean what it should.",
                "Spell the tables of the CRI plugin out as [headers], then try again.",
            )
        return new

    def set(self, path: Path, item: object) -> Document:
        """The document with `path` set to a value: in place, or beside its siblings, or in a new table."""

        def change(meaning: Table) -> None:
            for name in path[:-1]:
                meaning = meaning.setdefault(name, {})
            meaning[path[-1]] = item

        old = at(self.meaning, path)
        if old is not None and same(old, item):
            return self
        text = literal.value(item, self.quote)
        existing = self.pair(path)
        if existing:
            if isinstance(old, str) and isinstance(item, str):
                text = literal.string(item, self.text[existing.value[0]])
            return self.proved(change, self.replaced(existing.value, text))
        return self.proved(change, self._added(path, item, text))

    def _added(self, path: Path, item: object, text: str) -> Document:
        table = path[:-1]
        around = self._inline_around(table)
        if around:
            return self._added_inline(around, path, item)
        section = self.section(table)
        if section:
            return self._added_to_section(section, f"{literal.key(path[-1], self.quote)} = {text}")
        for pair in reversed(self.syntax.statements()):
            shared = len(pair.segments) - (len(pair.path) - len(table))
            if 0 < shared < len(pair.segments) and pair.path[: len(table)] == table:
                written = pair.segments[:shared]
                dotted = [self.text[s.start : s.end] for s in written] + [literal.key(path[-1], self.quote)]
                return self._line_after(pair.end, self.indent(pair.start), f"{'.'.join(dotted)} = {text}")
        return self.add_tables(table, {path[-1]: item})

    def _inline_around(self, table: Path) -> Pair | None:
        holders = [p for p in self.syntax.pairs() if p.inline_table and table[: len(p.path)] == p.path]
        return max(holders, key=lambda pair: len(pair.path), default=None)

    def _added_inline(self, around: Pair, path: Path, item: object) -> Document:
        rest = path[len(around.path) :]
        dotted = 1
        while dotted < len(rest) and any(
            entry.path[: len(around.path) + dotted] == path[: len(around.path) + dotted] for entry in around.entries
        ):
            dotted += 1
        for name in reversed(rest[dotted:]):
            item = {name: item}
        entry = f"{'.'.join(literal.key(name, self.quote) for name in rest[:dotted])} = "
        entry += literal.value(item, self.quote)
        start, end = around.value
        inside = self.text[start + 1 : end - 1]
        if not inside.strip():
            return self.replaced((start, end), f"{{ {entry} }}")
        tail = inside[len(inside.rstrip()) :]
        return self.replaced((end - 1 - len(tail), end - 1), f", {entry}{tail}")

    def _added_to_section(self, section: Section, statement: str) -> Document:
        if section.pairs:
            last = section.pairs[-1]
            return self._line_after(last.end, self.indent(last.start), statement)
        if section.segments:
            return self._line_after(section.header_end, self.indent(section.start) + self.step, statement)
        return self.insert_first(statement)

    def _line_after(self, position: int, indent: str, line: str) -> Document:
        before = self.text[:position]
        glue = "" if not before or before.endswith("\n") else self.newline
        return self.replaced((position, position), f"{glue}{indent}{line}{self.newline}")

    def insert_first(self, statement: str) -> Document:
        """The document with a top-level statement before all others, below the comments that open the file.

        Not between a comment and the key right under it, if an empty line ends the opening comments.
        """
        starts = [s.start for s in self.syntax.sections if s.segments] + [s.start for s in self.syntax.statements()]
        if not starts:
            return self._line_after(len(self.text), "", statement)
        position = min(starts)
        lines = self.text[:position].splitlines(keepends=True)
        attached = 0
        while attached < len(lines) and lines[-1 - attached].strip():
            attached += 1
        if attached < len(lines):
            position -= sum(len(line) for line in lines[len(lines) - attached :])
        return self._line_after(position, "", statement)

    def add_tables(self, path: Path, table: Mapping[str, object], comments: tuple[str, ...] = ()) -> Document:
        """The document with `[path]`, one level of tables below it included, at its end (or inline where
        a table around it is inline). `comments` become lines above the header."""

        def change(meaning: Table) -> None:
            for name in path:
                meaning = meaning.setdefault(name, {})
            meaning.update(deepcopy(dict(table)))

        around = self._inline_around(path[:-1])
        if around:
            new = self._added_inline(around, path, dict(table))
            statement = self.statement_of(path)
            for comment in reversed(comments):
                assert statement is not None
                new = new._line_after(statement.start, self.indent(statement.start), comment)
            return self.proved(change, new)
        header = self.spelled(path)
        lines = ["", *comments] if self.text.strip() else [*comments]
        lines.append(f"[{header}]")
        for name, item in table.items():
            if not isinstance(item, Mapping):
                lines.append(f"{self.step}{literal.key(name, self.quote)} = {literal.value(item, self.quote)}")
        for name, item in table.items():
            if isinstance(item, Mapping):
                lines.append(f"{self.step}[{header}.{literal.key(name, self.quote)}]")
                for inner, value in item.items():
                    written = f"{literal.key(inner, self.quote)} = {literal.value(value, self.quote)}"
                    lines.append(self.step * 2 + written)
        return self.proved(change, self._line_after(len(self.text), "", self.newline.join(lines)))

    def comment_above(self, path: Path, comment: str) -> Document:
        """The document with a comment on the line above the statement that holds `path`."""
        statement = self.statement_of(path)
        if statement is None:
            return self
        position = statement.start
        return self.proved(lambda _: None, self._line_after(position, self.indent(position), comment))

    def without_comment_lines(self, wanted: Callable[[str], bool]) -> Document:
        """The document without the lines that hold only a comment for which `wanted` is true."""
        document = self
        for start, end in reversed(self.syntax.comments):
            line = self.text.rfind("\n", 0, start) + 1
            if wanted(self.text[start:end]) and not self.text[line:start].strip():
                after = self.text.find("\n", end)
                document = document.replaced((line, len(self.text) if after < 0 else after + 1), "")
        return self if document is self else self.proved(lambda _: None, document)
