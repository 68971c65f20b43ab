"""What has to differ in the CRI settings for the nvidia handler to work: pure decisions, no text.

`plan` looks at settings as containerd sees them and answers steps; where it answers none, the
handler is right. The options come from the runc handler, since one kubelet has one cgroup driver
and the toolkit's runtime hands over to runc.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, replace
from typing import Literal

from provisioner.containerd.cri import (
    LINUX_V1,
    NVIDIA,
    RUNC,
    RUNC_V2,
    Cri,
    is_nvidia,
    is_runc_shim,
    program,
)
from provisioner.containerd.document import Table, at
from provisioner.containerd.record import Default
from provisioner.containerd.result import Mode, Refused
from provisioner.containerd.syntax import Path
from provisioner.containerd.versions import Release

CgroupDriver = Literal["systemd", "cgroupfs"]

_NOT_INHERITED = frozenset(
    {
        "options",
        "runtime_type",
        "runtime_engine",
        "runtime_root",
        "runtime_path",
        "privileged_without_host_devices",
        "privileged_without_host_devices_all_devices_allowed",
    }
)
_VARIANTS = ("nvidia-container-runtime.cdi", "nvidia-container-runtime.legacy")


@dataclass(frozen=True)
class Wanted:
    """What the site wants on this host."""

    mode: Mode
    release: Release
    cgroup_driver: CgroupDriver | None
    binary: str
    enable_cdi: bool | None


@dataclass(frozen=True)
class SetKey:
    """Set a key of the CRI table; `path` is relative to it."""

    path: Path
    value: object
    note: str


@dataclass(frozen=True)
class AddHandler:
    """Add a handler under `runtimes`."""

    name: str
    table: Table
    note: str


@dataclass(frozen=True)
class SetDefault:
    """Change `default_runtime_name`: to nvidia (recording what it was), or back (None unsets it)."""

    name: str | None
    note: str


@dataclass(frozen=True)
class SetDefaultType:
    """Change `runtime_type` of the table `default_runtime`; "" lets `default_runtime_name` count."""

    runtime_type: str
    note: str


Step = SetKey | AddHandler | SetDefault | SetDefaultType


@dataclass(frozen=True)
class Plan:
    """The steps to take, and what the reader should know although no step is taken for it."""

    steps: tuple[Step, ...]
    warnings: tuple[str, ...]


def source(cri: Cri) -> tuple[str, Table] | None:
    """The handler that nvidia takes its settings from: runc, or a default that runs through the runc shim."""
    if RUNC in cri.runtimes:
        return RUNC, cri.runtimes[RUNC]
    name = cri.ordinary_default or ""
    if name in cri.runtimes and is_runc_shim(cri.runtimes[name]):
        return name, cri.runtimes[name]
    return None


def _says(value: object) -> bool:
    return isinstance(value, bool) or bool(value)


def _boolean(item: object) -> bool | None:
    if isinstance(item, str):
        return {"true": True, "false": False}.get(item.strip().lower())
    return item if isinstance(item, bool) else None


def systemd_cgroup(cri: Cri, wanted: Wanted) -> tuple[bool | None, str]:
    """SystemdCgroup for a new handler (None: leave it out, as its source does), and where that comes from.

    Raises `Refused` where neither the file nor the host says it.
    """
    origin = source(cri)
    if origin:
        own = _boolean(at(origin[1], ("options", "SystemdCgroup")))
        if own is None and cri.systemd_cgroup and wanted.release.major < 2:
            return True, "from systemd_cgroup of the CRI plugin"
        return own, f"as the handler {origin[0]} has it"
    if wanted.cgroup_driver:
        return wanted.cgroup_driver == "systemd", f"for the kubelet's cgroup driver {wanted.cgroup_driver}"
    own = _boolean(at(cri.runtimes.get(NVIDIA, {}), ("options", "SystemdCgroup")))
    if own is not None:
        return own, "as the handler nvidia has it"
    raise Refused(
        "No handler in this file says whether containers belong in systemd's cgroups, and the kubelet's "
        "cgroup driver isn't known.",
        "Give the kubelet's cgroup driver (--cgroup-driver systemd or cgroupfs).",
    )


def nvidia_handler(cri: Cri, wanted: Wanted) -> tuple[Table, str]:
    """A new nvidia handler, and a sentence on where its settings come from."""
    origin = source(cri)
    table: Table = {"runtime_type": RUNC_V2}
    options: Table = {"BinaryName": wanted.binary}
    if origin:
        # Empty values say nothing; version-2 files keep them, so that both handlers list the same keys.
        table.update({k: v for k, v in origin[1].items() if k not in _NOT_INHERITED and (cri.lists_empty or _says(v))})
        if is_runc_shim(origin[1]):
            inherited = origin[1].get("options", {})
            options.update({k: v for k, v in inherited.items() if v and k not in ("BinaryName", "SystemdCgroup")})
        for switch in sorted(_NOT_INHERITED & origin[1].keys()):
            if switch.startswith("privileged_"):
                table[switch] = False
    cgroup, why = systemd_cgroup(cri, wanted)
    if cgroup is not None:
        options["SystemdCgroup"] = cgroup
    table["options"] = options
    taken = f" with the settings of {origin[0]}" if origin else ""
    said = f"SystemdCgroup = {str(cgroup).lower()}" if cgroup is not None else "without SystemdCgroup,"
    return table, f"Added the handler nvidia ({wanted.binary}){taken}; {said} {why}."


def _repairs(cri: Cri, wanted: Wanted) -> list[Step]:
    """What to correct in an nvidia handler that is there; all else in it is the user's and stays."""
    old = cri.runtimes[NVIDIA]
    path: Path = ("containerd", "runtimes", NVIDIA)
    steps: list[Step] = []
    if old.get("runtime_type") != RUNC_V2:
        steps.append(
            SetKey(
                (*path, "runtime_type"), RUNC_V2, f"nvidia: runtime_type was {old.get('runtime_type')!r}; pods need it."
            )
        )
    steps += [
        SetKey((*path, legacy), "", f"nvidia: {legacy} only works with the runtime v1 shim; emptied.")
        for legacy in ("runtime_engine", "runtime_root")
        if old.get(legacy)
    ]
    devices = "privileged_without_host_devices_all_devices_allowed"
    if old.get(devices) is True and old.get("privileged_without_host_devices") is not True:
        steps.append(SetKey((*path, devices), False, f"nvidia: {devices} alone keeps the CRI plugin from loading."))
    binary = at(old, ("options", "BinaryName"))
    if binary != wanted.binary and binary not in [
        posixpath.join(posixpath.dirname(wanted.binary), variant) for variant in _VARIANTS
    ]:
        steps.append(
            SetKey(
                (*path, "options", "BinaryName"),
                wanted.binary,
                f"nvidia: BinaryName was {binary!r}; set to the toolkit's.",
            )
        )
    has = at(old, ("options", "SystemdCgroup"))
    if isinstance(has, bool) and (source(cri) is None and wanted.cgroup_driver is None):
        return steps
    should, why = systemd_cgroup(cri, wanted)
    if not isinstance(has, bool):
        should = should if should is not None else _boolean(has)
    elif wanted.cgroup_driver and has == (wanted.cgroup_driver == "systemd"):
        return steps
    if should is not None and has is not should:
        steps.append(
            SetKey(
                (*path, "options", "SystemdCgroup"),
                should,
                f"nvidia: SystemdCgroup was {'missing' if has is None else repr(has)}; set {why}.",
            )
        )
    return steps


def back(cri: Cri, recorded: Default | None) -> str | None:
    """The default to go back to from nvidia: the recorded one if it is still there, otherwise runc. None: unset."""
    if recorded and (recorded.name is None or recorded.name in cri.runtimes):
        return recorded.name
    return RUNC


def _target(cri: Cri, wanted: Wanted, recorded: Default | None) -> str | None:
    """The default there should be; None: unset, which means runc."""
    if wanted.mode is Mode.DEFAULT:
        return NVIDIA
    if cri.default == NVIDIA:
        return back(cri, recorded)
    if cri.default_is_empty or ((cri.default or "").startswith("nvidia") and cri.default not in cri.runtimes):
        return RUNC
    return cri.default


def _runc_needed(cri: Cri, target: str | None) -> bool:
    """Whether containers would have no ordinary handler: none is there at all, or a default means a missing runc."""
    if RUNC in cri.runtimes:
        return False
    if all(is_nvidia(name, runtime) for name, runtime in cri.runtimes.items()):
        return True
    return RUNC in (cri.default or RUNC, target or RUNC) and not cri.default_runtime_type


def runc_handler(cri: Cri, wanted: Wanted) -> AddHandler:
    """runc as containerd has it built in, with the cgroup setting that the kubelet needs."""
    cgroup, why = systemd_cgroup(cri, wanted)
    table: Table = {"runtime_type": RUNC_V2}
    if cgroup is not None:
        table["options"] = {"SystemdCgroup": cgroup}
    return AddHandler(
        RUNC,
        table,
        "Added the handler runc: containerd 1.x drops its own as soon as any handler is configured; "
        f"SystemdCgroup {why}.",
    )


def plan(cri: Cri, wanted: Wanted, recorded: Default | None, recorded_type: str | None) -> Plan:
    """What to do to these CRI settings. Raises `Refused` where that can't be known or can't work."""
    cri = replace(cri, recorded_default=recorded.name if recorded else None)
    steps: list[Step] = []
    warnings: list[str] = []
    target = _target(cri, wanted, recorded)
    if _runc_needed(cri, target):
        steps.append(runc_handler(cri, wanted))
    if NVIDIA in cri.runtimes:
        steps += _repairs(cri, wanted)
    else:
        table, note = nvidia_handler(cri, wanted)
        steps.append(AddHandler(NVIDIA, table, note))
    steps += _default(cri, target, warnings)
    steps += _default_table(cri, wanted, recorded_type, warnings)
    steps += _legacy_cgroup(cri, wanted)
    steps += _cdi(cri, wanted)
    warnings += _cgroup_warnings(cri, wanted)
    return Plan(tuple(steps), tuple(warnings))


def _default(cri: Cri, target: str | None, warnings: list[str]) -> list[Step]:
    was = cri.runtimes.get(cri.default or "")
    if target == NVIDIA != cri.default and was is not None and not is_runc_shim(was):
        warnings.append(
            f"The default was {cri.default} ({was.get('runtime_type')}); pods without a runtimeClassName no longer run "
            "in it."
        )
    if target == cri.default:
        return []
    said = target or "unset (runc)"
    return [SetDefault(target, f"The default handler is {said}; it was {cri.default or 'unset (runc)'}.")]


def _default_table(cri: Cri, wanted: Wanted, recorded_type: str | None, warnings: list[str]) -> list[Step]:
    table = at(cri.table, ("containerd", "default_runtime"))
    if not isinstance(table, dict) or (not cri.default_runtime_type and not recorded_type):
        return []
    if wanted.release.major >= 2:
        warnings.append("The table default_runtime means nothing to containerd 2.")
        return []
    nvidia = is_nvidia("", table)
    if cri.default_runtime_type and (wanted.mode is Mode.DEFAULT or nvidia):
        return [
            SetDefaultType("", "The table default_runtime beats default_runtime_name; its runtime_type is emptied.")
        ]
    if not cri.default_runtime_type and recorded_type and wanted.mode is Mode.RUNTIMECLASS and not nvidia:
        return [SetDefaultType(recorded_type, "The table default_runtime counts again.")]
    return []


def _legacy_cgroup(cri: Cri, wanted: Wanted) -> list[Step]:
    """On 1.x `systemd_cgroup` keeps the CRI plugin from loading unless the default handler uses the v1 shim.

    Nothing is decided here for a file whose handlers do use that shim.
    """
    legacy = any(runtime.get("runtime_type") == LINUX_V1 for runtime in cri.runtimes.values())
    if wanted.release.major >= 2 or not cri.systemd_cgroup or legacy:
        return []
    steps: list[Step] = [
        SetKey(
            ("systemd_cgroup",),
            False,
            "systemd_cgroup keeps the CRI plugin from loading; SystemdCgroup in the handlers' options replaces it.",
        )
    ]
    runc = cri.runtimes.get(RUNC)
    if runc is not None and at(runc, ("options", "SystemdCgroup")) is None:
        path = ("containerd", "runtimes", RUNC, "options", "SystemdCgroup")
        steps.append(SetKey(path, True, "runc: SystemdCgroup = true in place of systemd_cgroup."))
    return steps


def _cdi(cri: Cri, wanted: Wanted) -> list[Step]:
    if wanted.enable_cdi is None:
        return []
    if not wanted.release.has_cdi:
        if not wanted.enable_cdi:
            return []
        raise Refused(
            f"containerd {wanted.release} can't inject CDI devices itself; enable_cdi came with 1.7.",
            "Leave enable_cdi out for this host, or install containerd 1.7 or later.",
        )
    if cri.table.get("enable_cdi", wanted.release.cdi_by_default) is wanted.enable_cdi:
        return []
    return [SetKey(("enable_cdi",), wanted.enable_cdi, f"enable_cdi is {str(wanted.enable_cdi).lower()}, as wanted.")]


def _cgroup_warnings(cri: Cri, wanted: Wanted) -> list[str]:
    warnings = []
    origin = source(cri)
    for name, runtime in cri.runtimes.items():
        written = at(runtime, ("options", "SystemdCgroup"))
        if name != NVIDIA and written is not None and not isinstance(written, bool):
            warnings.append(
                f"{name}: SystemdCgroup is {written!r}, not a boolean; containerd loads it, but pods fail to start."
            )
    runc = cri.runtimes.get(RUNC)
    if runc is not None and is_nvidia(RUNC, runc):
        warnings.append(f"runc runs {program(runc)}, so every container passes through the toolkit in either mode.")
    has = _boolean(at(origin[1], ("options", "SystemdCgroup"))) if origin else None
    if origin and wanted.cgroup_driver == "systemd" and not has and systemd_cgroup(cri, wanted)[0] is not True:
        warnings.append(
            f"The kubelet uses the systemd cgroup driver but {origin[0]} has no SystemdCgroup = true, and nvidia "
            "follows it: pods may restart in a loop or be killed at random. Set it in both."
        )
    if origin and wanted.cgroup_driver == "cgroupfs" and has:
        warnings.append(
            f"The kubelet uses the cgroupfs driver but {origin[0]} has SystemdCgroup = true, and nvidia follows it."
        )
    return warnings
