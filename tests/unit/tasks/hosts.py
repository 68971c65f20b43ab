"""Hosts for the tests of the package tasks: what dpkg or rpm say, and what lies on the disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provisioner.facts.driver import (
    MODULES,
    LibrariesProbe,
    Library,
    LoadedModules,
    Module,
    ModulesOnDisk,
    ModulesOnDiskProbe,
    Smi,
    SmiProbe,
)
from provisioner.facts.files import FileProbe, FileState
from provisioner.facts.host import Identity, IdentityProbe, System, SystemProbe
from provisioner.facts.packages import LockHolderProbe, PackagesProbe, PackageState
from provisioner.model.fact import Output, Probe
from provisioner.model.inventory import Repository
from provisioner.model.lock import Closure, Lock, LockedPackage
from provisioner.tasks.context import Context
from provisioner.tasks.packaging.apt import AUTOMATIC_UPDATES, PREFERENCES
from provisioner.tasks.packaging.names import role
from provisioner.tasks.proof import context_of

DEBIAN = System("debian", "12", (), "bookworm", "6.1.0-40-amd64", "x86_64", "gpu01")
UBUNTU = System("ubuntu", "22.04", ("debian",), "jammy", "5.15.0-100-generic", "x86_64", "gpu02")
NOBLE = System("ubuntu", "24.04", ("debian",), "noble", "6.8.0-60-generic", "x86_64", "gpu03")
ROCKY = System("rocky", "9.4", ("rhel", "centos", "fedora"), "", "5.14.0-427.el9", "x86_64", "gpu04")

# The closure of Debian's own packages, as apt 2.6 finds it; the tools have versions of their own.
DEBIAN_CLOSURE = """\
firmware-nvidia-gsp 535.216.03-2~bpo12+1 amd64
libcuda1 535.216.03-2~bpo12+1 amd64
libnvidia-ml1 535.216.03-2~bpo12+1 amd64
nvidia-alternative 535.216.03-2~bpo12+1 amd64
nvidia-kernel-common 20220217+3~deb12u1 amd64
nvidia-kernel-dkms 535.216.03-2~bpo12+1 amd64
nvidia-modprobe 535.161.07-1~deb12u1 amd64
nvidia-persistenced 535.171.04-1~deb12u1 amd64
nvidia-smi 535.216.03-2~bpo12+1 amd64
dkms 3.0.10-8+deb12u1 all
gcc-12 12.2.0-14+deb12u1 amd64
"""
# NVIDIA's repository for Ubuntu, before and after the branch suffix went away.
UBUNTU_CLOSURE = """\
cuda-drivers-535 535.183.01-1 amd64
libnvidia-compute-535 535.183.01-0ubuntu1 amd64
nvidia-compute-utils-535 535.183.01-0ubuntu1 amd64
nvidia-dkms-535 535.183.01-0ubuntu1 amd64
nvidia-utils-535 535.183.01-0ubuntu1 amd64
nvidia-modprobe 535.183.01-0ubuntu1 amd64
dkms 2.8.7-2ubuntu2.2 all
"""
NOBLE_CLOSURE = """\
nvidia-open 590.44.01-1ubuntu1 amd64
libnvidia-compute 590.44.01-1ubuntu1 amd64
nvidia-dkms-open 590.44.01-1ubuntu1 amd64
nvidia-utils 590.44.01-1ubuntu1 amd64
nvidia-persistenced 590.44.01-1ubuntu1 amd64
"""
ROCKY_CLOSURE = """\
nvidia-open 3:580.95.05-1.el9 noarch
kmod-nvidia-open-dkms 3:580.95.05-1.el9 noarch
nvidia-driver-cuda 3:580.95.05-1.el9 x86_64
nvidia-driver-cuda-libs 3:580.95.05-1.el9 x86_64
nvidia-persistenced 3:580.95.05-1.el9 x86_64
dkms 3.2.1-1.el9 noarch
"""
TOOLKIT = """\
libnvidia-container-tools 1.17.8-1 amd64
libnvidia-container1 1.17.8-1 amd64
nvidia-container-toolkit 1.17.8-1 amd64
nvidia-container-toolkit-base 1.17.8-1 amd64
"""


def packages(text: str, driver: str) -> tuple[LockedPackage, ...]:
    """NAME VERSION ARCH lines as locked packages."""
    rows = [line.split() for line in text.splitlines()]
    return tuple(
        sorted(LockedPackage(name, version, arch, role(name, version, driver)) for name, version, arch in rows)
    )


def closure(system: System, source: str, driver: str, flavour: str, top: tuple[str, ...], text: str) -> Closure:
    arch = system.arch if system.family == "debian" else system.machine
    return Closure(system.distribution, arch, source, driver, flavour, "1.17.8", top, packages(text + TOOLKIT, driver))


DEBIAN_TOP = ("nvidia-kernel-dkms", "libcuda1", "nvidia-smi", "nvidia-persistenced", "firmware-nvidia-gsp")
CLOSURES = {
    DEBIAN: closure(DEBIAN, "debian", "535.216.03", "proprietary", DEBIAN_TOP, DEBIAN_CLOSURE),
    UBUNTU: closure(UBUNTU, "nvidia", "535.183.01", "proprietary", ("cuda-drivers-535",), UBUNTU_CLOSURE),
    NOBLE: closure(NOBLE, "nvidia", "590.44.01", "open", ("nvidia-open",), NOBLE_CLOSURE),
    ROCKY: closure(ROCKY, "nvidia", "580.95.05", "open", ("nvidia-open",), ROCKY_CLOSURE),
}


def dpkg(lines: str, *marks: str) -> PackageState:
    """The state that dpkg-query's output means: NAME VERSION ARCH [STATUS] lines."""
    rows = [(*line.split(), "ii")[:4] for line in lines.splitlines()]
    text = "".join(f"{status}\t{name}\t{version}\t{arch}\n" for name, version, arch, status in rows)
    return PackagesProbe().parse(Output(0, ("\n".join(("apt", *marks, "arch amd64", text))).encode()))


def rpm(lines: str, holds: str = "") -> PackageState:
    """The state that rpm's output means: NAME EVR ARCH lines, and a versionlock list."""
    rows = (line.split() for line in lines.splitlines())
    text = "".join(f"ii \t{name}\t{evr if ':' in evr else '0:' + evr}\t{arch}\n" for name, evr, arch in rows)
    held = "".join(f"hold {line}\n" for line in holds.splitlines())
    return PackagesProbe().parse(Output(0, f"dnf\n{text}{held}".encode()))


def installed(system: System, *, held: bool = True) -> PackageState:
    """The host as its closure wants it."""
    locked = CLOSURES[system].packages
    lines = "".join(
        f"{p.name} {p.version} {p.arch}{' hi' if held and p.role != 'dependency' else ''}\n" for p in locked
    )
    if system.family == "debian":
        return dpkg(lines)
    holds = "".join(f"{p.name}-{p.version}.*\n" for p in locked if held and p.role != "dependency")
    return rpm(lines.replace(" hi\n", "\n"), holds)


def context(system: System, *, repositories: tuple[Repository, ...] = (), **more: Any) -> Context:
    """A context whose variables and lock fit the system's closure."""
    want = CLOSURES[system]
    variables = {
        "driver.source": want.source,
        "versions.driver": want.driver,
        "versions.flavour": want.flavour,
        "versions.toolkit": want.toolkit,
        **more.pop("variables", {}),
    }
    return context_of(variables, **{"lock": Lock((want,)), "repositories": repositories, **more})


def disk(system: System, **more: Any) -> ModulesOnDisk:
    """All four modules of the closure's version."""
    want = CLOSURES[system]
    license_ = "NVIDIA" if want.flavour == "proprietary" else "Dual MIT/GPL"
    found = {name: Module(name, want.driver, license_, "", f"/lib/modules/{name}.ko") for name in MODULES}
    return ModulesOnDisk(**{"kernel": system.kernel, "modules": found, "headers": True, "dkms": (), **more})


def libraries(version: str) -> tuple[Library, ...]:
    return tuple(
        Library(name, f"/usr/lib/x86_64-linux-gnu/{name}.so.{version}", version, 4096, True)
        for name in ("libcuda", "libnvidia-ml")
    )


def file(content: str | None) -> FileState | None:
    return None if content is None else FileState("file", 0o644, "root", "root", len(content), content)


def stack_facts(system: System, state: PackageState, loaded: str = "") -> dict[Probe[Any], Any]:
    """What toolkit, driver and pin all read."""
    return {
        SystemProbe(): system,
        PackagesProbe(): state,
        LockHolderProbe(): None,
        LoadedModules(): {"nvidia": loaded} if loaded else None,
    }


def driver_facts(system: System, state: PackageState, loaded: str = "", **more: Any) -> dict[Probe[Any], Any]:
    """What the driver task reads, on a host whose files fit the closure; `more` overrides by short name."""
    version = CLOSURES[system].driver
    return {
        **stack_facts(system, state, loaded),
        IdentityProbe(): Identity("m", "b", 1, more.get("systemd", True)),
        ModulesOnDiskProbe(): more.get("disk", disk(system)),
        LibrariesProbe(): more.get("libraries", libraries(version)),
        SmiProbe(): more.get("smi", Smi("/usr/bin/nvidia-smi", "nvidia-utils", version)),
        FileProbe(PREFERENCES): file(more.get("preferences")),
    }


def pin_facts(system: System, state: PackageState, files: Mapping[str, str], loaded: str = "") -> dict[Probe[Any], Any]:
    """What the pin task reads."""
    return {
        **stack_facts(system, state, loaded),
        FileProbe(PREFERENCES): file(files.get(PREFERENCES)),
        FileProbe(AUTOMATIC_UPDATES): file(files.get(AUTOMATIC_UPDATES)),
    }
