"""Closures from what a host answers. The answers have the shape of apt 2.4 to 2.6 on Debian 12, Ubuntu 22.04, 24.04."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from provisioner.engine.lock import differences, lock_script, parse_closure
from provisioner.errors import LockError
from provisioner.model.inventory import Repository, Secret
from provisioner.model.lock import Lock
from provisioner.tasks.packaging.locked import Wanted
from provisioner.tasks.packaging.names import top_packages
from tests.unit.tasks.hosts import CLOSURES, DEBIAN, NOBLE, TOOLKIT, UBUNTU, UBUNTU_CLOSURE
from tests.unit.tasks.keys import FINGERPRINT, KEY

JAMMY = Wanted("ubuntu22.04", "debian", "amd64", "nvidia", "proprietary", "535.183.01", "1.17.8")
BOOKWORM = Wanted("debian12", "debian", "amd64", "debian", "proprietary", "535.216.03", "1.17.8")


def answer(text: str, top: str, shown: str = "", end: str = "end\n") -> str:
    """NAME VERSION ARCH lines as the script prints them."""
    rows = "".join("\t".join(["inst", *line.split()]) + "\n" for line in text.splitlines())
    records = "".join("show\t" + line.replace("|", "\t") + "\n" for line in shown.splitlines())
    return f"top {top}\n{rows}{records}{end}"


UBUNTU_ANSWER = answer(UBUNTU_CLOSURE + TOOLKIT, "cuda-drivers-535=535.183.01-1 nvidia-container-toolkit=1.17.8-1")


def test_ubuntu_2204() -> None:
    closure = parse_closure(UBUNTU_ANSWER, JAMMY)
    assert closure == CLOSURES[UBUNTU]
    assert [package.name for package in closure.role("dependency")] == ["dkms"]
    assert len(closure.role("toolkit")) == 4


def test_tools_of_another_version_are_sound_parts_of_another_are_not() -> None:
    text = "libcuda1 535.216.03-2~bpo12+1 amd64\nnvidia-modprobe 535.161.07-1~deb12u1 amd64\ngcc-12 12.2.0-14 amd64\n"
    assert len(parse_closure(answer(text, "libcuda1=535.216.03-2~bpo12+1"), BOOKWORM).packages) == 3
    mixed = answer(text + "libnvidia-ml1 535.261.03-1 amd64\n", "libcuda1=535.216.03-2~bpo12+1")
    with pytest.raises(LockError, match="mixes driver") as caught:
        parse_closure(mixed, BOOKWORM)
    assert caught.value.why == "libnvidia-ml1 535.261.03-1"


def test_a_part_whose_name_says_nothing_is_known_by_its_source() -> None:
    shown = (
        "libcuda1|535.216.03-1|nvidia-graphics-drivers|libs|CUDA\n"
        "xyz-blob|535.261.03-1|nvidia-graphics-drivers|libs|part\n"
    )
    text = "libcuda1 535.216.03-1 amd64\nxyz-blob 535.261.03-1 amd64\n"
    with pytest.raises(LockError, match="mixes"):
        parse_closure(answer(text, "libcuda1=535.216.03-1", shown), BOOKWORM)


@pytest.mark.parametrize(
    "record", ["non-free/oldlibs|Server driver", "non-free/libs|Transitional package for nvidia-open"]
)
def test_a_transitional_stub_is_refused(record: str) -> None:
    name, version = "nvidia-driver-535-server", "535.183.01-0ubuntu0.22.04.2"
    shown = f"{name}|{version}|nvidia-graphics-drivers-535-server|{record}\n"
    with pytest.raises(LockError, match="is a transitional package"):
        parse_closure(answer(f"{name} {version} amd64\n", f"{name}={version}", shown), JAMMY)


def test_a_name_of_another_branch_is_a_stub_whatever_it_says() -> None:
    want = replace(JAMMY, driver="580.95.05", flavour="open")
    text = "nvidia-driver-570-server-open 580.95.05-0ubuntu1 amd64\n"
    with pytest.raises(LockError, match="transitional") as caught:
        parse_closure(answer(text, "nvidia-driver-570-server-open=580.95.05-0ubuntu1"), want)
    assert caught.value.why == "its name says branch 570"


def test_a_missing_version_names_those_that_exist() -> None:
    text = "missing\tcuda-drivers\t535.183.01\t550.54.15-1 545.23.08-1 \nmissing\tcuda-drivers-535\t535.183.01\t\n"
    with pytest.raises(LockError) as caught:
        parse_closure(text, JAMMY)
    assert "cuda-drivers 535.183.01: the repositories have 550.54.15-1, 545.23.08-1" in str(caught.value)
    with pytest.raises(LockError) as caught:
        parse_closure("missing\tcuda-drivers\t535.183.01\t\n", JAMMY)
    assert "developer.download.nvidia.com" in caught.value.remedy


def test_what_apt_says_is_passed_on_and_a_broken_answer_is_none() -> None:
    failed = "failed\tReading package lists...\nfailed\t x : Depends: y but it is not installable\n"
    with pytest.raises(LockError) as caught:
        parse_closure(failed, JAMMY)
    assert "x : Depends: y" in caught.value.why
    assert "Reading" not in caught.value.why
    with pytest.raises(LockError, match="breaks off"):
        parse_closure(answer(UBUNTU_CLOSURE, "cuda-drivers-535=535.183.01-1", end=""), JAMMY)


def test_names_to_ask_for() -> None:
    assert top_packages("debian", "nvidia", "open", "580.95.05") == (("nvidia-open-580",), ("nvidia-open",))
    assert top_packages("debian", "ubuntu", "open", "535.309.01")[0] == (
        "nvidia-headless-no-dkms-535-server-open",
        "nvidia-dkms-535-server-open",
        "nvidia-utils-535-server",
    )
    assert top_packages("debian", "debian", "open", "535.261.03")[0][0] == "nvidia-open-kernel-dkms"
    with pytest.raises(LockError):
        top_packages("rhel", "debian", "open", "580.95.05")


REPO = Repository(
    "cuda", "https://m.example.org/{distribution}", "/", (), KEY, FINGERPRINT, user="gpu",
    password=Secret("mirror", "it's $(id) `id`"),
)  # fmt: skip


def test_the_script_is_posix_sh_and_says_the_password_only_to_the_host() -> None:
    script = lock_script(replace(JAMMY, driver="580.95.05"), NOBLE, [REPO])
    assert subprocess.run(["dash", "-n"], input=script, text=True, check=False).returncode == 0
    assert "uris=https://m.example.org/ubuntu2404\n" in script
    put = next(line for line in script.splitlines() if "login gpu password" in line)
    assert put == """machine m.example.org/ubuntu2404 login gpu password it'"'"'s $(id) `id`"""


@pytest.mark.parametrize(
    "want",
    [replace(JAMMY, driver=""), replace(JAMMY, toolkit=""), replace(JAMMY, family="rhel"), replace(JAMMY, source="x")],
)
def test_what_cant_be_asked(want: Wanted) -> None:
    with pytest.raises(LockError):
        lock_script(want, UBUNTU, [])


def test_a_key_that_isnt_the_named_one_is_not_trusted_for_a_lock_either() -> None:
    with pytest.raises(LockError, match="isn't the one the inventory names"):
        lock_script(JAMMY, UBUNTU, [replace(REPO, fingerprint="0" * 40)])


def test_differences_name_held_packages_only() -> None:
    one = CLOSURES[DEBIAN]
    moved = tuple(replace(p, version="535.261.03-1") if p.name == "nvidia-smi" else p for p in one.packages)
    newer = tuple(replace(p, version="99") if p.name == "gcc-12" else p for p in one.packages)
    assert differences(Lock((one,)), Lock((replace(one, packages=newer),))) == ()
    assert differences(Lock((one,)), Lock((replace(one, driver="535.261.03", packages=moved),))) == (
        "debian12 amd64 debian: nvidia-smi 535.216.03-2~bpo12+1 → 535.261.03-1",
    )
    both = Lock((one, replace(one, driver="535.261.03", packages=moved)))
    assert differences(both, both) == ()
    assert len(differences(Lock(), Lock((one,)))) == len(one.role("driver", "toolkit"))
