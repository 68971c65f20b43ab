"""What a run did to each host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from provisioner.model.change import Change, Note, Refusal


class Status(Enum):
    """How a host ended. REFUSED: preflight; UNREACHABLE: never observed; STOPPED: another host's failure or
    an interruption ended the run before this host was done."""

    OK = "ok"
    CHANGED = "changed"
    FAILED = "failed"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One change that was attempted. `output` is the last lines of what its actions printed (real line ends);
    `restored` tells how its way back ended: "" none was needed or there is none, "restored", or why not."""

    change: Change
    ok: bool
    output: str = ""
    restored: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class HostResult:
    """One host's run. `changed` and `failed` count changes; `execs` and `connections` count what the transport
    really opened; `left` are changes that are still open after the last observation."""

    host: str
    status: Status
    outcomes: tuple[Outcome, ...] = ()
    deferred: tuple[Change, ...] = ()
    left: tuple[Change, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[Note, ...] = ()
    message: str = ""
    execs: int = 0
    connections: int = 0
    seconds: float = 0.0
    reboot_pending: bool = False

    @property
    def changed(self) -> int:
        """Changes that were done."""
        return sum(outcome.ok for outcome in self.outcomes)

    @property
    def failed(self) -> int:
        """Changes that failed."""
        return sum(not outcome.ok for outcome in self.outcomes)


@dataclass(frozen=True)
class RunResult:
    """A whole run. `journal` is the path of its journal on the controller; `kind` "apply", "exec", …"""

    run: str
    kind: str
    hosts: Mapping[str, HostResult]
    exit_code: int
    journal: str = ""
    seconds: float = 0.0
    interrupted: bool = False
    facts: Mapping[str, object] = field(default_factory=dict)
