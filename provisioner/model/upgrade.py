"""A rolling upgrade as data: what is asked for, and where each node is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

Kind = Literal["driver", "toolkit", "deferred"]
"""What a roll brings: another driver, another toolkit, or the restarts that `apply` deferred."""


class Phase(Enum):
    """What is being done to a node. A phase is recorded before its side effect and may be entered again: each is
    idempotent, so a resumed roll simply does the recorded phase anew. The value is what people and JSON see."""

    PENDING = "pending"
    LOCK = "locking"
    CORDON = "cordoning"
    WAIT_JOBS = "waiting-for-jobs"
    EVICT = "evicting"
    STOP_CLIENTS = "stopping-clients"
    UNLOAD = "unloading"
    INSTALL = "installing"
    LOAD = "loading"
    REBOOT = "rebooting"
    VERIFY_HOST = "verifying-host"
    START_CLIENTS = "starting-clients"
    VERIFY_CLUSTER = "verifying-cluster"
    UNCORDON = "uncordoning"
    RELEASE = "releasing"
    MARK_UNHEALTHY = "marking-unhealthy"
    DONE = "done"
    FAILED = "failed"
    ROLLED_BACK = "rolled-back"
    BROKEN = "broken"


ENDED = frozenset({Phase.DONE, Phase.FAILED, Phase.ROLLED_BACK, Phase.BROKEN})
"""Phases in which nothing more happens to a node. FAILED: it was left as it had been (uncordoned if the cordon was
ours); ROLLED_BACK: the previous driver works again; BROKEN: still cordoned, labelled, a person is needed."""

TOUCHED = frozenset(
    {
        Phase.UNLOAD,
        Phase.INSTALL,
        Phase.LOAD,
        Phase.REBOOT,
        Phase.VERIFY_HOST,
        Phase.START_CLIENTS,
        Phase.VERIFY_CLUSTER,
    }
)
"""Phases from which a failure means: back to the previous packages."""


class Result(Enum):
    """How a phase ended. BUSY: the module is held by someone; RETRY_REBOOT: loading failed in a way that a reboot
    may mend."""

    OK = "ok"
    FAILED = "failed"
    BUSY = "busy"
    RETRY_REBOOT = "reboot"


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """Where one node is: the content of its annotation (or of the host's file where there is no cluster).

    run         id of the roll; token: its fencing number, which only grows from roll to roll
    kind        what the roll brings, so that going on needs no option
    back        True on the way back to the previous packages
    reboot      the driver comes into effect by a reboot, not by unload and load
    cordoned_before  owners of the cordon before this roll: () the node was schedulable
    clients     units and pods that were stopped and must run again
    boot        boot identity before a reboot, by which coming back is recognised
    offered     what the node offered to pods before, "nvidia.com/gpu=8", and must offer again
    since       seconds since the epoch at which the phase began
    reason      why it ended as it did, or why it waits; evidence for a person
    """

    host: str
    node: str = ""
    phase: Phase = Phase.PENDING
    run: str = ""
    token: int = 0
    kind: Kind = "driver"
    back: bool = False
    reboot: bool = False
    source: str = ""
    target: str = ""
    cordoned_before: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    boot: str = ""
    offered: tuple[str, ...] = ()
    since: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RollOptions:
    """What the command line asks for. Durations in seconds; `max_unavailable` a number of nodes."""

    max_unavailable: int = 1
    canary: str = ""
    order: tuple[str, ...] = ()
    max_failures: int = 0
    reboot: Literal["auto", "always", "never"] = "auto"
    drain: Literal["gpu-pods", "full"] = "gpu-pods"
    drain_timeout: float = 900.0
    wait_for_jobs: str = ""
    job_timeout: float = 0.0
    reboot_timeout: float = 900.0
    window: str = ""
    rollback: Literal["auto", "never"] = "auto"
    pause_between: float = 0.0
    soak: float = 0.0
    kind: Kind = "driver"


@dataclass(frozen=True)
class Roll:
    """A whole roll: its options, its nodes by host name, and those left out with the reason."""

    run: str
    token: int
    source: str
    target: str
    options: RollOptions
    nodes: Mapping[str, NodeRecord] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node that the roll will touch, in its place of the order. `node` "" without a cluster. `source` is the version
    now; `way_back` False: the previous packages can't be had. `notes` are consequences that a person should know
    (fabric manager, CDI specs, MIG, budgets that allow no eviction now)."""

    host: str
    node: str
    source: str
    target: str
    way_back: bool = True
    notes: tuple[str, ...] = ()
    control_plane: bool = False


@dataclass(frozen=True)
class RollPlan:
    """What a roll would do, for the question. `left_out`: host → reason (skipped, cordoned by others, NotReady, done
    already, not named); `refused`: host → reason (a check failed: this node can't be upgraded as asked). `files`:
    files of the site that are written first: (path, text before, text after). `notes` for the whole roll."""

    kind: str
    target: str
    nodes: tuple[PlannedNode, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    files: tuple[tuple[str, str, str], ...] = ()
    notes: tuple[str, ...] = ()
    options: RollOptions = field(default_factory=RollOptions)
    cluster: bool = True


@dataclass(frozen=True)
class RollReport:
    """How a roll ended, or stands (`--status`). `nodes` by host name; `stopped`: why no further node was begun, "" when
    all were; `outdated`: pods ("NAMESPACE/NAME") that still run with the libraries of the old driver; `seconds` host →
    phase value → seconds spent in it; `holder` who holds the lease ("" nobody), `frozen` the reason when rolls are."""

    run: str
    exit_code: int
    nodes: Mapping[str, NodeRecord]
    left_out: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    stopped: str = ""
    outdated: tuple[str, ...] = ()
    seconds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    journal: str = ""
    holder: str = ""
    frozen: str = ""
    interrupted: bool = False
