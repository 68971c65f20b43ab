"""Before the first node: which hosts are ready for their target, and why the others aren't."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.facts.boot import Kernel, Kernels, KernelsProbe, SecureBoot, SecureBootProbe, Signers, SignersProbe
from provisioner.facts.disk import Space, SpaceProbe
from provisioner.facts.driver import LoadedModules, Module, ModulesOnDisk, ModulesOnDiskProbe
from provisioner.facts.gpu import PciDevice, PciProbe
from provisioner.facts.packages import Package, PackagesProbe, PackageState
from provisioner.model.fact import Probe, Unknown
from provisioner.model.lock import Closure, Lock, LockedPackage
from provisioner.tasks.context import Context
from provisioner.tasks.proof import Given, context_of, facts_of
from provisioner.upgrade.checks import HostCheck, check_host, next_kernels, source_version
from provisioner.upgrade.layout import Visible, VisibleProbe
from provisioner.upgrade.prefetch import Cache, Fetched
from provisioner.upgrade.requirements import ImageNeed, fulfilled
from tests.unit.tasks.preflight.facts import GOOD, H100

OLD, NEW = "570.158.01", "580.95.05"


def closure(*more: LockedPackage) -> Closure:
    packages = (
        LockedPackage("libcuda1", f"{NEW}-1", "amd64", "driver"),
        LockedPackage("nvidia-container-toolkit", "1.18.0-1", "amd64", "toolkit"),
        LockedPackage("nvidia-open", f"{NEW}-1", "amd64", "driver"),
        *more,
    )
    return Closure("debian12", "amd64", "nvidia", NEW, "open", "1.18.0", ("nvidia-open",), packages)


def packages(driver: str = OLD, **more: str) -> PackageState:
    versions = {"libcuda1": f"{driver}-1", "nvidia_open": f"{driver}-1", "nvidia_container_toolkit": "1.18.0-1"}
    found = {name.replace("_", "-"): version for name, version in {**versions, **more}.items()}
    return PackageState("apt", {name: Package(name, version, "amd64") for name, version in found.items()})


HOST: dict[Probe[Any], Any] = {
    **GOOD,
    PackagesProbe(): packages(),
    LoadedModules(): {"nvidia": OLD, "nvidia_uvm": OLD},
    ModulesOnDiskProbe(): ModulesOnDisk("6.1", {"nvidia": Module("nvidia", OLD)}),
    VisibleProbe(): Visible(),
}
SWITCH = PciDevice("0000:c1:00.0", 0x22A3, "0680")


def context(lock: Closure | None = None, more: dict[str, str] | None = None) -> Context:
    values = {"versions.driver": NEW, "versions.flavour": "open", "versions.toolkit": "1.18.0", **(more or {})}
    return context_of(values, lock=Lock((lock or closure(),)))


def kept(version: str, **more: Any) -> Cache:
    have = (LockedPackage("libcuda1", f"{version}-1", "amd64", "driver"),)
    return Cache(version, "driver", "", **{"packages": have, **more})


FETCHED = Fetched(kept(NEW), kept(OLD))


def check(
    facts: Given | None = None,
    fetched: Fetched | None = FETCHED,
    ctx: Context | None = None,
    **more: Any,
) -> HostCheck:
    return check_host(facts_of({**HOST, **(facts or {})}, "gpu01"), ctx or context(), fetched, **more)


def test_ready() -> None:
    found = check()
    assert (found.state, found.source, found.target) == ("ready", OLD, NEW)
    assert found.reason == ""


def test_a_host_at_its_target_is_left_out() -> None:
    done = {PackagesProbe(): packages(NEW), LoadedModules(): {"nvidia": NEW}}
    found = check(done)
    assert found.state == "left out"
    assert found.reason == f"has driver {NEW} already"


def test_installed_but_not_loaded_is_not_done() -> None:
    found = check({PackagesProbe(): packages(NEW)}, fetched=None)
    assert (found.state, found.source) == ("ready", OLD)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({PciProbe(): ()}, "no NVIDIA card on the PCI bus"),
        ({SpaceProbe("/var"): Space("/", 40_000_000, 90_000)}, "MiB free on /var"),
        ({KernelsProbe(): Kernels(Kernel("6.1.0-18-amd64"))}, "no headers for the running kernel"),
        (
            {KernelsProbe(): Kernels(Kernel("6.1.0-18", headers=True), Kernel("6.1.0-21"), "it is the newest")},
            "no headers for the next kernel 6.1.0-21",
        ),
        (
            {
                SecureBootProbe(): SecureBoot(enforced=True, efi=True),
                SignersProbe(): Signers(dkms_key="/k", dkms_enrolled=False),
            },
            "the kernel won't load a module that dkms builds",
        ),
        ({PciProbe(): (PciDevice("0000:41:00.0", 0x1DB4, "0302", bars=H100.bars),)}, "doesn't drive"),
        ({LoadedModules(): None, ModulesOnDiskProbe(): None}, "there is no driver to upgrade"),
        ({PciProbe(): Unknown("/sys is not mounted")}, "can't tell"),
        ({PackagesProbe(): PackageState("apt", {}, interrupted=True)}, "in the middle of something"),
    ],
)
def test_what_refuses(facts: dict[Probe[Any], Any], said: str) -> None:
    found = check(facts)
    assert found.state == "refused"
    assert said in found.reason


def test_a_target_that_isnt_locked() -> None:
    found = check(ctx=context(more={"versions.driver": "590.44.01"}))
    assert found.state == "refused"
    assert "no locked packages" in found.reason


class TestPackages:
    def test_a_target_that_isnt_on_the_host(self) -> None:
        found = check(fetched=Fetched(kept(NEW, trouble="3 MiB free below /var, 900 needed"), kept(OLD)))
        assert found.state == "refused"
        assert "3 MiB free below /var, 900 needed" in found.reason

    def test_no_way_back_must_be_accepted(self) -> None:
        gone = Fetched(kept(NEW), kept(OLD, missing=(f"libcuda1 {OLD}-1",)))
        found = check(fetched=gone)
        assert found.state == "refused"
        assert "no way back" in found.reason
        assert "--rollback never" in found.refusals[0].remedy
        accepted = check(fetched=gone, rollback="never")
        assert accepted.state == "ready"
        assert any(note.startswith(f"no way back to {OLD}") for note in accepted.notes)

    def test_what_is_installed_is_no_way_back_to_what_is_loaded(self) -> None:
        found = check(
            {PackagesProbe(): packages(NEW)}, fetched=Fetched(kept(NEW), kept(OLD, packages=kept(NEW).packages))
        )
        assert f"what is installed isn't the driver {OLD} that is loaded" in found.reason


class TestFabricManager:
    def test_not_in_the_lock(self) -> None:
        found = check({PciProbe(): (H100, SWITCH), PackagesProbe(): packages(nvidia_fabricmanager_570=f"{OLD}-1")})
        assert found.state == "refused"
        assert f"installed is nvidia-fabricmanager-570 {OLD}-1" in found.reason

    def test_of_another_version(self) -> None:
        locked = closure(LockedPackage("nvidia-fabricmanager", f"{OLD}-1", "amd64", "driver"))
        assert check({PciProbe(): (H100, SWITCH)}, ctx=context(locked)).state == "refused"

    def test_that_follows(self) -> None:
        locked = closure(LockedPackage("nvidia-fabricmanager", f"{NEW}-1", "amd64", "driver"))
        found = check({PciProbe(): (H100, SWITCH)}, ctx=context(locked))
        assert found.state == "ready"
        assert f"the fabric manager goes to {NEW}-1 with the driver" in found.notes


class TestCuda:
    def test_the_inventory_demands_more(self) -> None:
        found = check(ctx=context(more={"gpu.cuda_max": "13.1"}))
        assert f"driver {NEW} is too old for CUDA 13.1" in found.reason

    def test_an_image_demands_more(self) -> None:
        found = check(images=[ImageNeed("default/train", "cuda>=13.1")])
        assert f"driver {NEW} doesn't fulfil what default/train demands (its image says cuda>=13.1)" in found.reason

    def test_what_cant_be_told_is_said(self) -> None:
        found = check(images=[ImageNeed("default/train", "cuda>=99.1")])
        assert found.state == "ready"
        assert any("can't tell" in note and "default/train" in note for note in found.notes)

    @pytest.mark.parametrize(
        ("requirement", "driver", "answer"),
        [
            ("", NEW, True),
            ("cuda>=12.4", "550.54.14", True),
            ("cuda>=12.4", "535.261.03", False),
            # other alternatives hang on the card's brand, which isn't known here
            ("cuda>=12.4 brand=tesla,driver>=535,driver<536", "535.261.03", None),
            ("cuda>=12.4 brand=tesla,driver>=470,driver<471", "535.261.03", False),
            ("driver>=535,driver<536", "535.261.03", True),
            ("cuda>=99.1", NEW, None),
            ("cuda<=12.4", NEW, None),
        ],
    )
    def test_requirements(self, requirement: str, driver: str, answer: bool | None) -> None:
        assert fulfilled(requirement, driver) is answer


def test_consequences_are_named() -> None:
    facts: dict[Probe[Any], Any] = {
        PackagesProbe(): packages(nvidia_driver_570=f"{OLD}-1", nvidia_container_toolkit="1.17.8-1"),
        LoadedModules(): {"nvidia": OLD, "nvidia_peermem": OLD},
        VisibleProbe(): Visible(("/etc/cdi/nvidia.yaml",), 7),
    }
    assert set(check(facts).notes) >= {
        "goes with the old driver: nvidia-driver-570",
        "the toolkit stays 1.17.8; the lock has 1.18.0",
        "nvidia_peermem must load with the new driver too",
        "/etc/cdi/nvidia.yaml will be generated anew",
        "7 MIG instances are lost on the way and put back",
    }


def test_versions_and_kernels() -> None:
    facts = facts_of(HOST)
    assert source_version(facts) == OLD
    assert source_version(facts, "toolkit") == "1.18.0"
    assert next_kernels(facts) == ("6.1.0-21-amd64",)


def test_the_toolkit_rolls_by_itself() -> None:
    assert check(kind="toolkit").state == "left out"
    behind = {PackagesProbe(): packages(nvidia_container_toolkit="1.17.8-1")}
    found = check(behind, fetched=None, kind="toolkit")
    assert (found.state, found.source, found.target) == ("ready", "1.17.8", "1.18.0")
