"""Which system, and is there room? Facts in, exact findings out."""

from __future__ import annotations

import pytest

from provisioner.facts.disk import Space, SpaceProbe
from provisioner.facts.host import SystemProbe
from provisioner.model.change import Refusal
from provisioner.model.fact import Unknown
from provisioner.tasks.preflight.system import CHECKS
from provisioner.tasks.preflight.wanted import Wanted
from tests.unit.tasks.preflight.facts import system, verdict

CHECK = {check.subject: check for check in CHECKS}


@pytest.mark.parametrize(
    ("name", "version"), [("debian", "12"), ("debian", "13"), ("ubuntu", "22.04"), ("ubuntu", "24.04")]
)
def test_known_systems(name: str, version: str) -> None:
    assert verdict(CHECK["system"], Wanted(), {SystemProbe(): system(name, version)}) is None


def test_rocky_comes_next() -> None:
    rocky = system("rocky", "9.4", id_like=("rhel", "centos", "fedora"))
    assert verdict(CHECK["system"], Wanted(), {SystemProbe(): rocky}) == Refusal(
        subject="system",
        what="rocky9.4 can't be set up yet",
        why="hosts with dnf are planned only; installing through dnf comes next",
        remedy="leave this host out (--limit), or use debian12, debian13, ubuntu22.04, ubuntu24.04",
    )


@pytest.mark.parametrize(("name", "version"), [("debian", "11"), ("ubuntu", "24.10"), ("arch", "")])
def test_unknown_systems(name: str, version: str) -> None:
    found = verdict(CHECK["system"], Wanted(), {SystemProbe(): system(name, version)})
    assert isinstance(found, Refusal)
    assert found.what == f"{name}{version} isn't known"


def test_an_unread_system_is_refused() -> None:
    found = verdict(CHECK["system"], Wanted(), {SystemProbe(): Unknown("no os-release file")})
    assert isinstance(found, Refusal)
    assert found.what == "can't tell: which distribution is this?"


def test_too_little_room() -> None:
    little = Space("/boot", 500_000, 50 * 1024, 100_000)
    assert verdict(CHECK["space on /boot"], Wanted(), {SpaceProbe("/boot"): little}) == Refusal(
        subject="space on /boot",
        what="50 MiB free on /boot, at least 100 needed",
        why="an initramfs is written anew beside the old one",
        remedy="free some of /boot (`apt-get autoremove --purge` removes old kernels)",
    )
    assert verdict(CHECK["space on /boot"], Wanted(space=(("/boot", 50),)), {SpaceProbe("/boot"): little}) is None


def test_no_boot_folder_needs_no_room() -> None:
    assert verdict(CHECK["space on /boot"], Wanted(), {SpaceProbe("/boot"): None}) is None


def test_inodes_and_write_access() -> None:
    found = verdict(CHECK["space on /var"], Wanted(), {SpaceProbe("/var"): Space("/var", 9**9, 9**8, 12)})
    assert isinstance(found, Refusal)
    assert found.what == "12 inodes free on /var, at least 2000 needed"
    assert verdict(CHECK["space on /var"], Wanted(), {SpaceProbe("/var"): Space("/var", 9**9, 9**8, None)}) is None
    found = verdict(CHECK["space on /"], Wanted(), {SpaceProbe("/"): Space("/", 9**9, 9**8, 10**6, read_only=True)})
    assert isinstance(found, Refusal)
    assert found.what == "/ is read-only"


def test_unknown_space_is_refused() -> None:
    found = verdict(CHECK["space on /"], Wanted(), {SpaceProbe("/"): Unknown("df doesn't answer for /")})
    assert isinstance(found, Refusal)
    assert found.why == "can't tell space on /: df doesn't answer for /"
