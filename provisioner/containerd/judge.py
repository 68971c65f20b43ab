"""Whether a configuration works, judged by what containerd itself makes of it.

`containerd config dump` exits 0 on configurations with which the CRI plugin doesn't load; the
*content* of the dump shows every such mistake. After a restart `ctr plugins ls` tells whether the
plugin did load; `systemctl is-active` tells nothing, since containerd runs on without it. Measured
on containerd 1.6.20, 1.7.24 and 2.1.9.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

from provisioner.containerd.cri import (
    NVIDIA,
    RUNC,
    Cri,
    is_nvidia,
    table_at,
)
from provisioner.containerd.document import Table, at
from provisioner.containerd.faults import load_faults
from provisioner.containerd.result import Problem, Refused
from provisioner.containerd.versions import CRI_NAMES, Release, cri_table, registry_table
from provisioner.containerd.versions import release as parse_release


@dataclass(frozen=True)
class Handler:
    """A handler as containerd has it. `systemd_cgroup` is None where the options don't say."""

    name: str
    runtime_type: str
    binary: str
    systemd_cgroup: bool | None


@dataclass(frozen=True)
class Handlers:
    """The effective handlers of the CRI plugin. `enable_cdi` is None where containerd has no such switch."""

    default: str
    handlers: tuple[Handler, ...]
    cri_enabled: bool
    enable_cdi: bool | None

    def handler(self, name: str) -> Handler | None:
        """The handler of this name, or None."""
        return next((handler for handler in self.handlers if handler.name == name), None)


@dataclass(frozen=True)
class _Dump:
    meaning: Table
    cri: Cri
    version: int
    release: Release

    @property
    def disabled(self) -> list[str]:
        names = self.meaning.get("disabled_plugins")
        return [name for name in names if name in CRI_NAMES] if isinstance(names, list) else []


def _read(dump: str, containerd: str) -> _Dump:
    release = parse_release(containerd)
    try:
        meaning = tomllib.loads(dump)
    except (ValueError, RecursionError) as error:
        raise Refused(f"The output of containerd config dump isn't TOML: {error}.", "Run it by hand.") from None
    version = meaning.get("version")
    version = version if type(version) is int and version > 0 else 1
    return _Dump(meaning, Cri.read(meaning, cri_table(version)), version, release)


def handlers(dump: str, containerd: str) -> Handlers:
    """What the output of `containerd config dump` says about handlers. Raises `ValueError` where it can't be read."""
    try:
        read = _read(dump, containerd)
    except Refused as refused:
        raise ValueError(refused.refusal.reason) from None
    found = []
    for name, runtime in sorted(read.cri.runtimes.items()):
        cgroup = at(runtime, ("options", "SystemdCgroup"))
        found.append(
            Handler(
                name,
                str(runtime.get("runtime_type", "")),
                str(at(runtime, ("options", "BinaryName")) or ""),
                cgroup if isinstance(cgroup, bool) else None,
            )
        )
    cdi = read.cri.table.get("enable_cdi", read.release.cdi_by_default) is True if read.release.has_cdi else None
    default = read.cri.default or RUNC
    if read.cri.default_runtime_type and read.release.major < 2:
        default = "default"
    return Handlers(default, tuple(found), not read.disabled, cdi)


def judge(dump: str, containerd: str) -> tuple[Problem, ...]:
    """What is wrong in the output of `containerd config dump` with a configuration meant to have the handler nvidia."""
    try:
        read = _read(dump, containerd)
        return tuple(_problems(read))
    except Refused as refused:
        return (Problem("dump", refused.refusal.reason),)


def _problems(read: _Dump) -> Iterator[Problem]:
    if read.disabled:
        yield Problem("cri-disabled", f"disabled_plugins switches the CRI plugin off: {', '.join(read.disabled)}.")
    default = read.cri.default or RUNC
    by_table = read.release.major < 2 and read.cri.default_runtime_type
    if by_table and default == NVIDIA:
        yield Problem("default-table", "The table default_runtime beats default_runtime_name = nvidia.")
    if RUNC not in read.cri.runtimes and all(is_nvidia(name, runtime) for name, runtime in read.cri.runtimes.items()):
        yield Problem("runc-missing", "There is no ordinary handler such as runc beside those of NVIDIA.")
    yield from _nvidia_problems(read.cri)
    yield from load_faults(read.cri, table_at(read.meaning, registry_table(read.version)), read.release)


def _nvidia_problems(cri: Cri) -> Iterator[Problem]:
    nvidia = cri.runtimes.get(NVIDIA)
    if nvidia is None:
        yield Problem("nvidia-missing", "There is no handler nvidia.")
        return
    if not nvidia.get("runtime_type"):
        yield Problem("nvidia-type", "The handler nvidia has no runtime_type; pods fail to start with it.")
    if not at(nvidia, ("options", "BinaryName")):
        yield Problem("nvidia-binary", "The handler nvidia has no BinaryName, so it is runc under another name.")
    cgroup = at(nvidia, ("options", "SystemdCgroup"))
    if cgroup is not None and not isinstance(cgroup, bool):
        yield Problem("nvidia-cgroup", f"SystemdCgroup of the handler nvidia is {cgroup!r}, not a boolean.")
    runc = at(cri.runtimes.get(RUNC, {}), ("options", "SystemdCgroup"))
    if isinstance(runc, bool) and runc and not cgroup:
        yield Problem(
            "nvidia-cgroup", "runc has SystemdCgroup = true and nvidia doesn't: its pods would be killed at random."
        )


def needed_plugins(containerd: str) -> tuple[tuple[str, str], ...]:
    """(type, id) of the plugins that make up the CRI plugin in this version. Raises ValueError for no version."""
    try:
        release = parse_release(containerd)
    except Refused as refused:
        raise ValueError(refused.refusal.reason) from None
    needed = (("io.containerd.grpc.v1", "cri"),)
    if release.major >= 2:
        return (("io.containerd.cri.v1", "runtime"), ("io.containerd.cri.v1", "images"), *needed)
    return needed


def plugins_ok(listing: str, containerd: str) -> tuple[Problem, ...]:
    """What `ctr plugins ls` says is wrong with the CRI plugin after a restart.

    1.x has one, `io.containerd.grpc.v1 cri`; 2.x needs `io.containerd.cri.v1 runtime` and `images` too.
    """
    try:
        needed = needed_plugins(containerd)
    except ValueError as error:
        return (Problem("plugins", str(error)),)
    rows = [line.split() for line in listing.splitlines()]
    status = {(row[0], row[1]): row[-1] for row in rows if len(row) >= 3}
    problems = []
    for kind, name in needed:
        state = status.get((kind, name))
        if state is None:
            problems.append(
                Problem("plugins", f"The plugin {kind}.{name} isn't there: it is disabled or not built in.")
            )
        elif state != "ok":
            problems.append(Problem("plugins", f"The plugin {kind}.{name} didn't load: its status is {state}."))
    return tuple(problems)
