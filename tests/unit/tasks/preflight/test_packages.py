"""Package manager, .run files, nvidia-docker2. Facts in, exact findings out."""

from __future__ import annotations

from provisioner.facts.packages import LockHolder, LockHolderProbe, Package, PackagesProbe, PackageState
from provisioner.facts.runfile import RunfileDriver, RunfileProbe
from provisioner.model.change import Note, Refusal
from provisioner.model.fact import Unknown
from provisioner.tasks.preflight.packages import CHECKS
from provisioner.tasks.preflight.wanted import Wanted
from tests.unit.tasks.preflight.facts import verdict

CHECK = {check.subject: check for check in CHECKS}
BROKEN = PackageState("apt", {"postfix": Package("postfix", "3.7.11-0", "amd64", "iF")})


def test_a_healthy_host_has_nothing_to_say() -> None:
    assert [verdict(check, Wanted()) for check in CHECKS] == [None] * len(CHECKS)


def test_a_held_lock_is_a_note() -> None:
    held = {LockHolderProbe(): LockHolder(4711, "unattended-upgr")}
    assert verdict(CHECK["package lock"], Wanted(), held) == Note(
        subject="package lock",
        text="unattended-upgr (process 4711) holds the package manager's lock; a transaction waits for it",
    )
    # in the middle of somebody's transaction packages look broken and aren't
    assert verdict(CHECK["packages"], Wanted(), {**held, PackagesProbe(): BROKEN}) is None


def test_half_installed_packages_are_refused() -> None:
    assert verdict(CHECK["packages"], Wanted(), {PackagesProbe(): BROKEN}) == Refusal(
        subject="packages",
        what="1 package left half installed",
        why="postfix: an earlier transaction didn't end, and no new one can be made on top",
        remedy="`dpkg --configure -a`, then `apt-get -f install`; `dpkg --audit` says what is wrong",
    )


def test_half_installed_packages_of_the_driver_are_left_to_its_task() -> None:
    own = {"nvidia-kernel-dkms": Package("nvidia-kernel-dkms", "535.216.03-1", "amd64", "iF")}
    assert verdict(CHECK["packages"], Wanted(), {PackagesProbe(): PackageState("apt", own)}) is None


def test_an_interrupted_dpkg_is_refused() -> None:
    found = verdict(CHECK["packages"], Wanted(), {PackagesProbe(): PackageState("apt", interrupted=True)})
    assert isinstance(found, Refusal)
    assert found.what == "dpkg was interrupted"


def test_unknown_packages_are_refused() -> None:
    found = verdict(
        CHECK["packages"], Wanted(), {PackagesProbe(): Unknown("neither dpkg nor rpm manages packages here")}
    )
    assert isinstance(found, Refusal)
    assert found.what == "can't tell: are all packages whole?"


def test_a_driver_of_a_run_file_is_refused() -> None:
    there = {RunfileProbe(): RunfileDriver("/usr/bin/nvidia-uninstall", "575.57.08")}
    found = verdict(CHECK["second driver"], Wanted(), there)
    assert isinstance(found, Refusal)
    assert found.what == "a driver 575.57.08 was installed by a .run file"
    assert "`/usr/bin/nvidia-uninstall --silent`" in found.remedy


def test_nvidia_docker2_is_refused_while_it_is_installed() -> None:
    installed = PackageState("apt", {"nvidia-docker2": Package("nvidia-docker2", "2.13.0-1", "all", "ii")})
    removed = PackageState("apt", {"nvidia-docker2": Package("nvidia-docker2", "2.13.0-1", "all", "rc")})
    found = verdict(CHECK["nvidia-docker"], Wanted(), {PackagesProbe(): installed})
    assert isinstance(found, Refusal)
    assert found.what == "nvidia-docker2 is installed"
    assert found.remedy.startswith("`apt-get remove nvidia-docker2`")
    assert verdict(CHECK["nvidia-docker"], Wanted(), {PackagesProbe(): removed}) is None
