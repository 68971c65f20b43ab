"""What happens during a run, one small record each; the journal, `--events` and the live view all read these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

EventKind = Literal[
    "run-started",
    "host-connecting",
    "host-observing",
    "host-observed",
    "host-planned",
    "stage-started",
    "change-started",
    "change-done",
    "change-failed",
    "stage-done",
    "host-rebooting",
    "host-back",
    "host-done",
    "host-failed",
    "warning",
    "roll-started",
    "phase-started",
    "phase-progress",
    "phase-done",
    "phase-failed",
    "node-ended",
    "roll-done",
    "run-stopping",
    "run-done",
]


@dataclass(frozen=True, slots=True)
class Event:
    """`at` seconds since the epoch. `text` is a line for people, without secrets; `data` is JSON-able."""

    kind: EventKind
    at: float
    host: str = ""
    stage: str = ""
    change: str = ""
    text: str = ""
    data: dict[str, Any] = field(default_factory=dict)


Monitor = Callable[[Event], None]
