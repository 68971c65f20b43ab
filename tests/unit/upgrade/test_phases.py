"""Phases on a host, with answers given beforehand: what is done again, and what a look at the lease covers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from provisioner.errors import Unreachable
from provisioner.facts.packages import PackagesProbe, PackageState
from provisioner.model.fact import Facts, Known
from provisioner.model.lock import Closure
from provisioner.model.upgrade import NodeRecord, Phase, Result, RollOptions
from provisioner.transport.executor import Completed
from provisioner.transport.fake import Answer, FakeExecutor
from provisioner.upgrade import hostops
from provisioner.upgrade.hostops import Installed
from provisioner.upgrade.hoststep import Fence
from provisioner.upgrade.member import Member
from provisioner.upgrade.phases import FRESH, Work


@dataclass
class Holding:
    """Counts looks."""

    token: int = 7
    looks: int = 0

    def check(self) -> None:
        self.looks += 1

    def release(self) -> None:
        pass


@dataclass
class Host:
    """A member of a roll, as far as these phases ask."""

    executor: FakeExecutor
    kind: str = "driver"
    slept: list[float] = field(default_factory=list)


def rows(*lines: str) -> Completed:
    return Completed(0, "\n".join([*(line.replace(" ", "\t") for line in lines), "@end", ""]).encode(), b"")


def away(script: str) -> Completed:
    raise Unreachable("gpu01: no route to host")


def work(*answers: Answer, options: RollOptions | None = None, holding: Holding | None = None) -> tuple[Work, Host]:
    host = Host(FakeExecutor("gpu01", answers))
    made = Work(
        member=cast(Member, host),
        fence=Fence("run-1", 7, "ann@desk"),
        api=None,
        holding=holding or Holding(),
        options=options or RollOptions(),
        render=lambda name, values: "",
        say=lambda record, text: None,
        stopping=lambda: False,
        sleep=host.slept.append,
    )
    return made, host


def record(phase: Phase, **given: str) -> NodeRecord:
    return NodeRecord("gpu01", phase=phase, source="570.1", target="580.1", **given)  # type: ignore[arg-type]


OLD_BACK, NEW = rows("version 570.1 580.1"), rows("version 580.1 580.1")


def test_an_old_module_that_came_back_meanwhile_goes_again_before_a_restart_is_thought_of() -> None:
    made, host = work(OLD_BACK, rows("unloaded nvidia", "result ok "), NEW)
    assert made.do(record(Phase.LOAD)).result is Result.OK
    assert host.executor.execs == 3


def test_an_old_module_that_is_held_needs_a_restart() -> None:
    made, _ = work(OLD_BACK, rows("result busy "))
    done = made.do(record(Phase.LOAD))
    assert done.result is Result.RETRY_REBOOT
    assert "only a restart replaces it" in done.reason


def test_the_driver_s_own_daemons_are_not_named_as_what_is_waited_for() -> None:
    told = rows(
        "holder 423 nvidia-persiste nvidia-persistenced /dev/nvidia0",
        "cgroup 423 /system.slice/nvidia-persistenced.service",
        "holder 2033 python3 train.py /dev/nvidia0",
        "cgroup 2033 /system.slice/training.service",
    )
    made, _ = work(told, options=RollOptions(drain_timeout=0.001))
    done = made.do(record(Phase.EVICT))
    assert done.reason == "the cards are still in use: held by 2033 train.py of training.service"


@pytest.mark.parametrize("silent", [1, 3])
def test_a_host_that_is_restarting_when_a_run_goes_on_is_waited_for(silent: int) -> None:
    made, host = work(*[away] * silent, rows("restart machine/boot2/9 no"))
    assert made.do(record(Phase.REBOOT, boot="machine/boot1/5")).result is Result.OK
    assert len(host.slept) == silent


def test_a_host_that_stays_away_has_failed_and_it_is_said() -> None:
    made, _ = work(away, options=RollOptions(reboot_timeout=0.0))
    done = made.do(record(Phase.REBOOT, boot="machine/boot1/5"))
    assert done.result is Result.FAILED
    assert "no route to host" in done.reason


def test_a_unit_that_does_not_start_again_needs_a_person() -> None:
    made, _ = work(rows("version 570.1 570.1"), rows("client nvidia-dcgm.service failed core-dumped"))
    done = made.do(record(Phase.RELEASE))
    assert done.result is Result.FAILED
    assert "nvidia-dcgm.service did not obey" in done.reason


@pytest.mark.parametrize(("back", "kernels"), [(False, ("6.1.0-21-amd64",)), (True, ())])
def test_the_way_back_asks_nothing_of_the_kernel_that_boots_next(
    back: bool, kernels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That kernel may never have had the previous version; the host worked without all the same."""
    asked: list[tuple[str, ...]] = []

    def install(*_: object, kernels: tuple[str, ...], **__: object) -> Installed:
        asked.append(kernels)
        return Installed(Result.OK)

    empty = Closure("debian12", "amd64", "nvidia", "580.1", "open", "1.18.0", (), ())
    version = "570.1" if back else "580.1"
    told = rows(f"stored {version}", f"package {version} nvidia-open {version}-1 driver amd64 10")
    made, host = work(told)
    facts = Facts("gpu01", {PackagesProbe(): Known(PackageState("apt"))})
    host.__dict__ |= {"closure": empty, "kernels": ("6.1.0-21-amd64",), "read": lambda: facts}
    monkeypatch.setattr(hostops, "install", install)
    made.do(replace(record(Phase.INSTALL), back=back))
    assert asked == [kernels]


def test_recording_a_phase_and_beginning_it_need_one_look_at_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    clock: Callable[[], float] = lambda: now[0]  # noqa: E731
    monkeypatch.setattr(time, "time", clock)
    holding = Holding()
    made, _ = work(NEW, holding=holding)
    made.save(record(Phase.LOAD))
    made.do(record(Phase.LOAD))
    assert holding.looks == 1
    for later in (now[0] + FRESH, now[0] - 10.0):
        # The wall clock went on while the laptop slept; one that was set back proves nothing either.
        now[0] = later
        made.do(record(Phase.LOAD))
    assert holding.looks == 3
