"""Tasks `packages` and `containerd.package`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from provisioner.errors import PlaybookError
from provisioner.facts.files import FileProbe
from provisioner.facts.packages import LockHolderProbe, PackagesProbe, PackageState
from provisioner.model.action import Packages
from provisioner.model.change import Change, Disruption, Finding, Kind, Note
from provisioner.model.fact import Facts, Probe
from provisioner.tasks.context import Context
from provisioner.tasks.packaging.choose import backend_for
from provisioner.tasks.packaging.closure_on_host import SERVICE
from provisioner.tasks.packaging.stack import unfinished
from provisioner.tasks.task import Task, task

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*(:[a-z0-9]+)?(=[A-Za-z0-9][A-Za-z0-9.+~:^_-]*)?")
"""NAME or NAME=VERSION. Anything else would mean something else on a package manager's command line."""
DISRUPTION = {"none": Disruption.NONE, "service": Disruption.SERVICE}


@task("packages")
class GeneralPackages(Task):
    """Packages that are there, some at an exact version, or not there.

    `names` are names, or NAME=VERSION as apt writes it. Packages may restart services when they are installed, so
    a host with workload waits; `disruption = "none"` says that these don't. `hold` keeps them at their version.

        [[stages.tasks]]
        task = "packages"
        names = ["python3", "numactl", "mlnx-ofed-kernel-dkms=24.10-1.1.4.0"]

        [[stages.tasks]]
        task = "packages"
        names = ["xserver-xorg-core"]
        state = "absent"
    """

    names: tuple[str, ...]
    state: Literal["present", "absent"] = "present"
    hold: bool = False
    disruption: Literal["none", "service"] = "service"

    def __post_init__(self) -> None:
        for word in self.names:
            if not WORD.fullmatch(word) or word.endswith("-"):
                raise PlaybookError(f"packages: {word!r} isn't a name", remedy="write NAME or NAME=VERSION")
            if "=" in word and self.state == "absent":
                raise PlaybookError(f"packages: {word!r} isn't a name to be absent", remedy="leave the version out")

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield from (PackagesProbe(), LockHolderProbe())

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        state = facts.need(PackagesProbe())
        change = self._absent(state) if self.state == "absent" else self._present(state)
        if change is not None:
            yield unfinished(facts) or change

    def _present(self, state: PackageState) -> Change | None:
        backend = backend_for(state)
        wanted = {name: version or None for name, _, version in (word.partition("=") for word in self.names)}
        wrong = {n: v for n, v in wanted.items() if (have := state.version(n)) is None or (v is not None and have != v)}
        held = tuple(name for name in wanted if name in state.holds and name in wrong)
        unheld = tuple(name for name in wanted if name not in state.holds) if self.hold else ()
        if not wrong and not unheld:
            return None
        downgrade = any(
            v is not None and (have := state.version(n)) is not None and backend.compare(have, v) > 0
            for n, v in wrong.items()
        )
        return Change(
            subject=_subject(tuple(wrong) or unheld),
            summary=f"install {_words(wrong)}" if wrong else f"hold {', '.join(unheld)}",
            kind=Kind.UPDATE if any(state.version(name) for name in wrong) else Kind.CREATE,
            actions=(
                Packages(
                    backend.manager,
                    install=tuple(wrong.items()),
                    unhold=held,
                    hold=tuple(sorted({*unheld, *held})),
                    allow_downgrade=downgrade,
                ),
            ),
            before="".join(f"{name} {state.version(name)}\n" for name in wrong if state.version(name)),
            after="".join(f"{name} {version or '(any version)'}\n" for name, version in wrong.items()),
            disruption=DISRUPTION[self.disruption] if wrong else Disruption.NONE,
            disrupts=SERVICE if wrong and self.disruption == "service" else "",
            notes=("this is a downgrade",) if downgrade else (),
        )

    def _absent(self, state: PackageState) -> Change | None:
        there = tuple(name for name in self.names if state.version(name) is not None)
        if not there:
            return None
        return Change(
            subject=_subject(there),
            summary=f"remove {', '.join(there)}",
            kind=Kind.DELETE,
            actions=(
                Packages(backend_for(state).manager, remove=there, unhold=tuple(n for n in there if n in state.holds)),
            ),
            before="".join(f"{name} {state.version(name)}\n" for name in there),
            after="",
            disruption=DISRUPTION[self.disruption],
            disrupts=SERVICE if self.disruption == "service" else "",
        )


def _subject(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _words(wanted: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {version}" if version else name for name, version in wanted.items())


PROGRAMS = ("/usr/bin/containerd", "/usr/local/bin/containerd", "/usr/local/bin/k3s", "/usr/local/bin/rke2")
"""Where a containerd that no package brought would be; k3s and rke2 carry their own."""


@task("containerd.package")
class ContainerdPackage(Task):
    """The distribution's containerd, only where `containerd.install` is true and the host has none.

    containerd normally comes from the site's cluster tool; a host without one is reported, not changed.

        [[stages.tasks]]
        task = "containerd.package"
        install = "{{ containerd.install }}"
    """

    install: bool = False
    package: str = "containerd"

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield from (PackagesProbe(), LockHolderProbe())
        for path in PROGRAMS:
            yield FileProbe(path, content=False)

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        state = facts.need(PackagesProbe())
        packaged = any(state.version(name) is not None for name in ("containerd", "containerd.io", self.package))
        if packaged or any(facts.get(FileProbe(path, content=False)) is not None for path in PROGRAMS):
            return
        if not self.install:
            yield Note("containerd", "there is no containerd; containerd.install = true installs the distribution's")
            return
        refusal = unfinished(facts)
        if refusal is not None:
            yield refusal
            return
        yield Change(
            subject="containerd",
            summary=f"install {self.package}",
            kind=Kind.CREATE,
            actions=(Packages(backend_for(state).manager, install=((self.package, None),)),),
            before="",
            after=f"{self.package} (any version)\n",
            disruption=Disruption.SERVICE,
            disrupts="starts containerd",
        )
