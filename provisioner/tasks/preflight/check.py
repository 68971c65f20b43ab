"""One question of preflight: what it reads, and a pure function that judges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from provisioner.errors import FactUnknown
from provisioner.model.change import Note, Refusal
from provisioner.model.fact import Facts, Probe
from provisioner.tasks.preflight.wanted import Wanted

Verdict = Refusal | Note | None
Judge = Callable[[Facts, Wanted], Verdict]


@dataclass(frozen=True, slots=True)
class Check:
    """`subject` names the check in plans; `asks` is the question, as "are there enough cards?"; `reads` are the
    probes that `judge` may look at. `judge` raises FactUnknown where it can't tell."""

    subject: str
    asks: str
    reads: tuple[Probe[Any], ...]
    judge: Judge

    def run(self, facts: Facts, wanted: Wanted) -> Iterator[Refusal | Note]:
        """The verdict; what can't be told is refused, with the reason: unknown is never taken for good."""
        try:
            verdict = self.judge(facts, wanted)
        except FactUnknown as error:
            verdict = Refusal(
                subject=self.subject,
                what=f"can't tell: {self.asks}",
                why=f"{error.what}: {error.why}" if error.why else error.what,
                remedy=error.remedy or "mend what keeps it from being read, then plan again",
            )
        if verdict is not None:
            yield verdict
