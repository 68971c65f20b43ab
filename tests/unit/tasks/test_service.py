"""service: enabling, starting, and restarts that are planned from what the host shows."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from provisioner.errors import PlaybookError
from provisioner.facts.host import Identity, IdentityProbe
from provisioner.facts.services import Inputs, InputsProbe, Unit, UnitProbe
from provisioner.model.action import Run, Service
from provisioner.model.change import Change, Disruption
from provisioner.model.fact import Probe
from provisioner.tasks.proof import assert_settles, changes, context_of
from provisioner.tasks.service import ServiceUnit, outdated
from provisioner.tasks.task import build

UNIT = UnitProbe("chrony.service")
CONF = "/etc/chrony.conf"
INPUTS = InputsProbe("chrony.service", (CONF,))
RUNNING = Unit("enabled", load="loaded", active="active", sub="running", started=1000.0)
STOPPED = Unit("disabled", load="loaded", active="inactive", sub="dead")
SUMS = f"aa  {CONF}\n"
BOOTED = Identity("m", "b", 1, True)
CHROOT = Identity("m", "b", 1, False)


def facts(unit: Unit | None, inputs: Inputs | None = None, host: Identity = BOOTED) -> dict[Probe[Any], Any]:
    known: dict[Probe[Any], Any] = {IdentityProbe(): host, UNIT: unit}
    return known if inputs is None else {**known, INPUTS: inputs}


def only(found: list[Change]) -> Change:
    (change,) = found
    return change


def test_a_stopped_unit_is_enabled_and_started() -> None:
    task = ServiceUnit(unit="chrony", enabled=True, state="started")
    change = only(assert_settles(task, before=facts(STOPPED), after=facts(RUNNING)))
    assert change.summary == "enabled, started (it is inactive)"
    assert change.actions == (Service("chrony.service", enabled=True, state="started"),)
    # systemctl enable reloads the manager, which takes the cards away from running containers
    assert (change.disruption, change.disrupts) == (Disruption.SERVICE, "daemon-reload")


def test_starting_alone_disturbs_nothing() -> None:
    change = only(changes(ServiceUnit(unit="chrony", state="started"), facts(dataclasses.replace(STOPPED))))
    assert change.disruption is Disruption.NONE


def test_stopping_and_disabling() -> None:
    task = ServiceUnit(unit="chrony", enabled=False, state="stopped")
    change = only(assert_settles(task, before=facts(RUNNING), after=facts(STOPPED)))
    assert change.actions == (Service("chrony.service", enabled=False, state="stopped"),)
    assert change.disrupts == "stops chrony.service"


@pytest.mark.parametrize("word", ["static", "indirect", "generated", "alias"])
def test_units_that_cannot_be_enabled_count_as_they_are(word: str) -> None:
    assert not changes(ServiceUnit(unit="chrony", enabled=True), facts(dataclasses.replace(RUNNING, enabled=word)))


def test_without_a_running_systemd_units_are_only_enabled() -> None:
    task = ServiceUnit(unit="chrony", enabled=True, state="started")
    change = only(
        assert_settles(task, before=facts(Unit("disabled"), host=CHROOT), after=facts(Unit("enabled"), host=CHROOT))
    )
    assert change.actions == (Service("chrony.service", enabled=True),)
    assert change.disruption is Disruption.NONE


def test_a_masked_unit_is_somebody_s_will() -> None:
    masked = Unit("masked", load="masked", active="inactive")
    change = only(changes(ServiceUnit(unit="chrony", enabled=True, state="started"), facts(masked)))
    assert change.deferred is not None
    assert change.deferred.command == "systemctl unmask chrony.service"
    task = ServiceUnit(unit="chrony", enabled=True, state="started", masked=False)
    change = only(assert_settles(task, before=facts(masked), after=facts(RUNNING)))
    assert change.deferred is None
    assert change.actions[0] == Service("chrony.service", enabled=True, state="started", masked=False)


def test_a_unit_that_is_not_there_yet_is_announced() -> None:
    change = only(changes(ServiceUnit(unit="chrony", enabled=True, state="started"), facts(None)))
    assert change.provisional
    assert change.actions == (Service("chrony.service", enabled=True, state="started", daemon_reload=True),)
    assert not changes(ServiceUnit(unit="chrony", enabled=False, state="stopped"), facts(None))


def test_unit_files_that_systemd_has_not_read() -> None:
    stale = dataclasses.replace(RUNNING, reload_needed=True)
    change = only(assert_settles(ServiceUnit(unit="chrony", enabled=True), before=facts(stale), after=facts(RUNNING)))
    assert change.actions == (Service("chrony.service", daemon_reload=True),)
    assert change.disrupts == "daemon-reload"


def test_a_restart_is_planned_from_the_stamp_and_leaves_one() -> None:
    task = ServiceUnit(unit="chrony", state="started", restart_on=(CONF,))
    changed = Inputs(now=SUMS, stamp=f"bb  {CONF}\n", changed=2000.0)
    settled = Inputs(now=SUMS, stamp=SUMS, changed=2000.0)
    change = only(assert_settles(task, before=facts(RUNNING, changed), after=facts(RUNNING, settled)))
    assert change.disrupts == "restarts chrony.service"
    note, restart, keep = change.actions
    assert restart == Service("chrony.service", state="restarted")
    assert isinstance(note, Run)
    assert isinstance(keep, Run)
    assert note.script.rstrip().endswith(">/var/lib/provision/stamps/chrony.service.new")
    assert keep.script == (
        "mv -f /var/lib/provision/stamps/chrony.service.new /var/lib/provision/stamps/chrony.service"
    )


@pytest.mark.parametrize(
    ("inputs", "old"),
    [
        (Inputs(SUMS, None, 999.0), False),
        (Inputs(SUMS, None, 1001.0), True),
        (Inputs(SUMS, SUMS, 5000.0), False),  # touched, but as it was at our restart
        (Inputs(SUMS, f"bb  {CONF}\n", 999.0), False),  # somebody restarted it after the change
        (Inputs(SUMS, f"bb  {CONF}\n", 1001.0), True),
        (Inputs(f"absent  {CONF}\n", SUMS, 0.0), True),  # a file that has gone has no time
        (Inputs(f"absent  {CONF}\n", None, 0.0), False),
    ],
)
def test_does_the_service_run_with_what_is_there(inputs: Inputs, old: bool) -> None:
    assert outdated(RUNNING, inputs) is old


def test_a_restart_follows_a_file_that_this_plan_changes() -> None:
    task = ServiceUnit(unit="chrony", state="started", restart_on=("/etc/chrony",))
    inputs = InputsProbe("chrony.service", ("/etc/chrony",))
    known = {**facts(RUNNING), inputs: Inputs("aa  /etc/chrony\n", None, 1.0)}
    assert not changes(task, known)
    ctx = context_of(pending={"/etc/chrony/conf.d/a.conf": "site/file:/etc/chrony/conf.d/a.conf", "/etc/x": "no"})
    change = only(changes(task, known, ctx))
    assert change.requires == ("site/file:/etc/chrony/conf.d/a.conf",)
    assert change.disrupts == "restarts chrony.service"


def test_a_stopped_service_is_not_restarted() -> None:
    stale = Inputs(SUMS, f"bb  {CONF}\n", 2000.0)
    assert not changes(ServiceUnit(unit="chrony", restart_on=(CONF,)), facts(STOPPED, stale))


@pytest.mark.parametrize(
    "fields",
    [
        {"unit": ""},
        {"unit": "../x"},
        {"unit": "-x"},
        {"unit": "chrony", "masked": True, "enabled": True},
        {"unit": "chrony", "restart_on": ["etc/x"]},
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(PlaybookError):
        build("service", fields)
