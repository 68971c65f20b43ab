"""driver: facts in, exact changes, refusals and deferrals out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from provisioner.facts.driver import Library, Module, Smi
from provisioner.facts.host import System
from provisioner.facts.packages import LockHolder, LockHolderProbe, Package
from provisioner.model.action import Packages, Run
from provisioner.model.change import Change, Disruption, Kind, Note, Refusal
from provisioner.model.lock import Lock
from provisioner.tasks.context import Options
from provisioner.tasks.driver import Driver
from provisioner.tasks.proof import assert_settles, changes, findings
from tests.unit.tasks.hosts import (
    CLOSURES,
    DEBIAN,
    DEBIAN_CLOSURE,
    NOBLE,
    ROCKY,
    UBUNTU,
    context,
    disk,
    dpkg,
    driver_facts,
    installed,
    libraries,
    rpm,
)

TASK = Driver()
SYSTEMS = [DEBIAN, UBUNTU, NOBLE, ROCKY]


def bare(system: System) -> Any:
    return dpkg("dkms 3.0.10 all\n") if system.family == "debian" else rpm("dkms 3.2.1-1.el9 noarch\n")


def only(change: list[Change]) -> tuple[Change, Packages]:
    (one,) = change
    (action,) = one.actions
    assert isinstance(action, Packages)
    return one, action


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.distribution)
def test_a_bare_host_gets_all_of_the_closure_in_one_held_transaction(system: System) -> None:
    wanted = assert_settles(
        TASK,
        before=driver_facts(system, bare(system)),
        after=driver_facts(system, installed(system)),
        ctx=context(system),
    )
    change, action = only(wanted)
    locked = CLOSURES[system].role("driver")
    assert action.install == tuple((package.name, package.version) for package in locked)
    assert action.hold == tuple(package.name for package in locked)
    assert action.manager == ("apt" if system.family == "debian" else "dnf")
    assert not {"dkms", "gcc-12", "nvidia-container-toolkit"} & set(action.hold)
    assert not action.allow_downgrade
    assert (change.kind, change.disruption, change.deferred) == (Kind.CREATE, Disruption.SERVICE, None)
    assert change.summary == f"driver {CLOSURES[system].driver} ({len(locked)} packages)"


def test_tools_with_their_own_version_belong_to_the_closure() -> None:
    _, action = only(changes(TASK, driver_facts(DEBIAN, bare(DEBIAN)), context(DEBIAN)))
    assert ("nvidia-modprobe", "535.161.07-1~deb12u1") in action.install
    assert ("nvidia-kernel-common", "20220217+3~deb12u1") in action.install


def test_a_newer_driver_goes_back_to_the_locked_one_only_as_a_stated_downgrade() -> None:
    newer = DEBIAN_CLOSURE.replace("535.216.03-2~bpo12+1", "535.261.03-1")
    change, action = only(changes(TASK, driver_facts(DEBIAN, dpkg(newer)), context(DEBIAN)))
    assert action.allow_downgrade
    assert change.notes == ("this is a downgrade",)
    assert change.summary == "driver 535.261.03 → 535.216.03 (6 packages)"
    assert "libcuda1 535.261.03-1\n" in (change.before or "")
    assert "libcuda1 535.216.03-2~bpo12+1\n" in (change.after or "")


def test_what_another_version_left_behind_is_removed_and_holds_on_it_are_lifted() -> None:
    state = dpkg(
        "libcuda1 470.256.02-2 amd64 hi\nxserver-xorg-video-nvidia 470.256.02-2 amd64 hi\n"
        "nvidia-settings 470.239.06-1 amd64\nhtop 3.2.2 amd64 hi\ncuda-toolkit-12-4 12.4.1-1 amd64\n"
    )
    found = findings(TASK, driver_facts(DEBIAN, state), context(DEBIAN))
    _, action = only([finding for finding in found if isinstance(finding, Change)])
    assert action.remove == ("xserver-xorg-video-nvidia",)
    assert action.unhold == ("libcuda1", "xserver-xorg-video-nvidia")
    (note,) = [finding for finding in found if isinstance(finding, Note)]
    assert note.text == "held before by someone: libcuda1; held again at the locked version"


def test_the_other_flavour_goes_even_at_the_same_version() -> None:
    state = dpkg(
        "nvidia-open-kernel-dkms 535.216.03-1 amd64\nnvidia-open-kernel-support 535.216.03-1 amd64\n"
        "libcuda1 535.216.03-2~bpo12+1 amd64\nlibnvidia-egl-gbm1 1.1.0-2 amd64\n"
    )
    _, action = only(changes(TASK, driver_facts(DEBIAN, state, loaded="535.216.03"), context(DEBIAN)))
    assert action.remove == ("nvidia-open-kernel-dkms", "nvidia-open-kernel-support")


def test_a_part_of_this_driver_outside_the_lock_is_told() -> None:
    more = installed(DEBIAN)
    extra = Package("nvidia-opencl-icd", "535.216.03-2~bpo12+1", "amd64")
    state = replace(more, packages={**more.packages, extra.name: extra})
    (note,) = findings(TASK, driver_facts(DEBIAN, state), context(DEBIAN))
    assert isinstance(note, Note)
    assert "nvidia-opencl-icd" in note.text


def test_a_missing_hold_alone_disturbs_nothing() -> None:
    change, action = only(changes(TASK, driver_facts(DEBIAN, installed(DEBIAN, held=False)), context(DEBIAN)))
    assert action.install == ()
    assert set(action.hold) == {package.name for package in CLOSURES[DEBIAN].role("driver")}
    assert change.disruption is Disruption.NONE


def test_another_loaded_driver_waits_for_the_rolling_upgrade() -> None:
    change, _ = only(changes(TASK, driver_facts(DEBIAN, bare(DEBIAN), loaded="470.256.02"), context(DEBIAN)))
    assert change.deferred is not None
    assert change.deferred.reason == "driver 470.256.02 is loaded: needs a drained node"
    assert change.deferred.command == "provision upgrade-driver site.toml"


def test_the_same_loaded_driver_doesnt_wait() -> None:
    change, _ = only(changes(TASK, driver_facts(DEBIAN, bare(DEBIAN), loaded="535.216.03"), context(DEBIAN)))
    assert change.deferred is None


def test_installed_but_another_one_still_loaded_stays_open() -> None:
    (change,) = changes(TASK, driver_facts(DEBIAN, installed(DEBIAN), loaded="535.183.01"), context(DEBIAN))
    assert (change.subject, change.summary) == ("loaded driver", "535.183.01 is loaded, 535.216.03 is installed")
    assert change.deferred is not None
    assert change.actions == ()


def refusal(**more: Any) -> Refusal:
    ctx = more.pop("ctx", context(DEBIAN))
    found = findings(TASK, driver_facts(DEBIAN, more.pop("state", installed(DEBIAN)), **more), ctx)
    (one,) = [finding for finding in found if isinstance(finding, Refusal)]
    return one


def test_success_of_apt_proves_nothing_about_a_module() -> None:
    missing = disk(DEBIAN, modules={}, headers=False, dkms=("nvidia-current/535.216.03: added",))
    found = refusal(disk=missing)
    assert found.what == "driver 535.216.03 is installed, but its kernel module isn't there"
    assert "nvidia-current/535.216.03: added" in found.why
    assert "linux-headers-6.1.0-40-amd64" in found.remedy


def test_a_module_that_dkms_can_build_is_built() -> None:
    unbuilt = disk(DEBIAN, modules={}, dkms=("nvidia-current/535.216.03: added",))
    (change,) = changes(TASK, driver_facts(DEBIAN, installed(DEBIAN), disk=unbuilt), context(DEBIAN))
    (action,) = change.actions
    assert isinstance(action, Run)
    assert action.script.startswith("dkms autoinstall -k 6.1.0-40-amd64 ||")


def test_one_of_the_four_modules_missing_is_told() -> None:
    modules = {name: module for name, module in disk(DEBIAN).modules.items() if name != "nvidia_uvm"}
    assert "there is no nvidia_uvm for the running kernel" in refusal(disk=disk(DEBIAN, modules=modules)).why


def test_a_module_of_another_version_or_flavour_is_told() -> None:
    other = {**disk(DEBIAN).modules, "nvidia": Module("nvidia", "535.183.01", "NVIDIA", "", "/lib/modules/x/nvidia.ko")}
    assert "535.183.01 (/lib/modules/x/nvidia.ko)" in refusal(disk=disk(DEBIAN, modules=other)).why
    opened = {name: replace(module, license="Dual MIT/GPL") for name, module in disk(DEBIAN).modules.items()}
    assert refusal(disk=disk(DEBIAN, modules=opened)).what == (
        "the inventory wants the proprietary module, the one on disk is open"
    )


def test_libraries_and_nvidia_smi_must_agree() -> None:
    second = Library("libcuda", "/usr/local/lib/libcuda.so.560.35.03", "560.35.03", 4096, False)
    assert refusal(libraries=(*libraries("535.216.03"), second)).why == "/usr/local/lib/libcuda.so.560.35.03"
    empty = (replace(libraries("535.216.03")[0], size=0), libraries("535.216.03")[1])
    assert "(empty)" in refusal(libraries=empty).why
    assert refusal(libraries=libraries("535.216.03")[:1]).subject == "libnvidia-ml"
    assert refusal(smi=None).subject == "nvidia-smi"
    assert "nvidia-smi is of 560.35.03" in refusal(smi=Smi("/usr/bin/nvidia-smi", "", "560.35.03")).what


def test_an_image_build_has_another_kernel_running() -> None:
    ctx = context(DEBIAN, options=Options(local=True))
    facts = driver_facts(DEBIAN, installed(DEBIAN), systemd=False, disk=disk(DEBIAN, modules={}))
    (note,) = findings(TASK, facts, ctx)
    assert isinstance(note, Note)


def test_without_a_fitting_lock_nothing_is_installed() -> None:
    state = dpkg("")
    nothing = refusal(state=state, ctx=context(DEBIAN, lock=None))
    assert nothing.remedy == "provision lock site.toml finds and writes them"
    old = replace(CLOSURES[DEBIAN], driver="535.183.01")
    assert (
        "the lock has driver 535.183.01 with toolkit 1.17.8"
        in refusal(state=state, ctx=context(DEBIAN, lock=Lock((old,)))).why
    )
    other = refusal(state=state, ctx=context(DEBIAN, lock=Lock((CLOSURES[UBUNTU],))))
    assert "the lock has nothing for debian12 amd64" in other.why
    unset = refusal(state=state, ctx=context(DEBIAN, variables={"versions.driver": ""}))
    assert unset.what == "versions.driver isn't set"


def test_a_group_with_packages_of_its_own_has_a_closure_of_its_own() -> None:
    plain, special = CLOSURES[NOBLE], replace(CLOSURES[NOBLE], top=("nvidia-open", "nvidia-fabricmanager"))
    fabric = replace(special, packages=(*plain.packages, replace(plain.packages[0], name="nvidia-fabricmanager")))
    lock = Lock((fabric, plain))
    named = {"driver.packages": ["nvidia-open", "nvidia-fabricmanager"]}
    for variables, expected in (({}, False), (named, True)):
        ctx = context(NOBLE, lock=lock, variables=variables)
        _, action = only(changes(TASK, driver_facts(NOBLE, bare(NOBLE)), ctx))
        assert ("nvidia-fabricmanager" in action.hold) is expected


def test_what_an_earlier_run_left_half_configured_is_installed_again_others_are_not_touched() -> None:
    text = DEBIAN_CLOSURE.replace("nvidia-smi 535.216.03-2~bpo12+1 amd64", "nvidia-smi 535.216.03-2~bpo12+1 amd64 iF")
    _, action = only(changes(TASK, driver_facts(DEBIAN, dpkg(text)), context(DEBIAN)))
    assert ("nvidia-smi", "535.216.03-2~bpo12+1") in action.install
    assert "postfix" in refusal(state=dpkg(text + "postfix 3.7 amd64 iU\n")).what
    assert "dpkg was interrupted" in refusal(state=dpkg(text, "interrupted")).what
    # in the middle of somebody's transaction everything looks like that; ours waits for its end
    facts = driver_facts(DEBIAN, dpkg("postfix 3.7 amd64 iU\n", "interrupted"))
    assert changes(TASK, {**facts, LockHolderProbe(): LockHolder(4711, "apt-get")}, context(DEBIAN))


def test_the_check_of_modules_can_be_left_out() -> None:
    facts = driver_facts(DEBIAN, installed(DEBIAN), disk=disk(DEBIAN, modules={}))
    assert findings(TASK, facts, context(DEBIAN))
    facts = {probe: value for probe, value in facts.items() if probe.key != "nvidia modules on disk"}
    assert findings(Driver(module=False), facts, context(DEBIAN)) == []
