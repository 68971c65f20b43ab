"""Where a node is, as JSON: an annotation on the node, or a file on the host where there is no cluster.

Forward compatible: fields that we don't know are left alone by a reader, fields that are missing have their default.
A phase, or a kind of roll, that we don't know was written by a newer provision, and nothing is guessed about it.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, get_args

from provisioner.errors import LeaseLost, ProvisionError
from provisioner.kube.api import Api
from provisioner.kube.objects import Node
from provisioner.model.upgrade import Kind, NodeRecord, Phase

ANNOTATION = "provision.dev/upgrade"
SCHEMA = 1
LIMIT = 16 * 1024
"""Bytes of JSON at most: all annotations of an object together may have 256 KiB."""

_REASON = 2000
_NAMES = frozenset(spec.name for spec in fields(NodeRecord))


class RecordUnreadable(ProvisionError):
    """The record isn't one, or a newer provision wrote it."""


def to_json(record: NodeRecord) -> str:
    """The record as one line of JSON. A long reason is shortened. Raises ValueError beyond LIMIT."""
    shown: dict[str, Any] = {"schema": SCHEMA}
    for spec in fields(NodeRecord):
        value = getattr(record, spec.name)
        if value != spec.default or spec.name in ("host", "phase"):
            shown[spec.name] = value.value if isinstance(value, Phase) else value
    if len(record.reason) > _REASON:
        shown["reason"] = record.reason[: _REASON - 1] + "…"
    text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    if len(text.encode()) > LIMIT:
        raise ValueError(f"the record of {record.host} has more than {LIMIT} bytes")
    return text


def from_json(text: str) -> NodeRecord:
    """The record. Raises RecordUnreadable."""
    try:
        found = json.loads(text)
        if not isinstance(found, dict) or not isinstance(found.get("host"), str):
            raise ValueError("it is no record")
        values = {name: value for name, value in found.items() if name in _NAMES}
        values["phase"] = Phase(values.get("phase", Phase.PENDING.value))
        for name, value in values.items():
            values[name] = _typed(name, value)
        if values.get("kind", "driver") not in get_args(Kind):
            raise ValueError(f"{values['kind']!r} is no kind of roll that we know")
    except (ValueError, TypeError) as problem:
        raise RecordUnreadable(
            "the record of an upgrade can't be read",
            why=f"{problem}: {text[:200]}",
            remedy=f"use the provision that wrote it; if none runs, remove the annotation {ANNOTATION} by hand",
        ) from problem
    return NodeRecord(**values)


def _typed(name: str, value: Any) -> Any:
    wanted = _KINDS[name]
    if wanted is tuple:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ValueError(f"{name} is no list of text")
        return tuple(value)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not wanted:
        raise ValueError(f"{name} is no {wanted.__name__}")
    return value


_KINDS: dict[str, type] = {
    "phase": Phase,
    **{spec.name: type(spec.default) for spec in fields(NodeRecord) if spec.name not in ("phase", "host")},
    "host": str,
}


def of_node(node: Node) -> NodeRecord | None:
    """The record on a node, None where there is none. Raises RecordUnreadable."""
    text = node.annotations.get(ANNOTATION)
    return None if text is None else from_json(text)


def refuse_newer(node: Node, token: int) -> None:
    """Raises LeaseLost where a roll with a larger token has worked on the node: this one was taken over."""
    found = of_node(node)
    if found is not None and found.token > token:
        raise LeaseLost(
            f"node {node.name} belongs to a later roll",
            why=f"run {found.run} with token {found.token} took over from ours with {token}",
            remedy="nothing more is done by this run; see provision upgrade-driver --status",
        )


def patch_of(record: NodeRecord) -> dict[str, Any]:
    """The merge patch that puts the record on its node."""
    return {"metadata": {"annotations": {ANNOTATION: to_json(record)}}}


def write(api: Api, record: NodeRecord) -> None:
    """Put the record on its node. Raises LeaseLost where a later roll has written one; KubeError."""

    def decide(node: Node) -> dict[str, Any] | None:
        refuse_newer(node, record.token)
        return None if node.annotations.get(ANNOTATION) == to_json(record) else patch_of(record)

    api.change_node(record.node, decide)


def clear(api: Api, name: str, token: int) -> None:
    """Take the record off a node. Raises LeaseLost where a later roll has written one; KubeError."""

    def decide(node: Node) -> dict[str, Any] | None:
        if ANNOTATION not in node.annotations:
            return None
        refuse_newer(node, token)
        return {"metadata": {"annotations": {ANNOTATION: None}}}

    api.change_node(name, decide)
