"""Is the system one that can be set up, and is there room?"""

from __future__ import annotations

from provisioner.facts.host import SystemProbe
from provisioner.model.change import Refusal
from provisioner.model.fact import Facts
from provisioner.tasks.preflight.check import Check, Verdict
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


CHECKS = (Check("system", "which distribution is this?", (SystemProbe(),), known),)
