"""Rolls as a site would see them."""

from __future__ import annotations

from dataclasses import replace

from provisioner.model.upgrade import NodeRecord, Phase, PlannedNode, RollOptions, RollPlan, RollReport
from provisioner.report.hints import Invocation

OLD, NEW = "570.172.08", "580.95.05"
BEFORE = f'[versions]\ndriver = "{OLD}"  # as the images need it\n'
CALL = Invocation("upgrade-driver", "inventories/prod.toml", ("--limit", "h100", "--drain", "full"))


def planned(number: int, **more: object) -> PlannedNode:
    """gpuNN, ready."""
    return replace(PlannedNode(f"gpu{number:02d}", f"gpu{number:02d}", OLD, NEW), **more)  # type: ignore[arg-type]


def plan(*nodes: PlannedNode, **more: object) -> RollPlan:
    """A roll of the driver."""
    return replace(RollPlan("driver", NEW, nodes or (planned(1), planned(2), planned(3))), **more)  # type: ignore[arg-type]


def record(number: int, phase: Phase, **more: object) -> NodeRecord:
    """gpuNN in a phase."""
    name = f"gpu{number:02d}"
    return replace(NodeRecord(name, name, phase, "r1", 5, source=OLD, target=NEW), **more)  # type: ignore[arg-type]


def report(*records: NodeRecord, **more: object) -> RollReport:
    """How a roll of these ended."""
    bad = any(each.phase in (Phase.FAILED, Phase.ROLLED_BACK, Phase.BROKEN) for each in records)
    found = RollReport("r1", int(bad), {each.host: each for each in records})
    return replace(found, **more)  # type: ignore[arg-type]


def options(**more: object) -> RollOptions:
    """Options of a roll."""
    return replace(RollOptions(), **more)  # type: ignore[arg-type]
