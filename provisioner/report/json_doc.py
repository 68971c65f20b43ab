"""The one JSON document that `--json` prints. Names in it are an interface: they are added to, never changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from provisioner.errors import ConfigError, ProvisionError
from provisioner.model.change import Change, Note, Refusal
from provisioner.model.plan import HostPlan, Plan
from provisioner.model.result import HostResult, Outcome, RunResult
from provisioner.report import diff

SCHEMA = 1


def document(command: str, exit_code: int, **content: Any) -> dict[str, Any]:
    """The frame that every answer has."""
    return {"schema": SCHEMA, "command": command, "exit_code": exit_code, **content}


def dumps(doc: Mapping[str, Any]) -> str:
    """One document as text. Everything beyond ASCII is escaped, so that control characters of a host's output
    and bytes that aren't UTF-8 survive any terminal and any locale."""
    return json.dumps(doc, indent=2, default=str) + "\n"


def error(command: str, wrong: ProvisionError) -> dict[str, Any]:
    """The document of a command that ended in an error."""
    content: dict[str, Any] = {
        "kind": type(wrong).__name__,
        "what": wrong.what,
        "why": wrong.why,
        "remedy": wrong.remedy,
    }
    if isinstance(wrong, ConfigError):
        content |= {"file": str(wrong.file) if wrong.file else None, "line": wrong.line, "column": wrong.column}
    return document(command, wrong.exit_code, error=content)


def plan(found: Plan, style: diff.Style) -> dict[str, Any]:
    """The part of a document that shows a plan."""
    return {
        "playbook": found.playbook,
        "inventory": found.inventory,
        "stages": list(found.stages),
        "hosts": {host.host: host_plan(host, style) for host in found.hosts},
    }


def host_plan(host: HostPlan, style: diff.Style) -> dict[str, Any]:
    """One host of a plan. `status` is "unreachable", "refused", "unknown", "pending" or "ok"."""
    if host.error:
        status = "unreachable"
    elif host.refusals:
        status = "refused"
    elif host.unknown:
        status = "unknown"
    else:
        status = "pending" if host.changes else "ok"
    return {
        "status": status,
        "open": len(host.open),
        "deferred": len(host.deferred),
        "changes": [change(each, style) for each in host.changes],
        "refusals": [refusal(each) for each in host.refusals],
        "unknown": [{"stage": stage, "task": task, "text": text} for stage, task, text in host.unknown],
        "notes": [note(each) for each in host.notes],
        "error": host.error or None,
        "error_kind": host.error_kind or None,
    }


def run(result: RunResult, style: diff.Style = "none") -> dict[str, Any]:
    """The part of a document that shows how a run ended."""
    return {
        "run": result.run,
        "kind": result.kind,
        "journal": result.journal or None,
        "interrupted": result.interrupted,
        "seconds": round(result.seconds, 3),
        "hosts": {name: host_result(host, style) for name, host in result.hosts.items()},
    }


def host_result(host: HostResult, style: diff.Style = "none") -> dict[str, Any]:
    """One host of a run. `changed`, `failed`, `deferred`, `execs` and `connections` are counts; `changes` are
    those that were attempted."""
    return {
        "status": host.status.value,
        "changed": host.changed,
        "failed": host.failed,
        "deferred": len(host.deferred),
        "execs": host.execs,
        "connections": host.connections,
        "seconds": round(host.seconds, 3),
        "reboot_pending": host.reboot_pending,
        "message": host.message,
        "changes": [outcome(each, style) for each in host.outcomes],
        "waiting": [change(each, style) for each in host.deferred],
        "left": [change(each, style) for each in host.left],
        "refusals": [refusal(each) for each in host.refusals],
        "notes": [note(each) for each in host.notes],
    }


def change(each: Change, style: diff.Style) -> dict[str, Any]:
    """One change; `diff` is a unified diff without its head, or None with the style "none"."""
    lines = diff.unified(each.before, each.after) if style != "none" else []
    return {
        "id": each.id,
        "stage": each.stage,
        "task": each.task,
        "subject": each.subject,
        "summary": each.summary,
        "kind": each.kind.name.lower(),
        "disruption": each.disruption.name.lower(),
        "disrupts": each.disrupts,
        "deferred": {"reason": each.deferred.reason, "command": each.deferred.command} if each.deferred else None,
        "provisional": each.provisional,
        "actions": [type(action).__name__ for action in each.actions],
        "notes": list(each.notes),
        "diff": "\n".join(lines) if lines else None,
    }


def outcome(each: Outcome, style: diff.Style = "none") -> dict[str, Any]:
    """One change that was attempted, and how that went."""
    return {
        **change(each.change, style),
        "ok": each.ok,
        "output": each.output,
        "restored": each.restored,
        "seconds": round(each.seconds, 3),
    }


def refusal(each: Refusal) -> dict[str, Any]:
    """Why a host must not be changed."""
    return {
        "stage": each.stage,
        "task": each.task,
        "subject": each.subject,
        "what": each.what,
        "why": each.why,
        "remedy": each.remedy,
    }


def note(each: Note) -> dict[str, Any]:
    """Something to know."""
    return {"stage": each.stage, "task": each.task, "subject": each.subject, "text": each.text}
