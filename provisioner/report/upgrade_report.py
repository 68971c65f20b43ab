"""How a roll stands or ended, as text: a table of nodes, evidence, and the next command for what needs one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from provisioner.model.upgrade import ENDED, NodeRecord, Phase, RollReport
from provisioner.report.hints import Invocation, bare, without_limit
from provisioner.report.inventory import columns
from provisioner.report.names import compress, counted, duration
from provisioner.report.paint import PHASE_STYLE, PLAIN, Paint
from provisioner.report.printable import one_line, printable
from provisioner.report.upgrade import reasons

THAW = "kubectl -n kube-system annotate lease provision-upgrade provision.dev/freeze-"
"""Ends a freeze."""

_BAD = (Phase.BROKEN, Phase.ROLLED_BACK, Phase.FAILED)
_LEFT = {
    Phase.FAILED: "left as it had been; the driver wasn't touched",
    Phase.ROLLED_BACK: "the previous packages are back and work",
    Phase.BROKEN: "a person is needed",
}
"""What an end that isn't good left behind."""
_WHEN = {
    Phase.FAILED: "when nothing is in the way any more",
    Phase.ROLLED_BACK: "when the cause is gone",
    Phase.BROKEN: "find out why, mend it, then roll it again",
}

_UNTOUCHED = frozenset({Phase.PENDING, Phase.LOCK, Phase.DONE, Phase.FAILED, Phase.ROLLED_BACK})
"""Phases in which this roll has no cordon on the node."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to type about some nodes, and what it does."""

    hosts: tuple[str, ...]
    text: str
    command: str


def name(record: NodeRecord) -> str:
    """What a record is known by: the node, without a cluster the host."""
    return record.node or record.host


def cordoned(record: NodeRecord) -> tuple[str, ...]:
    """Who keeps the node out of the schedule, as far as the record tells: "upgrade", and those that did before."""
    if not record.node:
        return ()
    return (*record.cordoned_before, *(() if record.phase in _UNTOUCHED else ("upgrade",)))


def status(report: RollReport, call: Invocation, now: float, paint: Paint = PLAIN) -> str:
    """How it stands, for `--status`."""
    run = report.run or next((record.run for record in report.nodes.values() if record.run), "")
    lines = [f"Roll {one_line(run)}" if run else "No roll has left a record."]
    if report.frozen:
        lines.append(paint("yellow", f"All rolls are frozen: {one_line(report.frozen)}. To end that: {THAW}"))
    lines.append(f"At work: {one_line(report.holder)}" if report.holder else "Nobody is at work.")
    lines += ["", *table(report, paint, now)] if report.nodes else []
    return "\n".join([*lines, *_rest(report, call, paint, untold="can't be told")]) + "\n"


def final(report: RollReport, call: Invocation, paint: Paint = PLAIN) -> str:
    """How it ended. The last lines say what to do next, where something is to do."""
    lines = table(report, paint) if report.nodes else ["No node was rolled."]
    if report.stopped:
        lines += ["", paint("yellow", f"No further node was begun: {one_line(report.stopped)}")]
    return "\n".join([*lines, *_rest(report, call, paint), *_summary(report)]) + "\n"


def question(report: RollReport) -> str:
    """What is asked before a roll is resumed."""
    middle = [record.host for record in report.nodes.values() if record.phase not in (*ENDED, Phase.PENDING)]
    if not middle:
        return "No node is in the middle. Go on with those that aren't at the target yet?"
    return f"Bring {one_line(compress(middle))} to an end, then go on with those that aren't at the target yet?"


def table(report: RollReport, paint: Paint = PLAIN, now: float | None = None) -> list[str]:
    """One row a node: nodes at work first, then bad ends, those to come, good ends. With `now`, TIME is how long a
    node at work has been in its phase; without it, and for nodes that ended, the seconds of all phases."""
    records = _ranked(report)
    rows = [("NODE", "PHASE", "TIME", "VERSION", "CORDONED BY", "")]
    rows += [
        (
            name(record),
            _phase(record),
            _time(record, report, now),
            _versions(record),
            ", ".join(cordoned(record)) or "-",
            _first(record.reason),
        )
        for record in records
    ]
    shown = [row if any(record.node for record in records) else (*row[:4], *row[5:]) for row in rows]
    head, *lines = columns(shown)
    made = [paint("bold", head)]
    for record, line in zip(records, lines, strict=True):
        style = PHASE_STYLE.get(record.phase.value)
        phase = record.phase.value
        at = line.index(phase, len(one_line(name(record)))) if style else 0
        made.append(line[:at] + paint(style, phase) + line[at + len(phase) :] if style else line)
    return made


def next_steps(report: RollReport, call: Invocation) -> tuple[NextStep, ...]:
    """What to type next, most urgent first. `call` is the command as it was typed."""
    base = without_limit(call)
    steps = [
        NextStep((record.host,), f"{_LEFT[record.phase]}: {_WHEN[record.phase]}", base.again("--limit", record.host))
        for record in _ranked(report)
        if record.phase in _BAD
    ]
    open_nodes = [record.host for record in report.nodes.values() if record.phase not in ENDED]
    if open_nodes and not report.holder:
        steps.append(NextStep(tuple(open_nodes), "not at an end: go on", call.again("--resume")))
    elif open_nodes:
        steps.append(NextStep(tuple(open_nodes), "at work: to bring it to a safe end", bare(call).again("--abort")))
    elif report.interrupted:
        steps.append(NextStep((), "interrupted: go on", call.again("--resume")))
    return tuple(steps)


def _rest(report: RollReport, call: Invocation, paint: Paint, untold: str = "refused") -> list[str]:
    lines = []
    not_rolled = [*reasons("left out", report.left_out, paint), *reasons(untold, report.refused, paint)]
    lines += ["", *not_rolled] if not_rolled else []
    steps = next_steps(report, call)
    told: set[str] = set()
    for record in _ranked(report):
        if record.phase in _BAD:
            told.add(record.host)
            lines += ["", *_evidence(record, [step for step in steps if step.hosts == (record.host,)], paint)]
    if report.outdated:
        lines += [
            "",
            f"These pods still run with the old driver's libraries; make them anew: {_listed(report.outdated)}",
        ]
    for step in steps:
        if not (len(step.hosts) == 1 and step.hosts[0] in told):
            who = f"{one_line(compress(step.hosts))} " if step.hosts else ""
            lines += ["", f"{who}{step.text}:", f"  {one_line(step.command)}"]
    return lines


def _evidence(record: NodeRecord, steps: Sequence[NextStep], paint: Paint) -> list[str]:
    lines = [f"{paint('bold red', one_line(name(record)))}  {record.phase.value}"]
    for part in printable(record.reason or "no reason was recorded").splitlines():
        lines += [f"  | {piece.strip()}" for piece in part.split("; ") if piece.strip()]
    for step in steps:
        lines += [f"  {step.text}:", f"    {one_line(step.command)}"]
    if record.phase is Phase.BROKEN and record.node:
        lines.append(
            f"  label gpu-unhealthy=true, and the cordon of {', '.join(cordoned(record))}, stay until a roll or the "
            "self-test finds it well"
        )
    return lines


def _summary(report: RollReport) -> list[str]:
    phases = [record.phase for record in report.nodes.values()]
    counts = [f"{phases.count(phase)} {phase.value}" for phase in dict.fromkeys(sorted(phases, key=_rank))]
    journal = f" Journal: {one_line(report.journal)}" if report.journal else ""
    return ["", f"{', '.join(counts) or 'nothing done'} of {counted(len(phases), 'node')}.{journal}"]


def _listed(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return one_line(", ".join(names[:most])) + more


def _rank(phase: Phase) -> int:
    """At work, bad ends, to come, good ends."""
    if phase in _BAD:
        return 1 + _BAD.index(phase)
    return 9 if phase in ENDED else 5 if phase is Phase.PENDING else 0


def _ranked(report: RollReport) -> list[NodeRecord]:
    return sorted(report.nodes.values(), key=lambda record: _rank(record.phase))


def _phase(record: NodeRecord) -> str:
    back = record.back and record.phase not in ENDED
    return f"{record.phase.value} (way back)" if back else record.phase.value


def _time(record: NodeRecord, report: RollReport, now: float | None) -> str:
    if now is not None and record.phase not in ENDED and record.since:
        return duration(max(0.0, now - record.since))
    spent = report.seconds.get(record.host) or {}
    return duration(sum(spent.values())) if spent else "-"


def _versions(record: NodeRecord) -> str:
    """The version that the node has or moves to; what else than the driver was rolled stands before it."""
    shown = _moved(record)
    return shown if record.kind == "driver" else f"{record.kind} {shown}"


def _moved(record: NodeRecord) -> str:
    if record.kind == "deferred" or record.phase in (Phase.FAILED, Phase.ROLLED_BACK):
        return record.source or "-"
    if record.phase is Phase.DONE:
        return record.target or "-"
    return f"{record.source or '?'} → {record.target}" if record.target else "-"


def _first(reason: str) -> str:
    lines = one_line(reason.strip())
    return lines if len(lines) <= 80 else f"{lines[:79]}…"
