"""Is the system one that can be set up, and is there room?"""

from __future__ import annotations

from provisioner.facts.disk import SpaceProbe
from provisioner.facts.host import SystemProbe
from provisioner.model.change import Refusal
from provisioner.model.fact import Facts
from provisioner.tasks.preflight.check import Check, Judge, Verdict
from provisioner.tasks.preflight.wanted import Wanted

SUPPORTED = ("debian12", "debian13", "ubuntu22.04", "ubuntu24.04")


def known(facts: Facts, wanted: Wanted) -> Verdict:
    """A distribution whose packages are known here."""
    system = facts.need(SystemProbe())
    if system.distribution in SUPPORTED:
        return None
    listed = ", ".join(SUPPORTED)
    if system.family == "rhel":
        return Refusal(
            subject="system",
            what=f"{system.distribution} can't be set up yet",
            why="hosts with dnf are planned only; installing through dnf comes next",
            remedy=f"leave this host out (--limit), or use {listed}",
        )
    return Refusal(
        subject="system",
        what=f"{system.distribution or 'this system'} isn't known",
        why=f"package names and repositories are known for {listed}",
        remedy="leave this host out (--limit), or install one of them",
    )


LEAST_INODES = 2000
"""A driver with its dependencies brings about a thousand files."""


def space(path: str) -> Judge:
    """Room on the file system below `path`; a folder that isn't there (/boot in a container) needs none."""

    def judge(facts: Facts, wanted: Wanted) -> Verdict:
        found = facts.get(SpaceProbe(path))
        least = dict(wanted.space).get(path, 0)
        if found is None:
            return None
        if found.read_only:
            what, why = f"{path} is read-only", f"the file system {found.mount} is mounted without write access"
            remedy = "read the kernel log for disk errors, mend them and mount it for writing"
        elif found.free < least * 1024:
            what = f"{found.free // 1024} MiB free on {path}, at least {least} needed"
            why = USES.get(path, "a full disk in the middle of an installation leaves half of it")
            remedy = f"free some of {found.mount} ({FREE.get(path, 'see `du -xh`')})"
        elif found.inodes is not None and found.inodes < LEAST_INODES:
            what = f"{found.inodes} inodes free on {path}, at least {LEAST_INODES} needed"
            why = "a file system without inodes takes no new files, whatever space it has"
            remedy = f"remove small files from {found.mount}"
        else:
            return None
        return Refusal(subject=f"space on {path}", what=what, why=why, remedy=remedy)

    return judge


USES = {
    "/": "the driver takes about 450 MiB installed",
    "/boot": "an initramfs is written anew beside the old one",
    "/var": "packages are downloaded to, and modules built below, /var",
}
FREE = {
    "/": "`apt-get clean`, old logs",
    "/boot": "`apt-get autoremove --purge` removes old kernels",
    "/var": "`apt-get clean`, `journalctl --vacuum-size=200M`, old container images",
}

CHECKS = (
    Check("system", "which distribution is this?", (SystemProbe(),), known),
    *(
        Check(f"space on {path}", f"is there room on {path}?", (SpaceProbe(path),), space(path))
        for path in ("/", "/boot", "/var")
    ),
)
