"""Label and field selectors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.cluster.apiserver.kinds import Kind, Object
from tests.cluster.apiserver.problem import Problem

_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s*\((.*)\)\s*$")
_COMPARE = re.compile(r"^\s*([^\s!=<>]+)\s*(==|!=|=|>|<)\s*([^\s=]*)\s*$")
_EXISTS = re.compile(r"^\s*(!?)\s*([^\s!=()]+)\s*$")


def split(selector: str) -> list[str]:
    """The requirements of a selector: commas inside parentheses separate values, not requirements."""
    return [part for part in re.split(r",(?![^(]*\))", selector) if part.strip()]


def labels_match(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether labels meet a selector in kubectl's notation. Raises Problem 400 for one that can't be read."""
    return all(_label(part, labels) for part in split(selector))


def _label(part: str, labels: Mapping[str, str]) -> bool:
    if found := _SET.match(part):
        values = {value.strip() for value in found[3].split(",")}
        inside = found[1] in labels and labels[found[1]] in values
        return inside if found[2] == "in" else not inside
    if found := _COMPARE.match(part):
        key, operator, value = found.groups()
        if operator == "!=":
            return labels.get(key) != value
        if operator in "<>":
            number = int(labels[key]) if labels.get(key, "").lstrip("-").isdigit() else None
            return number is not None and (number > int(value) if operator == ">" else number < int(value))
        return labels.get(key) == value
    if found := _EXISTS.match(part):
        return (found[2] in labels) != bool(found[1])
    raise Problem(400, f"unable to parse requirement: found '{part}'")


def object_selector_matches(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """The selector of an object (matchLabels, matchExpressions). An empty one selects everything, none nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(expression_matches(each, labels) for each in selector.get("matchExpressions") or [])


def expression_matches(expression: Object, labels: Mapping[str, str]) -> bool:
    """One matchExpressions entry."""
    key, values = expression["key"], expression.get("values") or []
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise Problem(400, f'"{expression["operator"]}" is not a valid label selector operator')


def fields_match(kind: Kind, selector: str, item: Object) -> bool:
    """Raises Problem 400 for a field that the real API server can't select by."""
    known = {"metadata.name", "metadata.namespace", *kind.fields}
    for part in split(selector):
        found = _COMPARE.match(part)
        if not found:
            raise Problem(400, f"invalid selector: '{part}'; can't understand '{part}'")
        path, operator, value = found.groups()
        if path not in known:
            raise Problem(400, f"field label not supported: {path}")
        if (_text(kind, item, path) == value) == (operator == "!="):
            return False
    return True


def _text(kind: Kind, item: Object, path: str) -> str:
    if path == "source" and kind.kind == "Event":
        path = "source.component"
    value: Any = item
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool) or (value is None and path in ("spec.unschedulable", "spec.hostNetwork")):
        return "true" if value else "false"
    return "" if value is None else str(value)
