"""What a task is, how it gets its fields, and where tasks are found by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform, get_type_hints

from provisioner.errors import PlaybookError
from provisioner.model.change import Finding
from provisioner.model.fact import Facts, Probe
from provisioner.tasks.context import Context
from provisioner.tasks.typecheck import mismatch


class Task:
    """One thing desired of a host. Subclasses declare fields (the keys of the TOML table) and two methods.

    `summary` of the class docstring's first line is shown by `provision tasks list`.
    """

    name: ClassVar[str] = ""

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        """What must be read from the host. Called before anything is known; may depend on fields only."""
        return ()

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        """What differs. Pure: no I/O. Raises FactUnknown (through `facts.get`) when it can't tell."""
        raise TypeError(f"task {self.name} doesn't plan")

    def describe(self, facts: Facts, ctx: Context) -> Mapping[str, Any]:
        """What `provision facts` and `drift` show of this task's subject: JSON-able values by short names such as
        "driver" or "containerd". Never raises: an unknown fact is shown as {"unknown": reason}."""
        return {}


T = TypeVar("T", bound=type[Task])

REGISTRY: dict[str, type[Task]] = {}
"""Every task that has been imported, by name; filled by the decorator."""

_HINTS: dict[str, tuple[type[Task], Mapping[str, Any]]] = {}
"""Task → its fields' types. Evaluating annotations is slow, and a fleet asks for the same ones hundreds of times."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def task(name: str) -> Callable[[T], T]:
    """Class decorator: makes the class a frozen, keyword-only dataclass and registers it as `name`."""

    def register(cls: T) -> T:
        made = cast(T, dataclass(frozen=True, kw_only=True)(cls))
        made.name = name
        known = REGISTRY.get(name)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise PlaybookError(
                f"two tasks are named {name}",
                why=f"{known.__module__}.{known.__qualname__} and {cls.__module__}.{cls.__qualname__}",
                remedy="rename one of them",
            )
        REGISTRY[name] = made
        return made

    return register


def find(name: str) -> type[Task]:
    """The task of that name. Raises PlaybookError with a suggestion."""
    if name in REGISTRY:
        return REGISTRY[name]
    close = get_close_matches(name, REGISTRY, 1)
    raise PlaybookError(
        f"no task is named {name!r}",
        why=f"did you mean {close[0]!r}?" if close else "it is neither built in nor in the site's tasks",
        remedy="`provision tasks list` shows all tasks",
    )


def build(name: str, table: Mapping[str, Any]) -> Task:
    """The task `name` with the fields of a TOML table (already rendered). Raises PlaybookError for an unknown,
    missing or mistyped field."""
    cls = find(name)
    known = {field.name: field for field in fields(cls) if field.init}  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            close = get_close_matches(key, known, 1)
            raise PlaybookError(
                f"task {name} has no field {key!r}",
                why=f"did you mean {close[0]!r}?" if close else f"it has: {', '.join(known) or 'none'}",
            )
    if name not in _HINTS or _HINTS[name][0] is not cls:
        _HINTS[name] = (cls, get_type_hints(cls))
    hints = _HINTS[name][1]
    values: dict[str, Any] = {}
    for key, field in known.items():
        if key in table:
            wrong = mismatch(table[key], hints[key])
            if wrong:
                raise PlaybookError(f"field {key!r} of task {name}: {wrong}")
            value = table[key]
            values[key] = tuple(value) if isinstance(value, list) else value
        elif field.default is MISSING and field.default_factory is MISSING:
            raise PlaybookError(f"task {name} needs the field {key!r}")
    return cls(**values)
