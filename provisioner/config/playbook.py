"""The playbook file: stages of tasks, and a host's tasks made from it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from provisioner.config.document import Document, Place, read_document, suggestion
from provisioner.config.schema import STRING, TABLE, TABLES, WORD, Kind, check_table, require
from provisioner.config.shipped import shipped
from provisioner.config.uservars import read_vars
from provisioner.config.when import NOT_YET, Condition, WhenError, parse
from provisioner.errors import PlaybookError
from provisioner.model.inventory import Level, Value

if TYPE_CHECKING:  # jinja2 is imported by whoever makes the Templates
    from provisioner.config.positions import KeyPath
    from provisioner.config.templates import Templates

T = TypeVar("T")

_TOP: Mapping[str, Kind] = {"description": STRING, "vars": TABLE, "stages": TABLES}
_STAGE: Mapping[str, Kind] = {"name": WORD, "description": STRING, "tasks": TABLES}
_ENTRY: Mapping[str, Kind] = {"task": WORD, "when": STRING, "label": STRING}


@dataclass(frozen=True)
class TaskEntry:
    """One task of a stage as it is written. `table` holds its fields, not yet rendered; `label` is what people see
    (the task's name unless given); `where` is for people: "gpu-node.toml:31"; `at` its key path in the file."""

    task: str
    table: Mapping[str, Any]
    when: Condition | None
    label: str
    where: str
    at: KeyPath


@dataclass(frozen=True)
class Stage:
    """Tasks between which there is no barrier."""

    name: str
    tasks: tuple[TaskEntry, ...]


@dataclass(frozen=True)
class Playbook:
    """A whole playbook. `vars` are the weakest level of variables; `digest` is the SHA-256 of its text and of the
    site's own tasks beside it; `beside` is its folder, which may hold `tasks/`, `templates/` and `files/`."""

    name: str
    path: Path
    stages: tuple[Stage, ...]
    vars: Mapping[str, Value]
    digest: str
    doc: Document = field(repr=False)

    @property
    def beside(self) -> Path:
        return self.path.absolute().parent

    @property
    def tasks_folder(self) -> Path:
        return self.beside / "tasks"

    @property
    def task_names(self) -> frozenset[str]:
        """Every task that it names."""
        return frozenset(entry.task for stage in self.stages for entry in stage.tasks)


@dataclass(frozen=True)
class Built(Generic[T]):
    """One host's task, rendered and made. `entry.when` still has to be asked once the host's facts are known."""

    stage: str
    entry: TaskEntry
    task: T


def shipped_playbooks() -> tuple[str, ...]:
    """Names of the playbooks that come with the product."""
    return tuple(sorted(path.stem for path in shipped("playbooks").glob("*.toml")))


def find_playbook(name_or_path: str, beside: Path | None = None) -> Path:
    """The file of a playbook: a path (relative to `beside`, or to the working folder) when it ends in .toml, else a
    shipped one's name. Raises PlaybookError with the names there are."""
    if name_or_path.endswith(".toml"):
        path = Path(name_or_path).expanduser()
        return path if beside is None or path.is_absolute() else beside / path
    path = shipped("playbooks") / f"{name_or_path}.toml"
    if name_or_path in shipped_playbooks():
        return path
    raise PlaybookError(
        f"there is no playbook named {name_or_path!r}",
        why=suggestion(name_or_path, shipped_playbooks()),
        remedy="name a shipped playbook, or a file that ends in .toml",
    )


def load_playbook(name_or_path: str, *, beside: Path | None = None) -> Playbook:
    """Read and check a playbook. Its tasks aren't imported here (`sitetasks.load_tasks`), only named.

    Raises PlaybookError with file, line and column.
    """
    doc = read_document(find_playbook(name_or_path, beside), PlaybookError)
    check_table(doc, (), doc.data, _TOP)
    tables = doc.data.get("stages", [])
    if not tables:
        raise doc.problem(("stages",), "the playbook has no stages", remedy='add [[stages]] with name = "…"')
    stages: list[Stage] = []
    for index, table in enumerate(tables):
        at: KeyPath = ("stages", index)
        check_table(doc, at, table, _STAGE)
        if "name" not in table:
            raise doc.problem(at, "a stage has no name", remedy='add name = "…"')
        if any(stage.name == table["name"] for stage in stages):
            raise doc.problem((*at, "name"), f"two stages are named {table['name']!r}", remedy="rename one of them")
        entries = tuple(_entry(doc, (*at, "tasks", number), each) for number, each in enumerate(table.get("tasks", [])))
        stages.append(Stage(table["name"], entries))
    return Playbook(
        name=doc.path.stem,
        path=doc.path,
        stages=tuple(stages),
        vars=read_vars(doc, ("vars",), doc.data.get("vars", {}), Level.PLAYBOOK),
        digest=_digest(doc),
        doc=doc,
    )


def _entry(doc: Document, at: KeyPath, table: Mapping[str, Any]) -> TaskEntry:
    if "task" not in table:
        raise doc.problem(at, "a task's table doesn't say which task", remedy='add task = "NAME"')
    for key, kind in _ENTRY.items():
        if key in table:
            require(doc, (*at, key), table[key], kind)
    line, _ = doc.position(at) or (0, 0)
    return TaskEntry(
        task=table["task"],
        table={key: value for key, value in table.items() if key not in _ENTRY},
        when=_condition(doc, (*at, "when"), table["when"]) if "when" in table else None,
        label=table.get("label", table["task"]),
        where=f"{doc.path.name}:{line}",
        at=at,
    )


def _condition(doc: Document, at: KeyPath, text: str) -> Condition:
    try:
        return parse(text)
    except WhenError as error:
        raise _when_problem(doc, at, text, error) from None


def _when_problem(doc: Document, at: KeyPath, text: str, error: WhenError) -> Exception:
    """The column is the file's where the condition stands on its key's line as it is, else the condition's."""
    line, column = doc.position(at) or (None, None)
    written = doc.text.split("\n")[line - 1] if line else ""
    start = written.find(text)
    pointer = start + error.column if start >= 0 else column
    why = "; ".join(part for part in (error.why, f"at character {error.column} of `{text}`") if part)
    return PlaybookError(f"when: {error.what}", why=why, file=doc.path, line=line, column=pointer)


def _digest(doc: Document) -> str:
    hashed = hashlib.sha256(doc.text.encode())
    for path in sorted((doc.path.absolute().parent / "tasks").glob("*.py")):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()


def applies(playbook: Playbook, entry: TaskEntry, values: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether an entry's `when` holds for a host. Raises FactUnknown, and PlaybookError at the condition."""
    if entry.when is None:
        return True
    try:
        return entry.when.evaluate(values, facts)
    except WhenError as error:
        raise _when_problem(playbook.doc, (*entry.at, "when"), entry.when.text, error) from None


def build_tasks(
    playbook: Playbook,
    values: Mapping[str, Any],
    templates: Templates,
    build: Callable[[str, Mapping[str, Any]], T],
) -> tuple[Built[T], ...]:
    """One host's tasks in order: strings rendered with `values` (`variables.namespace(host)`), then made by `build`
    (`tasks.task.build`, which this layer doesn't know). Entries whose `when` is false whatever the facts will be
    are left out, unrendered. Raises TemplateError or PlaybookError at the field's line."""
    return tuple(
        Built(stage.name, entry, _build(playbook, entry, values, templates, build))
        for stage in playbook.stages
        for entry in stage.tasks
        if not _ruled_out(playbook, entry, values)
    )


def _ruled_out(playbook: Playbook, entry: TaskEntry, values: Mapping[str, Any]) -> bool:
    if entry.when is None:
        return False
    try:
        return entry.when.decide(values, NOT_YET) is False
    except WhenError as error:
        raise _when_problem(playbook.doc, (*entry.at, "when"), entry.when.text, error) from None


def _build(
    playbook: Playbook,
    entry: TaskEntry,
    values: Mapping[str, Any],
    templates: Templates,
    build: Callable[[str, Mapping[str, Any]], T],
) -> T:
    table = {key: _rendered(playbook, (*entry.at, key), value, values, templates) for key, value in entry.table.items()}
    try:
        return build(entry.task, table)
    except PlaybookError as error:
        named = next((key for key in table if f"{key!r}" in error.what), "task")
        place = playbook.doc.position((*entry.at, named))
        line, column = place or (None, None)
        raise PlaybookError(
            error.what, why=error.why, remedy=error.remedy, file=playbook.path, line=line, column=column
        ) from error


def _rendered(playbook: Playbook, at: KeyPath, value: Any, values: Mapping[str, Any], templates: Templates) -> Any:
    """Strings at any depth of a field, rendered."""
    if isinstance(value, str):
        line, column = playbook.doc.position(at) or (None, None)
        return templates.value(value, values, Place(playbook.path, line, column, str(at[-1])))
    if isinstance(value, list):
        return [_rendered(playbook, (*at, index), each, values, templates) for index, each in enumerate(value)]
    if isinstance(value, dict):
        return {key: _rendered(playbook, (*at, key), each, values, templates) for key, each in value.items()}
    return value
