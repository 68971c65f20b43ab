"""The live view of a roll: one line a node with its phase and how long that has lasted."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.model.event import Event
from provisioner.model.upgrade import ENDED, Phase
from provisioner.report.live import View
from provisioner.report.names import counted, duration
from provisioner.report.paint import PHASE_STYLE
from provisioner.report.printable import one_line
from provisioner.report.progress import happening

_ENDED = frozenset(phase.value for phase in ENDED)
_GOOD = frozenset({Phase.DONE.value})


@dataclass(slots=True)
class NodeRow:
    """What one node does now. `since`: when its phase began, in seconds since the epoch; once it has ended, when
    that was."""

    phase: str
    since: float
    back: bool = False
    text: str = ""
    ended: bool = False


class RollView:
    """The state behind the live view of a roll. Until the first node begins it shows the hosts being read."""

    def __init__(self) -> None:
        self.rows: dict[str, NodeRow] = {}
        self._before = View()

    def take(self, event: Event) -> None:
        """Follow one event."""
        if event.kind == "roll-started":
            for name in event.data.get("nodes") or ():
                self.rows.setdefault(str(name), NodeRow(Phase.PENDING.value, event.at))
        elif event.kind == "node-ended":
            row = self.rows.setdefault(event.host, NodeRow(event.stage, event.at))
            row.phase, row.since, row.ended, row.text = event.stage, event.at, True, one_line(event.text)
        elif event.kind == "phase-started":
            since = float(event.data.get("since") or event.at)
            self.rows[event.host] = NodeRow(event.stage, since, bool(event.data.get("back")), one_line(event.text))
        elif event.host in self.rows:
            if event.kind != "phase-done" and not self.rows[event.host].ended:
                self.rows[event.host].text = happening(event)
        else:
            self._before.take(event)

    def lines(self, height: int, now: float) -> list[tuple[str, str]]:
        """(text, style) of at most `height` lines: a count, then nodes at work by longest first, then bad ends,
        nodes to come, good ends."""
        if not self.rows:
            return self._before.lines(height, now)
        order = sorted(self.rows.items(), key=lambda item: _place(item[1]))
        room = max(0, height - 1)
        shown = order if len(order) <= room else order[: max(0, room - 1)]
        width = max((len(one_line(name)) for name, _ in shown), default=0)
        wide = max((len(_phase(row)) for _, row in shown), default=0)
        made = [(self._count(), "bold")]
        for name, row in shown:
            age = "" if row.ended or _waits(row) else duration(max(0.0, now - row.since))
            text = f"  {one_line(name):<{width}}  {_phase(row):<{wide}}  {age:>6}  {row.text}".rstrip()
            made.append((text, PHASE_STYLE.get(row.phase, "") if row.ended else ""))
        if len(shown) < len(order) and room:
            made.append((f"  … and {counted(len(order) - len(shown), 'more node')}", "dim"))
        return made[: max(1, height)]

    def _count(self) -> str:
        ends = [row.phase for row in self.rows.values() if row.ended]
        waiting = sum(_waits(row) for row in self.rows.values())
        parts = [f"{len(self.rows) - len(ends) - waiting} of {counted(len(self.rows), 'node')} at work"]
        parts += [f"{waiting} to come"] if waiting else []
        return " · ".join(parts + [f"{ends.count(phase)} {phase}" for phase in dict.fromkeys(ends)])


def _phase(row: NodeRow) -> str:
    return one_line(f"{row.phase} (way back)" if row.back and row.phase not in _ENDED else row.phase)


def _waits(row: NodeRow) -> bool:
    return row.phase == Phase.PENDING.value


def _place(row: NodeRow) -> tuple[int, float]:
    if row.ended:
        return (3 if row.phase in _GOOD else 1), row.since
    return (2 if _waits(row) else 0), row.since
