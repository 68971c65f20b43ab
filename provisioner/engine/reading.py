"""Facts for people and programs: JSON-able, each value known, absent (null) or {"unknown": reason}. Pure."""

from __future__ import annotations

from typing import Any

from provisioner.engine.planning import HostSteps
from provisioner.facts.host import SystemProbe
from provisioner.facts.workload import WorkloadProbe
from provisioner.model.fact import Facts, Known, Unknown


def describe(wanted: HostSteps, facts: Facts) -> dict[str, Any]:
    """What `provision facts` shows of one host: the system, what runs, and what each task tells of its subject."""
    told: dict[str, Any] = {}
    system = facts.fact(SystemProbe())
    if isinstance(system, Known):
        told["system"] = {
            "distribution": system.value.distribution,
            "kernel": system.value.kernel,
            "arch": system.value.arch,
            "hostname": system.value.hostname,
        }
    else:
        told["system"] = as_unknown(system)
    workload = facts.fact(WorkloadProbe())
    if isinstance(workload, Known):
        told["workload"] = {
            "gpu_processes": list(workload.value.gpu_processes),
            "containers": list(workload.value.containers),
            "kubelet": workload.value.kubelet or None,
        }
    else:
        told["workload"] = as_unknown(workload)
    for step in wanted.steps:
        told.update(step.task.describe(facts, wanted.ctx))
    return told


def as_unknown(fact: object) -> dict[str, str] | None:
    """How a fact without a value is shown: None when absent, {"unknown": reason} otherwise."""
    return {"unknown": fact.reason} if isinstance(fact, Unknown) else None
