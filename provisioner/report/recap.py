"""How a run ended: a table with identical hosts as one row, what waits, then the failures with their output."""

from __future__ import annotations

from collections.abc import Iterable

from provisioner.model.result import HostResult, Outcome, RunResult, Status
from provisioner.report import hints
from provisioner.report.hints import Invocation
from provisioner.report.names import compress, counted, duration
from provisioner.report.paint import PLAIN, STATUS_STYLE, Paint
from provisioner.report.plan import label
from provisioner.report.printable import one_line, output_tail, printable

_BAD = (Status.FAILED, Status.UNREACHABLE, Status.REFUSED, Status.STOPPED)
_ORDER = (*_BAD, Status.CHANGED, Status.OK)
_HEAD = ("HOST", "STATUS", "CHANGED", "FAILED", "EXECS", "TIME")
OUTPUT_LINES = 1000
"""Lines of a command's output that `exec` shows of each host."""
TAIL_LINES = 20
"""Lines of a failed change's output that are shown."""


def render(result: RunResult, call: Invocation, paint: Paint = PLAIN) -> str:
    """The whole recap, ending in a line feed. The last line says what to do next, where something is to do."""
    hosts = list(result.hosts.values())
    lines = table(hosts, paint)
    lines += hints.waiting((host.host, change) for host in hosts for change in host.deferred)
    pending = [host.host for host in hosts if host.reboot_pending]
    if pending:
        lines.append(f"restart pending on {one_line(compress(pending))}")
    for host in hosts:
        lines += [f"{one_line(host.host)}: {one_line(note.text)}" for note in host.notes]
    for host in hosts:
        if host.status in _BAD:
            lines += failure(host, paint)
    return "\n".join([*lines, *summary(result, call)]) + "\n"


def table(hosts: Iterable[HostResult], paint: Paint = PLAIN) -> list[str]:
    """Rows of hosts that ended alike, those that failed first. TIME is the slowest host's."""
    alike: dict[tuple[object, ...], list[HostResult]] = {}
    for host in hosts:
        key = (host.status, host.changed, host.failed, host.execs, _remark(host))
        alike.setdefault(key, []).append(host)
    rows = [
        (
            one_line(compress(host.host for host in group)),
            group[0].status.value,
            str(group[0].changed),
            str(group[0].failed),
            str(group[0].execs),
            duration(max(host.seconds for host in group)),
            _remark(group[0]),
        )
        for group in sorted(alike.values(), key=lambda group: _ORDER.index(group[0].status))
    ]
    widths = [max(len(row[column]) for row in (_HEAD, *rows)) for column in range(len(_HEAD))]
    lines = [paint("bold", _row((*_HEAD, ""), widths))]
    for row in rows:
        line = _row(row, widths)
        at = widths[0] + 2
        lines.append(line[:at] + paint(STATUS_STYLE[row[1]], row[1]) + line[at + len(row[1]) :])
    return lines


def failure(host: HostResult, paint: Paint = PLAIN) -> list[str]:
    """What stopped one host: refusals, what failed with the end of its output, what is still open."""
    name = paint("bold red", one_line(host.host))
    lines: list[str] = []
    for refusal in host.refusals:
        lines += ["", f"{name}  {label(refusal.stage, refusal.task)}  refused: {one_line(refusal.what)}"]
        lines += [f"  {one_line(part)}" for part in (refusal.why, refusal.remedy) if part]
    for outcome in host.outcomes:
        if not outcome.ok:
            lines += ["", f"{name}  {_failed(outcome)}"]
            lines += [f"  | {line}" for line in output_tail(outcome.output, TAIL_LINES)]
    if host.message and not lines:
        first, *rest = printable(host.message).splitlines()
        lines += ["", f"{name}  {host.status.value}: {first}", *(f"  {line.strip()}" for line in rest)]
    if host.left and host.status is Status.FAILED:
        left = ", ".join(f"{label(change.stage, change.task)} {change.subject}" for change in host.left)
        lines.append(f"  still open: {one_line(left)}")
    return lines


def summary(result: RunResult, call: Invocation) -> list[str]:
    """The last lines: how many hosts didn't end well, the command for those alone, where the journal is."""
    bad = [host for host in result.hosts.values() if host.status in _BAD]
    lines: list[str] = []
    if bad:
        counts = [
            f"{number} {status.value}" for status in _BAD if (number := sum(host.status is status for host in bad))
        ]
        lines += ["", f"{', '.join(counts)} of {counted(len(result.hosts), 'host')}. Journal: {result.journal or '-'}"]
    if result.interrupted:
        lines.append(f"Interrupted. To go on: {call.again()}")
    elif bad:
        lines.append(f"Again for those alone: {hints.for_the_failed(call)}")
    return lines


def outputs(result: RunResult) -> str:
    """What a command printed, hosts with the same output together. Ends with an empty line."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for host in result.hosts.values():
        lines = [line for outcome in host.outcomes for line in output_tail(outcome.output, OUTPUT_LINES)]
        alike.setdefault(tuple(lines), []).append(host.host)
    parts = []
    for output, hosts in alike.items():
        parts += [f"{one_line(compress(hosts))}:", *(f"  {line}" for line in output or ("(no output)",)), ""]
    return "\n".join(parts) + "\n"


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    host, status, *numbers, remark = cells
    right = "  ".join(f"{number:>{width}}" for number, width in zip(numbers, widths[2:], strict=True))
    return f"{host:<{widths[0]}}  {status:<{widths[1]}}  {right}  {remark}".rstrip()


def _failed(outcome: Outcome) -> str:
    change = outcome.change
    restored = f", {one_line(outcome.restored)}" if outcome.restored else ""
    return f"{label(change.stage, change.task)}  failed: {one_line(change.summary or change.subject)}{restored}"


def _remark(host: HostResult) -> str:
    failed = next((outcome for outcome in host.outcomes if not outcome.ok), None)
    if failed is not None and failed.change.id in host.message:
        return _failed(failed)
    if host.refusals:
        return one_line(host.refusals[0].what)
    if host.message:
        return printable(host.message).splitlines()[0]
    parts = [f"{len(host.deferred)} deferred"] if host.deferred else []
    return ", ".join(parts + (["restart pending"] if host.reboot_pending else []))
