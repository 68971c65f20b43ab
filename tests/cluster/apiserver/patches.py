"""The patches of the API: JSON patch (RFC 6902), JSON merge patch (RFC 7386) and strategic merge patch."""

from __future__ import annotations

import copy
from typing import Any

from tests.cluster.apiserver.kinds import MERGE_KEYS, SETS, Object
from tests.cluster.apiserver.problem import Problem


def json_patch(target: Object, operations: list[Object]) -> Object:
    """Applies a JSON patch. Raises Problem 422 where a test fails or a path is missing, as the API server does."""
    root: Any = copy.deepcopy(target)
    for operation in operations:
        op, path = operation.get("op"), operation.get("path", "")
        if op in ("move", "copy"):
            value = copy.deepcopy(_at(root, operation.get("from", "")))
            if op == "move":
                _remove(root, operation.get("from", ""))
            root = _add(root, path, value)
        elif op == "remove":
            _remove(root, path)
        elif op == "add":
            root = _add(root, path, operation.get("value"))
        elif op == "replace":
            _at(root, path)
            if path:
                _remove(root, path)
            root = _add(root, path, operation.get("value"))
        elif op == "test":
            if _at(root, path, None) != operation.get("value"):
                raise _refused(f"testing value {path} failed: test failed")
        else:
            raise Problem(400, f"unexpected kind: unknown operation {op!r}")
    result: Object = root
    return result


def _refused(text: str) -> Problem:
    return Problem(422, f"the server rejected our request due to an error in our request: {text}", details={})


_NOTHING = object()


def _parts(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise Problem(400, f"invalid JSON pointer {path!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _step(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        return value.get(part, _NOTHING)
    if isinstance(value, list) and part.isdigit() and int(part) < len(value):
        return value[int(part)]
    return _NOTHING


def _at(root: Any, path: str, missing: Any = _NOTHING) -> Any:
    value = root
    for part in _parts(path):
        value = _step(value, part)
        if value is _NOTHING:
            if missing is _NOTHING:
                raise _refused(f"operation does not apply: doc is missing path: {path}: missing value")
            return missing
    return value


def _parent(root: Any, path: str) -> tuple[Any, str]:
    parts = _parts(path)
    value = root
    for part in parts[:-1]:
        value = _step(value, part)
    if not isinstance(value, (dict, list)):
        raise _refused(f"add operation does not apply: doc is missing path: {path}: missing value")
    return value, parts[-1]


def _add(root: Any, path: str, value: Any) -> Any:
    if not path:
        return value
    parent, last = _parent(root, path)
    if isinstance(parent, dict):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    elif last.isdigit() and int(last) <= len(parent):
        parent.insert(int(last), value)
    else:
        raise _refused(f"add operation does not apply: invalid index {last}")
    return root


def _remove(root: Any, path: str) -> None:
    _at(root, path)
    parent, last = _parent(root, path)
    if isinstance(parent, dict):
        del parent[last]
    else:
        del parent[int(last)]


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes, maps merge, all else replaces."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def strategic_merge(target: Any, patch: Object) -> Object:
    """A merge patch that merges lists by key, and knows the directives ``$patch``, ``$retainKeys`` and so on."""
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    result: Object = copy.deepcopy(target) if isinstance(target, dict) else {}
    retained = patch.get("$retainKeys")
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            result[field] = [each for each in result.get(field) or [] if each not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = strategic_merge(result.get(key), value)
        elif isinstance(value, list):
            result[key] = _merge_list(key, result.get(key) or [], value)
        else:
            result[key] = value
    if retained is not None:
        result = {key: value for key, value in result.items() if key in retained}
    return result


def _merge_list(field: str, target: list[Any], patch: list[Any]) -> list[Any]:
    if field in SETS:
        return [*target, *(value for value in patch if value not in target)]
    if any(isinstance(each, dict) and each.get("$patch") == "replace" for each in patch):
        return [each for each in copy.deepcopy(patch) if "$patch" not in each]
    key = MERGE_KEYS.get(field)
    if key is None or not all(isinstance(each, dict) for each in [*patch, *target]):
        return copy.deepcopy(patch)
    result = copy.deepcopy(target)
    for each in patch:
        if key not in each:
            raise Problem(400, f"map: {each} does not contain declared merge key: {key}")
        where = next((n for n, old in enumerate(result) if old.get(key) == each[key]), None)
        if each.get("$patch") == "delete":
            result = [old for old in result if old.get(key) != each[key]]
        elif where is None:
            result.append(strategic_merge({}, each))
        else:
            result[where] = strategic_merge(result[where], each)
    return result
