"""The settings of the CRI plugin as a parsed file or dump has them: handlers, default, switches."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Any

from provisioner.containerd.document import Table, at
from provisioner.containerd.result import Refused
from provisioner.containerd.syntax import Path
from provisioner.containerd.versions import CRI_V3

NVIDIA = "nvidia"
RUNC = "runc"
RUNC_V1 = "io.containerd.runc.v1"
RUNC_V2 = "io.containerd.runc.v2"
LINUX_V1 = "io.containerd.runtime.v1.linux"
DEFAULT_NAME: Path = ("containerd", "default_runtime_name")


def dotted(path: Path) -> str:
    """A path for a message."""
    return ".".join(name if "." not in name else f'"{name}"' for name in path)


def table_at(meaning: Table, path: Path) -> Table:
    """The table at `path`, empty where there is none. Raises `Refused` where something else stands there."""
    table: object = meaning
    for depth, name in enumerate(path, 1):
        table = table.get(name, {}) if isinstance(table, dict) else {}
        if not isinstance(table, dict):
            raise Refused(
                f"{dotted(path[:depth])} is not a table in this file, so containerd can't use it.",
                "Correct that entry by hand.",
            )
    assert isinstance(table, dict)
    return table


def typed(table: Table, path: Path, kind: type, word: str) -> Any:
    """The value at `path`, None where unset. Raises `Refused` where it isn't a `kind` (`word` in the message)."""
    item = at(table, path)
    if item is not None and type(item) is not kind:
        raise Refused(
            f"{dotted(path)} is not {word} in this file, so containerd can't use it.", "Correct that entry by hand."
        )
    return item


@dataclass(frozen=True)
class Cri:
    """The table of the CRI plugin. Everything the editor relies on has been checked for its type by `read`.

    `lists_empty`: handlers in this table list keys with empty values (config version 2 and before).
    `recorded_default`: the default there was before nvidia, as far as the file tells.
    """

    table: Table
    lists_empty: bool = True
    recorded_default: str | None = None

    @staticmethod
    def read(meaning: Table, path: Path) -> Cri:
        """The CRI table at `path`. Raises `Refused` where a part of it has an impossible type."""
        table = table_at(meaning, path)
        for name in table_at(table, ("containerd", "runtimes")):
            runtime = ("containerd", "runtimes", name)
            table_at(table, (*runtime, "options"))
            for key in ("runtime_type", "runtime_engine", "runtime_root", "runtime_path"):
                typed(table, (*runtime, key), str, "a string")
        table_at(table, ("containerd", "default_runtime", "options"))
        table_at(table, ("registry", "mirrors"))
        table_at(table, ("registry", "configs"))
        typed(table, ("registry", "config_path"), str, "a string")
        typed(table, DEFAULT_NAME, str, "a string")
        typed(table, ("containerd", "default_runtime", "runtime_type"), str, "a string")
        for switch in (("enable_cdi",), ("systemd_cgroup",), ("containerd", "no_pivot")):
            typed(table, switch, bool, "a boolean")
        return Cri(table, lists_empty=path[-1:] != (CRI_V3,))

    @property
    def runtimes(self) -> dict[str, Table]:
        """The handlers by name."""
        return table_at(self.table, ("containerd", "runtimes"))

    @property
    def default(self) -> str | None:
        """`default_runtime_name`; None where it is unset (or empty), which means runc."""
        name = at(self.table, DEFAULT_NAME)
        return name if isinstance(name, str) and name else None

    @property
    def default_is_empty(self) -> bool:
        """`default_runtime_name = ""`, with which the CRI plugin doesn't load; unset is fine."""
        return at(self.table, DEFAULT_NAME) == ""

    @property
    def ordinary_default(self) -> str | None:
        """The default, or the one there was before nvidia."""
        return self.recorded_default if self.default == NVIDIA else self.default

    @property
    def default_runtime_type(self) -> str:
        """`runtime_type` of the deprecated table `default_runtime`, which beats the name on containerd 1.x."""
        return str(at(self.table, ("containerd", "default_runtime", "runtime_type")) or "")

    @property
    def systemd_cgroup(self) -> bool:
        """The deprecated switch at CRI level, good only for the runtime v1 shim."""
        return self.table.get("systemd_cgroup") is True

    @property
    def no_pivot(self) -> bool:
        """The deprecated switch at containerd level, good only for the runtime v1 shim."""
        return at(self.table, ("containerd", "no_pivot")) is True


def program(runtime: Table) -> str:
    """The program that a handler runs, as far as its table says."""
    options = runtime.get("options")
    binary = options.get("BinaryName") if isinstance(options, dict) else None
    return str(binary or runtime.get("runtime_engine") or "")


def is_nvidia(name: str, runtime: Table) -> bool:
    """Whether a handler is one of NVIDIA's, by its name or its program."""
    own = posixpath.basename(program(runtime)).startswith("nvidia-container-runtime")
    return own or name == NVIDIA or name.startswith("nvidia-")


def is_runc_shim(runtime: Table) -> bool:
    """Whether a handler runs an OCI runtime through containerd's runc shim."""
    return runtime.get("runtime_type") in (RUNC_V1, RUNC_V2)
