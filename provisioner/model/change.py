"""What a task answers when it is asked to plan: changes, refusals and notes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, IntEnum

from provisioner.model.action import Action


class Kind(Enum):
    """The symbol shown is the value: there is no other mapping."""

    CREATE = "+"
    UPDATE = "~"
    DELETE = "-"
    RUN = ">"


class Disruption(IntEnum):
    """What a change takes away from what runs on the host.

    NONE nothing; SERVICE restarts, daemon-reload, maintainer scripts that restart (a daemon-reload alone takes
    the cards away from running containers, NVIDIA/nvidia-docker#1730); DRAIN needs the cards idle; REBOOT needs
    a restart of the host.
    """

    NONE = 0
    SERVICE = 1
    DRAIN = 2
    REBOOT = 3


@dataclass(frozen=True, slots=True)
class Deferral:
    """Why a change waits (`reason`: "needs a drained node") and the command that does it (may be empty)."""

    reason: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between facts and desire, and the actions that end it.

    subject     what is changed, unique within a task: a path, a unit, "packages"
    summary     one line: "nvidia-open 570.172.08 → 580.95.05"
    before/after  texts for the diff; None where there is nothing to compare. Secrets stand as references
    disrupts    what it disturbs, for people: "restarts containerd"
    deferred    set by the task when the change can't be done now, or by the engine (workload, no consent)
    requires    ids or subjects (of the same task) of changes that must be done first; when one of them is
                deferred or fails, this one is deferred or not attempted
    provisional the content depends on an earlier stage (a file that a package will bring), so what is shown is
                only announced; the real diff is made after that stage
    task/stage/id  filled in by the engine: id is "STAGE/TASK:SUBJECT"
    """

    subject: str
    summary: str
    kind: Kind
    actions: tuple[Action, ...]
    before: str | None = None
    after: str | None = None
    disruption: Disruption = Disruption.NONE
    disrupts: str = ""
    deferred: Deferral | None = None
    requires: tuple[str, ...] = ()
    provisional: bool = False
    notes: tuple[str, ...] = ()
    task: str = ""
    stage: str = ""

    @property
    def id(self) -> str:
        """Stable name of this change between runs."""
        return f"{self.stage}/{self.task}:{self.subject}"

    def defer(self, reason: str, command: str = "") -> Change:
        """The same change, waiting."""
        return replace(self, deferred=Deferral(reason, command))


@dataclass(frozen=True, slots=True)
class Refusal:
    """The host must not be changed at all: what was found, why that stops, what to do."""

    subject: str
    what: str
    why: str = ""
    remedy: str = ""
    task: str = ""
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Something a person should know; changes nothing and stops nothing."""

    subject: str
    text: str
    task: str = ""
    stage: str = ""


Finding = Change | Refusal | Note
