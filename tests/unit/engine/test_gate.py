"""Nothing that disturbs is done to a host that works, unless someone said so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provisioner.engine.gate import follow_requirements, gate, of_stage
from provisioner.facts.workload import Workload
from provisioner.model.change import Change, Disruption, Kind
from provisioner.model.fact import Fact, Known, Unknown
from tests.unit.engine.world import context, facts

BUSY = Known(Workload(gpu_processes=("4711 python3",), containers=("default/train/main",)))
IDLE = Known(Workload())
UNTOLD: Fact[Workload] = Unknown("containerd doesn't answer")
KUBELET = Known(Workload(kubelet="kubelet"))


def change(disruption: Disruption, subject: str = "x", requires: tuple[str, ...] = ()) -> Change:
    return Change(
        subject,
        "summary",
        Kind.UPDATE,
        (),
        disruption=disruption,
        disrupts="restarts containerd",
        requires=requires,
        task="t",
        stage="s",
    )


@pytest.mark.parametrize("workload", [BUSY, UNTOLD])
@pytest.mark.parametrize("disruption", [Disruption.SERVICE, Disruption.DRAIN])
def test_a_host_that_works_or_may_work_is_not_disturbed(workload: Fact[Workload], disruption: Disruption) -> None:
    deferred = gate(change(disruption), facts(workload), context()).deferred
    assert deferred is not None
    assert deferred.command == "provision apply site.toml --limit gpu01 --disruptive"


def test_the_reason_names_what_would_be_hurt() -> None:
    deferred = gate(change(Disruption.SERVICE), facts(BUSY), context()).deferred
    assert deferred is not None
    assert "4711 python3" in deferred.reason
    assert "default/train/main" in deferred.reason


@pytest.mark.parametrize("workload", [BUSY, IDLE, UNTOLD])
def test_an_undisturbing_change_never_waits(workload: Fact[Workload]) -> None:
    assert gate(change(Disruption.NONE), facts(workload), context()).deferred is None


@pytest.mark.parametrize("workload", [BUSY, UNTOLD])
def test_consent_lets_it_through(workload: Fact[Workload]) -> None:
    assert gate(change(Disruption.SERVICE), facts(workload), context(disruptive=True)).deferred is None


def test_an_idle_host_may_be_disturbed() -> None:
    assert gate(change(Disruption.SERVICE), facts(IDLE), context()).deferred is None


def test_a_reboot_needs_consent() -> None:
    deferred = gate(change(Disruption.REBOOT), facts(IDLE), context()).deferred
    assert deferred is not None
    assert deferred.command.endswith("--reboot")
    assert gate(change(Disruption.REBOOT), facts(IDLE), context(reboot=True)).deferred is None


def test_a_reboot_under_an_active_kubelet_is_the_rolling_upgrades_business() -> None:
    deferred = gate(change(Disruption.REBOOT), facts(KUBELET), context(reboot=True)).deferred
    assert deferred is not None
    assert "upgrade-driver" in deferred.command


def test_a_node_that_works_is_drained_by_a_roll() -> None:
    busy = Known(Workload(containers=("default/train/main",), kubelet="kubelet"))
    deferred = gate(change(Disruption.SERVICE), facts(busy), context()).deferred
    assert deferred is not None
    assert deferred.reason.endswith("1 container (default/train/main) would be hurt: drain the node first")
    assert deferred.command == "provision upgrade-driver site.toml --deferred --limit gpu01"
    assert gate(change(Disruption.SERVICE), facts(busy), context(disruptive=True)).deferred is None


def test_no_consent_reboots_a_host_whose_kubelet_may_be_active() -> None:
    deferred = gate(change(Disruption.REBOOT), facts(UNTOLD), context(reboot=True, disruptive=True)).deferred
    assert deferred is not None
    assert "containerd doesn't answer" in deferred.reason


def test_the_command_for_a_busy_host_keeps_the_consent_to_reboot() -> None:
    deferred = gate(change(Disruption.REBOOT), facts(BUSY), context(reboot=True)).deferred
    assert deferred is not None
    assert deferred.command == "provision apply site.toml --limit gpu01 --reboot --disruptive"


@pytest.mark.parametrize("disruption", [Disruption.SERVICE, Disruption.DRAIN, Disruption.REBOOT])
def test_on_a_drained_node_nothing_waits(disruption: Disruption) -> None:
    for workload in (BUSY, KUBELET, UNTOLD):
        assert gate(change(disruption), facts(workload), context(drained=True)).deferred is None


def test_what_requires_a_waiting_change_waits_too() -> None:
    first = change(Disruption.NONE, "first").defer("later", "do it")
    second = change(Disruption.NONE, "second", requires=("first",))
    third = change(Disruption.NONE, "third", requires=("s/t:second",))
    free = change(Disruption.NONE, "free")
    result = follow_requirements([first, second, third, free])
    assert [c.deferred is None for c in result] == [False, False, False, True]
    assert result[2].deferred is not None
    assert result[2].deferred.command == "do it"


def test_one_stage_alone_does_nothing_whose_requirement_is_left_out() -> None:
    toolkit = replace(change(Disruption.NONE, "packages"), stage="packages", task="toolkit")
    handler = change(Disruption.SERVICE, "handler", requires=("packages/toolkit:packages",))
    free = change(Disruption.NONE, "free")
    first, second = of_stage([toolkit, handler, free], "s", "provision apply site.toml")
    assert first.deferred is not None
    assert (first.deferred.reason, first.deferred.command) == (
        "waits for packages/toolkit:packages",
        "provision apply site.toml",
    )
    assert second.deferred is None
