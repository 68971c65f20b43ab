"""Settings with which the CRI plugin doesn't load although containerd runs on.

The conditions are those of containerd's own validation (`ValidatePluginConfig` in
pkg/cri/config/config.go of 1.7, `ValidateRuntimeConfig` in internal/cri/config of 2.x), each seen to
fail on 1.7.24 and, where it isn't limited to 1.x, on 2.1.9.
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.containerd.cri import LINUX_V1, RUNC, Cri, table_at
from provisioner.containerd.document import Table
from provisioner.containerd.result import Problem
from provisioner.containerd.versions import Release


def load_faults(cri: Cri, registry: Table, release: Release) -> tuple[Problem, ...]:
    """What keeps the CRI plugin from loading; `registry` is the table of that name, wherever its version has it."""
    return tuple(_faults(cri, registry, release))


def _faults(cri: Cri, registry: Table, release: Release) -> Iterator[Problem]:
    old = release.major < 2
    default = cri.default or RUNC
    if default not in cri.runtimes and not (old and cri.default_runtime_type):
        yield Problem(
            "default-missing", f"The default handler {default} doesn't exist, so the CRI plugin doesn't load."
        )
    if cri.default_is_empty:
        yield Problem("default-empty", "default_runtime_name is empty, so the CRI plugin doesn't load.")
    for name, runtime in cri.runtimes.items():
        privileged = runtime.get("privileged_without_host_devices") is True
        if runtime.get("privileged_without_host_devices_all_devices_allowed") is True and not privileged:
            yield Problem(
                "privileged",
                f"{name}: privileged_without_host_devices_all_devices_allowed without privileged_without_host_devices "
                "keeps the CRI plugin from loading.",
            )
        if old and runtime.get("runtime_type") != LINUX_V1:
            for key in ("runtime_engine", "runtime_root"):
                if runtime.get(key):
                    yield Problem(
                        "legacy-key", f"{name}: {key} keeps the CRI plugin from loading; it is for {LINUX_V1}."
                    )
    if old and cri.runtimes.get(default, {}).get("runtime_type") != LINUX_V1:
        for switch, on in (("systemd_cgroup", cri.systemd_cgroup), ("no_pivot", cri.no_pivot)):
            if on:
                yield Problem(
                    "legacy-switch",
                    f"{switch} = true keeps the CRI plugin from loading unless the default handler uses {LINUX_V1}.",
                )
    tls = old and any(isinstance(c, dict) and "tls" in c for c in table_at(registry, ("configs",)).values())
    if registry.get("config_path") and (registry.get("mirrors") or tls):
        yield Problem(
            "registry",
            "registry.config_path together with registry.mirrors (or tls in registry.configs) keeps the CRI plugin "
            "from loading.",
        )
