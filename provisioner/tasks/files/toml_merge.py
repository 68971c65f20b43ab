"""Task `toml.merge`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from provisioner.errors import PlaybookError
from provisioner.facts.files import FileProbe
from provisioner.model.change import Finding, Refusal
from provisioner.model.fact import Facts, Probe
from provisioner.tasks.context import Context
from provisioner.tasks.files.attributes import PathTask
from provisioner.tasks.files.content import announced, content_change, refuse_other_kind
from provisioner.tasks.task import task

BOM = "\ufeff"


@task("toml.merge")
class TomlMerge(PathTask):
    """Values in a TOML file that otherwise belongs to someone else; comments, order and all else stay.

    Tables of `values` are merged into those of the file, everything else in them (arrays, too) replaces what is
    there. `remove` takes keys or whole tables away, by dotted name. The result is read again and compared before
    it is planned; where it can't be edited soundly, the host is refused. A missing file is made only with
    `create = true`. containerd's configuration has a task of its own, which knows its versions.

        [[stages.tasks]]
        task = "toml.merge"
        path = "/etc/nvidia-container-runtime/config.toml"
        values = { nvidia-container-runtime = { log-level = "warning" } }
        remove = ["nvidia-container-cli.debug"]
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    create: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.values and not self.remove:
            raise PlaybookError(f"toml.merge of {self.path} says nothing to merge or to remove")

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield FileProbe(self.path)

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        have = facts.get(FileProbe(self.path))
        obstacle = refuse_other_kind(self.path, have)
        if obstacle:
            yield obstacle
            return
        if have is None and not self.create:
            yield announced(self.path, "values")
            return
        content = "" if have is None or have.content is None else have.content
        try:
            want = merged(content, self.values, self.remove)
        except (TOMLKitError, ValueError) as error:
            yield Refusal(
                subject=self.path,
                what=f"{self.path} can't be edited",
                why=str(error),
                remedy="mend the file by hand, then plan again",
            )
            return
        yield from content_change(self.path, have, want, self.attributes, shared=True)


def merged(content: str, values: Mapping[str, Any], remove: Iterable[str] = ()) -> str:
    """The TOML text with these values in it and these keys gone; the very same text when nothing differs.

    Raises TOMLKitError when the text isn't TOML, ValueError when the edit wouldn't mean what is wanted.
    """
    text = content.removeprefix(BOM)
    plain = tomlkit.parse(text).unwrap()
    want = _without(_with(plain, values), remove)
    if same(plain, want):
        return content
    document = tomlkit.parse(text)
    for name in remove:
        _take(document, name.split("."))
    _put(document, values)
    result = tomlkit.dumps(document)
    if "\r\n" in text:
        result = result.replace("\r\n", "\n").replace("\n", "\r\n")
    if not same(tomlkit.parse(result).unwrap(), want):
        raise ValueError("the edited text would mean something else than what is wanted")
    return (BOM if content.startswith(BOM) else "") + result


def _with(plain: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(plain)
    for key, value in values.items():
        below = result.get(key)
        merging = isinstance(value, Mapping) and isinstance(below, Mapping)
        result[key] = _with(below, value) if merging and isinstance(below, Mapping) else _plain(value)
    return result


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _without(plain: dict[str, Any], remove: Iterable[str]) -> dict[str, Any]:
    for name in remove:
        plain = _dropped(plain, name.split("."))
    return plain


def _dropped(table: dict[str, Any], parts: list[str]) -> dict[str, Any]:
    key, *rest = parts
    if not rest:
        return {name: value for name, value in table.items() if name != key}
    below = table.get(key)
    return {**table, key: _dropped(below, rest)} if isinstance(below, dict) else table


def _put(table: Any, values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        below = table.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            _put(below, value)
        elif below is None or not same(_unwrapped(below), _plain(value)):
            table[key] = _inline(value) if isinstance(table, InlineTable) else tomlkit.item(_plain(value))


def _inline(value: Any) -> Any:
    """A value for an inline table, which can't hold a table with a header."""
    if not isinstance(value, Mapping):
        return tomlkit.item(_plain(value))
    inline = tomlkit.inline_table()
    for key, item in value.items():
        inline.append(key, _inline(item))
    return inline


def _take(table: Any, parts: list[str]) -> None:
    key, *rest = parts
    if key not in table:
        return
    if rest:
        if isinstance(table[key], Mapping):
            _take(table[key], rest)
    else:
        del table[key]


def _unwrapped(value: Any) -> Any:
    return value.unwrap() if hasattr(value, "unwrap") else value


def same(one: Any, other: Any) -> bool:
    """Equal as TOML: 1, 1.0 and true are three values."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)
