"""A plan as text: what would change where, identical hosts once, and what stops whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from provisioner.model.change import Change, Deferral, Note, Refusal
from provisioner.model.plan import HostPlan, Plan
from provisioner.report import diff, hints
from provisioner.report.names import compress, counted
from provisioner.report.paint import KIND_STYLE, PLAIN, Paint
from provisioner.report.printable import one_line, printable

_MARK_COLUMN = 60
"""Column, counted from 0, at which the disruption mark or the deferral begins where the text before it is short."""
_WIDE = 112
"""Characters of a change's line above which the mark gets a line of its own."""
_LABEL = 18
"""Least width of the column that names stage and task."""

_REASONS = 3
"""Reasons for which a change of one group waits that are shown."""
_WAITS = Deferral("")

_Difference = tuple[str, str | None, str | None]
_Item = Change | Note | Refusal | tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Group:
    """Hosts whose plans are the same in every respect that is shown."""

    hosts: tuple[HostPlan, ...]

    @property
    def one(self) -> HostPlan:
        return self.hosts[0]

    @property
    def names(self) -> str:
        return compress(plan.host for plan in self.hosts)

    @property
    def items(self) -> tuple[_Item, ...]:
        """What is shown of them. Why a change waits is left out: it may differ from host to host (`waits`)."""
        return _items(self.one)

    def waits(self, change: Change) -> list[tuple[str, Deferral]]:
        """Why this change waits on each of the hosts."""
        return [
            (plan.host, each.deferred)
            for plan in self.hosts
            for each in plan.changes
            if each.id == change.id and each.deferred
        ]


def _items(plan: HostPlan) -> tuple[_Item, ...]:
    changes = (replace(change, deferred=_WAITS) if change.deferred else change for change in plan.changes)
    return (*plan.refusals, *plan.unknown, *changes, *plan.notes)


def groups(plans: Iterable[HostPlan]) -> tuple[Group, ...]:
    """Hosts with equal plans together: largest group first, hosts that can't be changed last."""
    found: dict[tuple[object, ...], list[HostPlan]] = {}
    for plan in plans:
        found.setdefault((_items(plan), plan.error), []).append(plan)
    made = [Group(tuple(hosts)) for hosts in found.values()]
    return tuple(sorted(made, key=lambda group: (group.one.blocked, bool(group.one.error), -len(group.hosts))))


@dataclass(frozen=True, slots=True)
class Tally:
    """How much a plan holds. `ready` are changes that can be done now on hosts that aren't blocked,
    `hosts` the hosts that have any; `deferred` wait; `blocked` can't be done since their host is."""

    changes: int
    ready: int
    deferred: int
    blocked: int
    hosts: int
    refused: int
    unreachable: int
    untold: int


def tally(plan: Plan) -> Tally:
    """Count a plan's changes and hosts."""
    free = [host for host in plan.hosts if not host.blocked]
    ready = sum(len(host.open) for host in free)
    changes = sum(len(host.changes) for host in plan.hosts)
    deferred = sum(len(host.deferred) for host in plan.hosts)
    return Tally(
        changes=changes,
        ready=ready,
        deferred=deferred,
        blocked=changes - ready - deferred,
        hosts=sum(bool(host.open) for host in free),
        refused=sum(bool(host.refusals) for host in plan.hosts),
        unreachable=sum(bool(host.error) for host in plan.hosts),
        untold=sum(bool(host.unknown) for host in plan.hosts),
    )


def render(plan: Plan, style: diff.Style = "compact", paint: Paint = PLAIN, verbose: bool = False) -> str:
    """The whole plan as text, ending in a line feed. `verbose` shows each change's id and its actions' names."""
    lines = [_head(plan, paint), ""]
    shown: list[Group] = []
    seen: dict[_Difference, str] = {}
    for group in groups(plan.hosts):
        lines += _group(group, shown, seen, style, paint, verbose)
        shown.append(group)
        seen = {**dict.fromkeys(map(_difference, group.one.changes), group.names), **seen}
    return "\n".join(lines) + "\n"


def _head(plan: Plan, paint: Paint) -> str:
    count = tally(plan)
    parts = [
        one_line(plan.playbook),
        counted(len(plan.hosts), "host"),
        counted(count.changes, "change"),
        *([f"{count.deferred} deferred"] if count.deferred else []),
        *([f"{count.refused} refused"] if count.refused else []),
        *([f"{count.untold} can't be told"] if count.untold else []),
        f"{count.unreachable} unreachable",
    ]
    return paint("bold", "Plan") + "  " + " · ".join(parts)


def _group(
    group: Group,
    shown: Sequence[Group],
    seen: Mapping[_Difference, str],
    style: diff.Style,
    paint: Paint,
    verbose: bool,
) -> list[str]:
    one, names = group.one, paint("bold", one_line(group.names))
    count = f"  {counted(len(group.hosts), 'host')}{', identical' if group.hosts[1:] else ''}"
    if one.error:
        return [f"{names}{count}  {paint('bold red', 'unreachable')}", *_indented(one.error)]
    if not group.items:
        return [f"{names}{count}, nothing to change"]
    items = group.items
    base = next((other for other in shown if _is_part(other, group)), None)
    if base is None:
        lines = [names + count + _stop(one, paint)]
    else:
        like = "as above" if base is shown[-1] else f"as {one_line(base.names)}"
        lines = [f"{names}  {like}, and{_stop(one, paint)}"]
        items = tuple(item for item in items if item not in base.items)
    for item in items:
        if not isinstance(item, Change):
            lines += _item(item, paint)
            continue
        once = _difference(item) in seen and diff.shown(item.before, item.after, style, paint)
        lines += change_lines(item, "none" if once else style, paint, verbose, group.waits(item))
        if once:
            lines.append(paint("dim", f"      (the difference shown for {one_line(seen[_difference(item)])})"))
    return lines


def _difference(change: Change) -> _Difference:
    return change.id, change.before, change.after


def _is_part(base: Group, group: Group) -> bool:
    return bool(base.one.changes) and not base.one.blocked and all(item in group.items for item in base.items)


def _stop(plan: HostPlan, paint: Paint) -> str:
    if plan.refusals:
        return "  " + paint("bold red", "refused: nothing will be changed here")
    if plan.unknown:
        return "  " + paint("bold red", "can't be planned: nothing will be changed here")
    return ""


def _item(item: Refusal | Note | tuple[str, str, str], paint: Paint) -> list[str]:
    if isinstance(item, Refusal):
        return [
            f"  {paint('bold red', '✗')} {label(item.stage, item.task):<{_LABEL}} {one_line(item.what)}",
            *_indented("\n".join(part for part in (item.why, item.remedy) if part)),
        ]
    if isinstance(item, Note):
        return [f"  {paint('cyan', 'i')} {label(item.stage, item.task):<{_LABEL}} {_said(item.subject, item.text)}"]
    stage, task, text = item
    return [f"  {paint('bold red', '?')} {label(stage, task):<{_LABEL}} {one_line(text)}"]


def change_lines(
    change: Change, style: diff.Style, paint: Paint, verbose: bool = False, waits: Sequence[tuple[str, Deferral]] = ()
) -> list[str]:
    """One change: its line, where it waits why (`waits`: on which host why), its notes and its diff."""
    symbol = "…" if change.deferred else change.kind.value
    said, *more = _parts(_said(change.subject, change.summary))
    text = f"{label(change.stage, change.task):<{_LABEL}} {said}"
    marks = _deferrals(waits or [("", change.deferred)]) if change.deferred else []
    if not marks and (change.disrupts or change.disruption):
        marks = [f"! {one_line(change.disrupts) or change.disruption.name.lower()}"]
    lines = [f"  {paint(KIND_STYLE[symbol], symbol)} {text}"]
    if len(marks) == 1 and len(text) + len(marks[0]) <= _WIDE:
        lines[0] += " " * max(2, _MARK_COLUMN - 4 - len(text)) + paint("magenta", marks[0])
    else:
        lines += [f"      {paint('magenta', mark)}" for mark in marks]
    lines += [f"      {part}" for part in more]
    if verbose:
        done = ", ".join(type(action).__name__ for action in change.actions)
        lines.append(paint("dim", f"      {one_line(change.id)}  ({done or 'no actions'})"))
    if change.provisional:
        lines.append(paint("dim", "      announced only: an earlier stage brings what it depends on, then it is exact"))
    lines += [f"      {one_line(note)}" for note in change.notes]
    lines += [f"      {line}" for line in "\n".join(diff.shown(change.before, change.after, style, paint)).splitlines()]
    return lines


def _deferrals(waits: Sequence[tuple[str, Deferral]]) -> list[str]:
    """Why a change waits: one line where all hosts have one reason, else one for each of the first reasons."""
    reasons: dict[str, list[tuple[str, Deferral]]] = {}
    for host, deferral in waits:
        reasons.setdefault(deferral.reason, []).append((host, deferral))
    lines = []
    for reason, cases in list(reasons.items())[:_REASONS]:
        where = f" on {one_line(compress(host for host, _ in cases))}" if len(reasons) > 1 else ""
        told, commands = f"deferred{where}: {one_line(reason)}", hints.commands(cases)
        whole = ", ".join([told, *commands])
        lines += [whole] if len(whole) <= _WIDE else [told, *(f"  {command}" for command in commands)]
    if len(reasons) > _REASONS:
        lines.append(f"deferred for similar reasons on {counted(len(reasons) - _REASONS, 'more host')}")
    return lines


def label(stage: str, task: str) -> str:
    """Where a change comes from: its stage, and its task where that has another name."""
    return one_line(stage if task in ("", stage) else f"{stage}/{task}" if stage else task)


def _said(subject: str, text: str) -> str:
    """Subject and summary, the subject left out where the summary names it."""
    named = subject.split()[:1]
    return one_line(text if text and named and named[0] in text else f"{subject}  {text}".strip())


def _parts(said: str) -> list[str]:
    """A text that is too long for one line, taken apart at its semicolons."""
    return said.split("; ") if len(said) > _WIDE else [said]


def _indented(text: str) -> list[str]:
    return [f"      {line.strip()}" for line in printable(text).splitlines() if line.strip()]


def footer(plan: Plan) -> str:
    """One sentence on what would happen now: "18 of 33 changes on 16 hosts can be done now, 15 are deferred"."""
    count = tally(plan)
    if not count.changes:
        stopped = sum(host.blocked for host in plan.hosts)
        if stopped == len(plan.hosts) > 0:
            return "No host could be read and planned for."
        left = f" on the others; {counted(stopped, 'host')} could not be read or planned for" if stopped else ""
        return f"Nothing to change{left}."
    parts = []
    if count.ready:
        parts.append(
            f"{count.ready} of {counted(count.changes, 'change')} can be done now on {counted(count.hosts, 'host')}"
        )
    else:
        parts.append("Nothing can be done now")
    if count.deferred:
        parts.append(f"{count.deferred} deferred")
    if count.blocked:
        parts.append(f"{count.blocked} not done because their host is refused or can't be planned")
    return ", ".join(parts) + "."


def question(plan: Plan) -> str:
    """What is asked before anything is changed."""
    count = tally(plan)
    return f"Apply {count.ready} of {counted(count.changes, 'change')} to {counted(count.hosts, 'host')}?"
