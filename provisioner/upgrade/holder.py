"""Who holds a lease, for people and for a process on the same machine that finds its forerunner dead."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Holder:
    """`who` is "user@host"; `place` tells one process of one boot of one machine from all others, "" where this
    system has no /proc. Its parts: boot id, pid namespace, pid, start of the process in clock ticks."""

    who: str
    place: str = ""

    def outlived(self, place: str) -> bool:
        """Whether `place` is a process of this boot and pid namespace that is no more. In doubt it lives."""
        boot, namespace, pid, started = (*place.split("/"), "", "", "", "")[:4]
        ours = self.place.split("/")
        if not pid.isdigit() or not started or [boot, namespace] != ours[:2] or pid == ours[2]:
            return False
        return _started(int(pid)) != started


def this_process() -> Holder:
    """The holder that we are."""
    who = f"{_user()}@{socket.gethostname()}"
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        return Holder(who)
    return Holder(who, f"{boot}/{namespace}/{os.getpid()}/{_started(os.getpid())}")


def _started(pid: int) -> str:
    """When a process started, in clock ticks since boot (field 22 of its stat); "" for one that is no more."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
