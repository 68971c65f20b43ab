"""Is the package manager free and whole, and does no other installation stand in the way?"""

from __future__ import annotations

from provisioner.facts.packages import LockHolderProbe, PackagesProbe
from provisioner.facts.runfile import RunfileProbe
from provisioner.model.change import Note, Refusal
from provisioner.model.fact import Facts, Known
from provisioner.tasks.packaging.names import STACK
from provisioner.tasks.preflight.check import Check, Verdict
from provisioner.tasks.preflight.wanted import Wanted

OUTDATED = ("nvidia-docker2", "nvidia-docker")
"""Packages of the time before the toolkit configured runtimes itself: they own Docker's configuration and tie the
toolkit to versions of their own. 1.14 of the toolkit was their last release (NVIDIA Container Toolkit release
notes)."""


def lock(facts: Facts, wanted: Wanted) -> Verdict:
    """Someone who installs right now is waited for, not refused."""
    holder = facts.get(LockHolderProbe())
    if holder is None:
        return None
    return Note(
        subject="package lock",
        text=f"{holder.name} (process {holder.pid}) holds the package manager's lock; a transaction waits for it",
    )


def whole(facts: Facts, wanted: Wanted) -> Verdict:
    """No package was left in the middle. While someone installs, that is how it looks, so it says nothing then."""
    if isinstance(facts.fact(LockHolderProbe()), Known):
        return None
    state = facts.need(PackagesProbe())
    # The stack's own packages are mended by installing them at the locked version, and often only by that.
    broken = [name for name in state.broken if not STACK.fullmatch(name)]
    if not (broken or state.interrupted):
        return None
    named = ", ".join(broken[:5]) + (", …" if len(broken) > 5 else "")
    count = len(broken)
    return Refusal(
        subject="packages",
        what=f"{count} package{'s' if count != 1 else ''} left half installed" if count else "dpkg was interrupted",
        why=(f"{named}: " if named else "") + "an earlier transaction didn't end, and no new one can be made on top",
        remedy="`dpkg --configure -a`, then `apt-get -f install`; `dpkg --audit` says what is wrong"
        if state.manager == "apt"
        else "`dnf check`, then `dnf distro-sync`",
    )


def runfile(facts: Facts, wanted: Wanted) -> Verdict:
    """No second driver past the package manager."""
    found = facts.get(RunfileProbe())
    if found is None:
        return None
    version = f" {found.version}" if found.version else ""
    return Refusal(
        subject="second driver",
        what=f"a driver{version} was installed by a .run file",
        why=f"{found.uninstaller} belongs to no package: its libraries and modules would lie beside those of the "
        "packages, and either may be loaded",
        remedy=f"drain the node, `{found.uninstaller} --silent`, reboot, then plan again",
    )


def nvidia_docker(facts: Facts, wanted: Wanted) -> Verdict:
    """No leftover of nvidia-docker2."""
    state = facts.need(PackagesProbe())
    left = [name for name in OUTDATED if state.version(name)]
    if not left:
        return None
    return Refusal(
        subject="nvidia-docker",
        what=f"{' and '.join(left)} {'is' if len(left) == 1 else 'are'} installed",
        why="it was given up with toolkit 1.14, writes Docker's configuration and asks for packages of its own time",
        remedy=f"`apt-get remove {' '.join(left)}`; where Docker is used, `nvidia-ctk runtime configure "
        "--runtime=docker` does its work",
    )


CHECKS = (
    Check("package lock", "does someone install right now?", (LockHolderProbe(),), lock),
    Check("packages", "are all packages whole?", (PackagesProbe(), LockHolderProbe()), whole),
    Check("second driver", "is there a driver of a .run file?", (RunfileProbe(),), runfile),
    Check("nvidia-docker", "is nvidia-docker2 gone?", (PackagesProbe(),), nvidia_docker),
)
