"""Taking things out of a TOML document: a table with all below it, elements of an array, a plugin's old name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from provisioner.containerd import literal
from provisioner.containerd.document import Document, Table, at, same
from provisioner.containerd.syntax import Pair, Path, Span


def delete(document: Document, path: Path) -> Document:
    """The document without `path` and all below it, however it is spelled.

    Comments stay: those on deleted lines become lines of their own. An empty line above a deleted
    header goes with it.
    """

    def change(meaning: Table) -> None:
        parent = at(meaning, path[:-1])
        if isinstance(parent, dict):
            parent.pop(path[-1], None)

    new = _without_entries(document, path)
    for start, end in reversed(_lines_of(new, path)):
        kept = _comments_as_lines(new, start, end)
        if not kept and _is_header(new, start):
            start = _empty_line_before(new, start)
        new = new.replaced((start, end), kept)
    return document.proved(change, new, loosely=True)


def _lines_of(document: Document, path: Path) -> list[Span]:
    spans: list[Span] = []
    for section in document.syntax.sections:
        if section.segments and section.path[: len(path)] == path:
            spans.append((section.start, section.header_end))
        spans += [(pair.start, pair.end) for pair in section.pairs if pair.path[: len(path)] == path]
    return spans


def _is_header(document: Document, start: int) -> bool:
    return any(section.segments and section.start == start for section in document.syntax.sections)


def _comments_as_lines(document: Document, start: int, end: int) -> str:
    indent = document.indent(start)
    inside = [document.text[a:b] for a, b in document.syntax.comments if start <= a < end]
    return "".join(f"{indent}{comment}{document.newline}" for comment in inside)


def _empty_line_before(document: Document, start: int) -> int:
    before = document.text.rfind("\n", 0, max(start - 1, 0)) + 1
    return before if start > 0 and not document.text[before:start].strip() else start


def _without_entries(document: Document, path: Path) -> Document:
    while True:
        found = next(
            (
                (pair.value, pair.entries, index)
                for pair in document.syntax.pairs()
                for index, entry in enumerate(pair.entries)
                if entry.path[: len(path)] == path and pair.path[: len(path)] != path
            ),
            None,
        )
        if found is None:
            return document
        document = document.replaced(_entry_span(*found), "")


def _entry_span(value: Span, entries: tuple[Pair, ...], index: int) -> Span:
    if index + 1 < len(entries):
        return entries[index].start, entries[index + 1].start
    if index:
        return entries[index - 1].end, entries[index].end
    return value[0] + 1, value[1] - 1


def map_strings(document: Document, path: Path, replace: Callable[[str], str | None]) -> Document:
    """The document with every string of the array at `path` replaced, or taken out where `replace` says None."""
    pair = document.pair(path)
    old = at(document.meaning, path)
    if pair is None or not isinstance(old, list):
        return document
    wanted = [item if not isinstance(item, str) else replace(item) for item in old]

    if same(wanted, old):
        return document

    def change(meaning: Table) -> None:
        parent = at(meaning, path[:-1])
        assert isinstance(parent, dict)
        parent[path[-1]] = [item for item in wanted if item is not None]

    new = document
    for index in reversed(range(len(pair.elements))):
        now = new.pair(path)
        assert now is not None
        elements = now.elements
        start, end = elements[index]
        if wanted[index] is None:
            new = new.replaced(_element_span(new.text, elements, index), "")
        elif wanted[index] != old[index]:
            new = new.replaced((start, end), literal.string(str(wanted[index]), new.text[start]))
    return document.proved(change, new)


def _element_span(text: str, elements: tuple[Span, ...], index: int) -> Span:
    """The characters to cut for one element: with its comma, and with its line where it has one to itself."""
    start, end = elements[index]
    after = end + len(text[end:]) - len(text[end:].lstrip(" \t"))
    if text[after] == ",":
        end = after + 1
        rest = text[end:]
        if text[text.rfind("\n", 0, start) + 1 : start].strip() == "":
            blank = len(rest) - len(rest.lstrip(" \t"))
            for line_end in ("\r\n", "\n"):
                if rest.startswith(line_end, blank):
                    return text.rfind("\n", 0, start) + 1, end + blank + len(line_end)
        return start, end + len(rest) - len(rest.lstrip(" \t"))
    if index:
        between = text[elements[index - 1][1] : start]
        if "\n" not in between:
            return elements[index - 1][1], end
    return start, end


def rename(document: Document, table: Path, names: Mapping[str, str]) -> Document:
    """The document with keys right below `table` renamed wherever they are written."""

    def change(meaning: Table) -> None:
        parent = at(meaning, table)
        if isinstance(parent, dict):
            renamed = {names.get(name, name): item for name, item in parent.items()}
            parent.clear()
            parent.update(renamed)

    spots: list[tuple[int, int, str]] = []
    depth = len(table)
    for section in document.syntax.sections:
        if len(section.path) > depth and section.path[:depth] == table:
            segment = section.segments[depth]
            spots.append((segment.start, segment.end, segment.name))
    for pair in [p for section in document.syntax.sections for p in _with_entries(section.pairs)]:
        offset = depth - (len(pair.path) - len(pair.segments))
        if 0 <= offset < len(pair.segments) and pair.path[:depth] == table:
            segment = pair.segments[offset]
            spots.append((segment.start, segment.end, segment.name))
    new = document
    for start, end, name in sorted(spots, reverse=True):
        if name in names:
            new = new.replaced((start, end), literal.key(names[name], document.quote))
    return document.proved(change, new)


def _with_entries(pairs: tuple[Pair, ...]) -> list[Pair]:
    return [found for pair in pairs for found in (pair, *_with_entries(pair.entries))]
