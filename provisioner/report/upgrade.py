"""The plan of a roll as text, for the question."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import PurePath

from provisioner.model.upgrade import PlannedNode, RollOptions, RollPlan
from provisioner.report import diff
from provisioner.report.names import compress, counted, spelled
from provisioner.report.paint import PLAIN, Paint
from provisioner.report.printable import one_line


def render(plan: RollPlan, style: diff.Style = "full", paint: Paint = PLAIN) -> str:
    """The whole plan, ending in a line feed: files, nodes in their order, who isn't among them and why, and how
    it will be done."""
    lines = [_head(plan, paint), ""]
    for path, before, after in plan.files:
        lines += [paint("bold", one_line(path)), *(f"  {line}" for line in diff.shown(before, after, style, paint)), ""]
    lines += _nodes(plan, paint)
    lines += reasons("left out", plan.left_out, paint)
    lines += reasons("refused", plan.refused, paint)
    lines += [f"i {one_line(note)}" for note in plan.notes]
    if plan.nodes:
        lines += ["", *how(plan)]
    return "\n".join(lines) + "\n"


def what(plan: RollPlan) -> str:
    """What is rolled: "driver 580.95.05"."""
    if plan.kind == "deferred":
        return "the restarts that were deferred"
    return f"{plan.kind} {one_line(plan.target)}".strip()


def question(plan: RollPlan) -> str:
    """What is asked before anything is changed."""
    files = " and ".join(one_line(PurePath(path).name) for path, _, _ in plan.files)
    if not plan.nodes:
        return f"Write {files}?"
    nodes = counted(len(plan.nodes), "node" if plan.cluster else "host")
    done = f"do {what(plan)} on" if plan.kind == "deferred" else "upgrade"
    goal = "" if plan.kind == "deferred" else f" to {what(plan)}"
    asked = f"{done} {nodes}{goal}, {pace(plan.options)}?"
    return f"Write {files}, then {asked}" if files else asked[:1].upper() + asked[1:]


def again(before: RollPlan, after: RollPlan) -> str:
    """What is asked when nodes were dropped after the first question."""
    dropped = len(before.nodes) - len(after.nodes)
    return f"{counted(dropped, 'node')} can't be rolled. Go on with the other {len(after.nodes)}?"


def pace(options: RollOptions) -> str:
    """How many nodes at once."""
    return "one at a time" if options.max_unavailable == 1 else f"{options.max_unavailable} at a time"


def how(plan: RollPlan) -> list[str]:
    """What will be done to each node, and what ends the roll: two paragraphs."""
    options = plan.options
    node = [f"waits for jobs ({one_line(options.wait_for_jobs)}{_limit(options.job_timeout)})"] * bool(
        options.wait_for_jobs
    )
    if plan.cluster:
        evicted = "all pods" if options.drain == "full" else "pods that use cards"
        node.append(f"cordon, evict {evicted} ({spelled(options.drain_timeout)})")
    else:
        node.append(f"wait for GPU processes ({spelled(options.drain_timeout)})")
    if plan.kind != "deferred":
        node.append(f"install {what(plan)} from the host's own copy")
    node.append(_REBOOTS[options.reboot].format(spelled(options.reboot_timeout)))
    node.append("verify" + (", uncordon what was ours" if plan.cluster else ""))
    if options.rollback == "auto" and plan.kind != "deferred":
        node.append("previous packages come back if that fails")
    elif plan.kind != "deferred":
        node.append("NO rollback: a node that fails stays out of the schedule")
    roll = [pace(options)]
    if options.canary:
        roll.append(f"{one_line(options.canary)} first, then {_after_canary(options)}")
    if options.pause_between:
        roll.append(f"{spelled(options.pause_between)} between nodes")
    if options.window:
        roll.append(f"nodes begin only {one_line(options.window)}")
    failures = options.max_failures
    roll.append("ends at the first failure" if not failures else f"ends after {counted(failures + 1, 'failure')}")
    return [*_paragraph(f"Each node: {'; '.join(node)}."), *_paragraph(f"The roll: {'; '.join(roll)}.")]


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, 110, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


_REBOOTS = {
    "auto": "load it, restart the host where that isn't enough ({})",
    "always": "restart the host ({})",
    "never": "load it, never restart the host",
}


def _limit(seconds: float) -> str:
    return f", {spelled(seconds)}" if seconds else ""


def _after_canary(options: RollOptions) -> str:
    soak = f"{spelled(options.soak)} of watching it, then " if options.soak else ""
    return f"{soak}a question (none with --yes)"


def _head(plan: RollPlan, paint: Paint) -> str:
    parts = [
        what(plan),
        counted(len(plan.nodes), "node" if plan.cluster else "host"),
        pace(plan.options),
        *([f"{len(plan.left_out)} left out"] if plan.left_out else []),
        *([f"{len(plan.refused)} refused"] if plan.refused else []),
        *([] if plan.cluster else ["no cluster"]),
    ]
    return paint("bold", "Roll") + "  " + " · ".join(parts)


def _nodes(plan: RollPlan, paint: Paint) -> list[str]:
    """One row a node, or for neighbours in the order that are alike."""
    if not plan.nodes:
        return ["Nothing to roll."]
    alike = [tuple(run) for _, run in groupby(plan.nodes, key=lambda node: (_alike(node), _canary(node, plan)))]
    cells, place = [], 1
    for run in (part for same in alike for part in _split(same)):
        last = place + len(run) - 1
        cells.append((f"{place}" if last == place else f"{place}-{last}", _names(run), run[0]))
        place = last + 1
    left, names = max(len(number) for number, _, _ in cells), max(len(named) for _, named, _ in cells)
    lines = []
    for number, named, node in cells:
        said = "  ".join(part for part in (_versions(node), *_marks(node, plan, paint)) if part)
        lines.append(f"{number:>{left + 1}}  {paint('bold', named)}{' ' * (names - len(named))}  {said}".rstrip())
        lines += [f"{'':>{left + 5}}i {one_line(note)}" for note in node.notes]
    return lines


def _alike(node: PlannedNode) -> tuple[object, ...]:
    return node.source, node.target, node.way_back, node.notes, node.control_plane


def _canary(node: PlannedNode, plan: RollPlan) -> bool:
    return plan.options.canary != "" and plan.options.canary in (node.host, node.node)


def _split(run: Sequence[PlannedNode]) -> list[list[PlannedNode]]:
    """A range such as gpu[01-03] tells an order, so it stands only for nodes in that order, under one name each."""
    parts = [[run[0]]]
    for node in run[1:]:
        last = parts[-1][-1]
        follows = last.host < node.host and {last.node, node.node} <= {"", last.host, node.host}
        if follows:
            parts[-1].append(node)
        else:
            parts.append([node])
    return parts


def _names(run: Sequence[PlannedNode]) -> str:
    one = run[0]
    if len(run) > 1:
        return one_line(compress(node.host for node in run))
    return one_line(one.host if one.node in ("", one.host) else f"{one.host} ({one.node})")


def _versions(node: PlannedNode) -> str:
    if not node.target or node.source == node.target:
        return one_line(node.target or node.source)
    return one_line(f"{node.source or '?'} → {node.target}")


def _marks(node: PlannedNode, plan: RollPlan, paint: Paint) -> list[str]:
    marks = [f"canary, then {_after_canary(plan.options)}"] if _canary(node, plan) else []
    marks += ["control plane"] if node.control_plane else []
    return marks + ([] if node.way_back else [paint("bold red", "! no way back")])


def reasons(head: str, found: Mapping[str, str], paint: Paint = PLAIN) -> list[str]:
    """Hosts that aren't rolled, those with the same reason together."""
    alike: dict[str, list[str]] = {}
    for host, reason in found.items():
        alike.setdefault(reason, []).append(host)
    lines = []
    for reason, hosts in alike.items():
        first, *more = [one_line(line.strip()) for line in reason.splitlines()] or ["no reason was given"]
        style = "dim" if head == "left out" else "red"
        lines += [f"{paint(style, head)}  {one_line(compress(hosts))}: {first}", *(f"    {line}" for line in more)]
    return lines
