"""All changes of a run, as data: what is rendered, saved, compared, approved and compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from provisioner.model.change import Change, Note, Refusal


@dataclass(frozen=True)
class HostPlan:
    """What one host needs, stage by stage in the playbook's order.

    `error` is set when the host couldn't be observed (what, why, remedy as one text); `unknown` holds
    (stage, task, text) of tasks that couldn't plan because a fact couldn't be read. `identity` tells this very
    machine and boot from others: machine id, boot id and start of PID 1.
    """

    host: str
    changes: tuple[Change, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[Note, ...] = ()
    unknown: tuple[tuple[str, str, str], ...] = ()
    error: str = ""
    error_kind: str = ""
    identity: str = ""

    @property
    def open(self) -> tuple[Change, ...]:
        """Changes that can be done now."""
        return tuple(change for change in self.changes if change.deferred is None)

    @property
    def deferred(self) -> tuple[Change, ...]:
        """Changes that wait."""
        return tuple(change for change in self.changes if change.deferred is not None)

    @property
    def blocked(self) -> bool:
        """True when nothing may be applied to this host."""
        return bool(self.error or self.refusals or self.unknown)


@dataclass(frozen=True)
class Plan:
    """A plan for several hosts. `inventory_digest` and `playbook_digest` are SHA-256; `stages` in order;
    `secrets` maps a secret's name to a salted hash of its value."""

    playbook: str
    inventory: str
    stages: tuple[str, ...]
    hosts: tuple[HostPlan, ...]
    inventory_digest: str = ""
    playbook_digest: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict)
    created: str = ""
    options: Mapping[str, object] = field(default_factory=dict)

    def host(self, name: str) -> HostPlan:
        """The plan of that host. Raises KeyError."""
        for plan in self.hosts:
            if plan.host == name:
                return plan
        raise KeyError(name)
