"""Plan, state and end of a roll as parts of the one JSON document. Names are added to, never changed."""

from __future__ import annotations

from typing import Any

from provisioner.model.upgrade import NodeRecord, PlannedNode, RollPlan, RollReport
from provisioner.report import diff
from provisioner.report.hints import Invocation
from provisioner.report.upgrade_report import cordoned, name, next_steps


def plan(found: RollPlan) -> dict[str, Any]:
    """What a roll would do. `nodes` in their order."""
    return {
        "kind": found.kind,
        "target": found.target,
        "cluster": found.cluster,
        "max_unavailable": found.options.max_unavailable,
        "canary": found.options.canary or None,
        "nodes": [_planned(node) for node in found.nodes],
        "left_out": dict(found.left_out),
        "refused": dict(found.refused),
        "files": [{"path": path, "diff": "\n".join(diff.unified(old, new))} for path, old, new in found.files],
        "notes": list(found.notes),
    }


def _planned(node: PlannedNode) -> dict[str, Any]:
    return {
        "name": node.node or node.host,
        "host": node.host,
        "node": node.node or None,
        "source": node.source,
        "target": node.target,
        "way_back": node.way_back,
        "control_plane": node.control_plane,
        "notes": list(node.notes),
    }


def report(found: RollReport, call: Invocation) -> dict[str, Any]:
    """How a roll stands or ended. The keys of `nodes` are node names, without a cluster host names; those of
    `left_out` and `refused` host names. `next` are commands."""
    return {
        "run": found.run or None,
        "journal": found.journal or None,
        "holder": found.holder or None,
        "frozen": found.frozen or None,
        "interrupted": found.interrupted,
        "stopped": found.stopped or None,
        "nodes": {
            name(record): _record(record, dict(found.seconds.get(host) or {})) for host, record in found.nodes.items()
        },
        "left_out": dict(found.left_out),
        "refused": dict(found.refused),
        "outdated": list(found.outdated),
        "next": [
            {"hosts": list(step.hosts), "text": step.text, "command": step.command} for step in next_steps(found, call)
        ],
    }


def _record(record: NodeRecord, seconds: dict[str, float]) -> dict[str, Any]:
    return {
        "phase": record.phase.value,
        "host": record.host,
        "node": record.node or None,
        "run": record.run,
        "kind": record.kind,
        "back": record.back,
        "source": record.source,
        "target": record.target,
        "cordoned_by": list(cordoned(record)),
        "since": record.since or None,
        "reason": record.reason,
        "seconds": {phase: round(spent, 3) for phase, spent in seconds.items()},
    }
