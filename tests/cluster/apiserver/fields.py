"""Who owns which field: ``metadata.managedFields`` and server-side apply."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.apiserver.kinds import MERGE_KEYS, Object
from tests.cluster.apiserver.problem import Problem

Path = tuple[str, ...]

_SERVER_OWNED = {
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generateName",
    "selfLink",
    "managedFields",
}


@dataclass(frozen=True)
class Owner:
    """One entry of managedFields. ``operation`` is Apply or Update."""

    manager: str
    operation: str
    subresource: str = ""


@dataclass
class Ownership:
    """Owners of an object's leaves, and when each last changed one."""

    fields: dict[Owner, set[Path]] = field(default_factory=dict)
    times: dict[Owner, str] = field(default_factory=dict)

    def copy(self) -> Ownership:
        return Ownership({owner: set(paths) for owner, paths in self.fields.items()}, dict(self.times))

    def updated(self, owner: Owner, old: Object, new: Object, now: str) -> Ownership:
        """Ownership after a write: what was set to another value belongs to the writer, what is gone to nobody."""
        before, after = leaves(old), leaves(new)
        changed = {path for path, value in after.items() if path not in before or before[path] != value}
        result = self.copy()
        for paths in result.fields.values():
            paths -= changed
            paths &= after.keys()
        if changed:
            result.fields.setdefault(owner, set()).update(changed)
            result.times[owner] = now
        return result._pruned()

    def applied(self, owner: Owner, live: Object, config: Object, force: bool, now: str) -> tuple[Object, Ownership]:
        """Server-side apply: the merged object and its ownership. Raises Problem 409 naming the other owners."""
        wanted, present = leaves(config), leaves(live)
        conflicts = [
            (other, path)
            for path, value in sorted(wanted.items())
            if path in present and present[path] != value
            for other, paths in self.fields.items()
            if other != owner and path in paths
        ]
        if conflicts and not force:
            raise _conflicts(conflicts)
        result = self.copy()
        merged = copy.deepcopy(live)
        for path in self.fields.get(owner, set()) - wanted.keys():
            if not any(path in paths for other, paths in self.fields.items() if other != owner):
                _drop(merged, path)
        merged = _overlay(merged, config)
        for other, path in conflicts:
            result.fields[other].discard(path)
        result.fields[owner] = set(wanted)
        result.times[owner] = now
        present = leaves(merged)
        for paths in result.fields.values():
            paths &= present.keys()
        return merged, result._pruned()

    def rendered(self, api_version: str) -> list[Object]:
        """``metadata.managedFields``."""
        return [
            {
                "manager": owner.manager,
                "operation": owner.operation,
                "apiVersion": api_version,
                "time": self.times[owner],
                "fieldsType": "FieldsV1",
                "fieldsV1": _tree(paths),
                **({"subresource": owner.subresource} if owner.subresource else {}),
            }
            for owner, paths in self.fields.items()
        ]

    def _pruned(self) -> Ownership:
        kept = {owner: paths for owner, paths in self.fields.items() if paths}
        return Ownership(kept, {owner: self.times[owner] for owner in kept})


def leaves(item: Object) -> dict[Path, Any]:
    """Path → value for all that a client may own."""
    found: dict[Path, Any] = {}
    for key, value in item.items():
        if key in ("apiVersion", "kind"):
            continue
        if key == "metadata":
            value = {each: known for each, known in value.items() if each not in _SERVER_OWNED}
            if not value:
                continue
        _collect(value, (f"f:{key}",), key, found)
    return found


def _collect(value: Any, path: Path, name: str, found: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            _collect(inner, (*path, f"f:{key}"), key, found)
    elif isinstance(value, list) and _keyed(name, value):
        for each in value:
            _collect(each, (*path, _key(name, each)), "", found)
    else:
        found[path] = value


def _keyed(name: str, value: list[Any]) -> bool:
    key = MERGE_KEYS.get(name)
    return key is not None and bool(value) and all(isinstance(each, dict) and key in each for each in value)


def _key(name: str, each: Object) -> str:
    key = MERGE_KEYS[name]
    return "k:" + json.dumps({key: each[key]}, separators=(",", ":"))


def _tree(paths: set[Path]) -> Object:
    root: Object = {}
    for path in sorted(paths):
        where = root
        for step in path:
            where = where.setdefault(step, {})
    return root


def _drop(item: Object, path: Path) -> None:
    """Removes a leaf and what becomes empty by that."""
    chain: list[tuple[Any, Any]] = []
    where: Any = item
    for number, step in enumerate(path):
        index: Any
        if step.startswith("k:"):
            name = path[number - 1][2:]
            index = next((n for n, each in enumerate(where) if _key(name, each) == step), None)
        else:
            index = step[2:] if isinstance(where, dict) and step[2:] in where else None
        if index is None:
            return
        chain.append((where, index))
        where = where[index]
    for parent, index in reversed(chain):
        if parent is item and index == "metadata":
            return
        del parent[index]
        if parent:
            return


def _overlay(live: Any, config: Object) -> Object:
    result: Object = dict(live) if isinstance(live, dict) else {}
    for key, value in config.items():
        old = result.get(key)
        if isinstance(value, dict):
            result[key] = _overlay(old, value)
        elif isinstance(value, list) and _keyed(key, value) and isinstance(old, list):
            merged = {_key(key, each): each for each in old}
            for each in value:
                merged[_key(key, each)] = _overlay(merged.get(_key(key, each)), each)
            result[key] = list(merged.values())
        else:
            result[key] = copy.deepcopy(value)
    return result


def _conflicts(found: list[tuple[Owner, Path]]) -> Problem:
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{owner.manager}"', "field": _dotted(path)}
        for owner, path in found
    ]
    many = f"{len(causes)} conflict{'s' if len(causes) > 1 else ''}"
    listed = ", ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    return Problem(409, f"Apply failed with {many}: {listed}", details={"causes": causes})


def _dotted(path: Path) -> str:
    return "".join(f".{step[2:]}" if step.startswith("f:") else f"[{step[2:]}]" for step in path)
