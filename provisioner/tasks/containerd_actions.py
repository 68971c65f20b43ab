"""How containerd's file gets onto a host: read as a candidate first, guarded while containerd restarts with it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import Literal

from provisioner.containerd import Mode, needed_plugins, plugins_ok
from provisioner.facts.containerd import SOCKET, PluginsProbe, config_inputs_script
from provisioner.facts.host import IdentityProbe
from provisioner.facts.services import UnitProbe, stamp_path
from provisioner.model.action import Action, Guarded, RemoveFile, Restore, Run, Service, WriteFile
from provisioner.model.fact import Facts
from provisioner.quoting import quote
from provisioner.tasks.context import Context

UNIT = "containerd.service"
Life = Literal["runs", "broken", "off", "image"]


def life_of(facts: Facts) -> Life:
    """How containerd lives: it "runs"; it is "broken", which a right file may mend; it is "off", stopped or masked
    by somebody or not a unit of systemd; or this is an "image", on which nothing runs."""
    if not facts.need(IdentityProbe()).systemd:
        return "image"
    unit = facts.get(UnitProbe(UNIT))
    if unit is None or unit.masked:
        return "off"
    if unit.active == "failed" or unit.sub == "auto-restart":
        return "broken"
    return "runs" if unit.runs else "off"


@dataclass(frozen=True, slots=True)
class Host:
    """What the actions need to know. `path` is containerd's file, `version` as it prints it."""

    path: str
    version: str
    life: Life

    @property
    def restarts(self) -> bool:
        """Does a change of the file end in a restart?"""
        return self.life in ("runs", "broken")


def candidate(host: Host, content: str, permissions: int, mode: Mode, binary: str, ctx: Context) -> tuple[Action, ...]:
    """The content beside the file, for nobody who can't read the file, read by the host's containerd, gone again."""
    path = f"{host.path}.provision-candidate"
    check = ctx.template("containerd/check-candidate", candidate=path, mode=mode.value, binary=binary)
    return (WriteFile(path, content, mode=permissions), Run(check, "the candidate, read by containerd"))


def guarded(host: Host, writes: tuple[WriteFile, ...], content: str, facts: Facts, ctx: Context) -> Guarded:
    """Restart with what was written; when the CRI plugin doesn't come up, the previous file and a restart.

    Where it wasn't up before, or containerd wasn't, the previous file is all that can come back.
    """
    plugins = needed_plugins(host.version)
    socket = _socket(content)
    stamp = stamp_path(UNIT)
    folder, new = quote(stamp.rpartition("/")[0]), quote(f"{stamp}.new")
    # Summed before the restart, kept after it: a run that dies in between leaves a containerd that is out of date.
    note = f"mkdir -p {folder}\n{{\n{config_inputs_script(host.path)}}} >{new}\n"
    before = () if host.life == "broken" or not _was_up(host, facts) else plugins
    again: Action = Service(UNIT, state="restarted")
    if host.life == "broken":
        again = Run(f"systemctl restart {quote(UNIT)} || :", "containerd as it was")
    return Guarded(
        (
            *writes,
            Run(note, "note what containerd reads"),
            Service(UNIT, state="restarted"),
            Run(f"mv -f {new} {quote(stamp)}", "note that containerd runs with it"),
        ),
        check=ctx.template("containerd/check-running", plugins=plugins, handler="nvidia", socket=socket),
        undo=(
            Restore(host.path),
            RemoveFile(stamp),
            # A unit that failed a few times in a row isn't started again for a while.
            Run(f"systemctl reset-failed {quote(UNIT)} 2>/dev/null || :", "forget that it failed"),
            again,
        ),
        check_undo=":"
        if host.life == "broken"
        else ctx.template("containerd/check-running", plugins=before, handler="", socket=socket),
        what="containerd with its CRI plugin",
    )


def _was_up(host: Host, facts: Facts) -> bool:
    listing = facts.get(PluginsProbe(host.path))
    return listing is None or not plugins_ok(listing, host.version)


def _socket(content: str) -> str:
    """Where containerd listens with this configuration."""
    try:
        grpc = tomllib.loads(content.removeprefix("\ufeff")).get("grpc")
    except (tomllib.TOMLDecodeError, RecursionError):
        return SOCKET
    address = grpc.get("address") if isinstance(grpc, dict) else None
    return address if isinstance(address, str) and address else SOCKET
