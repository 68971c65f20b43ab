"""A closure and a host's packages: what must be installed, moved, removed and held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from provisioner.facts.packages import PackageState
from provisioner.model.action import Packages
from provisioner.model.change import Change, Disruption, Kind
from provisioner.model.lock import LockedPackage
from provisioner.tasks.packaging.backend import Backend
from provisioner.tasks.packaging.names import MODULE, built_from_driver
from provisioner.tasks.packaging.versions import upstream

SERVICE = "maintainer scripts restart services and reload systemd"


@dataclass(frozen=True)
class Difference:
    """What separates a host from locked packages. `remove`: installed packages of another driver version, or of
    the other flavour's module, that the lock doesn't name."""

    packages: tuple[LockedPackage, ...]
    wrong: tuple[LockedPackage, ...]
    unheld: tuple[str, ...]
    remove: tuple[str, ...]
    downgrade: bool

    @property
    def moves(self) -> bool:
        """Whether packages must be installed, moved or removed (holds aside)."""
        return bool(self.wrong or self.remove)


def difference(
    packages: Sequence[LockedPackage], state: PackageState, backend: Backend, *, driver: str = ""
) -> Difference:
    """What separates the host from `packages`; with `driver`, leftovers of other driver versions count too."""
    names = {package.name for package in packages}
    return Difference(
        packages=tuple(packages),
        wrong=tuple(package for package in packages if state.version(package.name) != package.version),
        unheld=tuple(package.name for package in packages if package.name not in state.holds),
        remove=leftovers(state, names, driver) if driver else (),
        downgrade=any(
            (have := state.version(package.name)) is not None and backend.compare(have, package.version) > 0
            for package in packages
        ),
    )


def leftovers(state: PackageState, locked: set[str], driver: str) -> tuple[str, ...]:
    """Installed packages, not named by the lock, that are built from another version of the driver, or bring the
    other flavour's kernel module."""
    return tuple(
        sorted(
            package.name
            for package in state.packages.values()
            if package.installed
            and package.name not in locked
            and built_from_driver(package.name, package.version)
            and (upstream(package.version) != driver or MODULE.fullmatch(package.name))
        )
    )


def strangers(state: PackageState, locked: set[str], driver: str) -> tuple[str, ...]:
    """Installed packages of this very driver that the lock doesn't name and nobody holds: they could move alone."""
    return tuple(
        sorted(
            package.name
            for package in state.packages.values()
            if package.installed
            and package.name not in locked
            and package.name not in state.holds
            and built_from_driver(package.name, package.version)
            and upstream(package.version) == driver
        )
    )


def transaction(found: Difference, state: PackageState, backend: Backend, lists: tuple[str, ...] = ()) -> Packages:
    """Everything locked, by name and version, in one transaction, then held; holds in the way are lifted for it."""
    names = [package.name for package in found.packages]
    return Packages(
        manager=backend.manager,
        install=tuple((package.name, package.version) for package in found.packages),
        remove=found.remove,
        unhold=tuple(sorted(state.holds.intersection([*names, *found.remove]))),
        hold=tuple(names),
        lists=lists,
        allow_downgrade=found.downgrade,
    )


def package_change(
    found: Difference, state: PackageState, backend: Backend, *, what: str, version: str, lists: tuple[str, ...] = ()
) -> Change | None:
    """The change that ends the difference, or None. `what` and `version` for the summary: "driver", "580.95.05"."""
    if found.moves:
        return Change(
            subject="packages",
            summary=_summary(found, state, what, version),
            kind=Kind.UPDATE if any(state.version(p.name) for p in found.packages) else Kind.CREATE,
            actions=(transaction(found, state, backend, lists),),
            before=_listing(found, state),
            after="".join(f"{package.name} {package.version}\n" for package in found.packages),
            disruption=Disruption.SERVICE,
            disrupts=SERVICE,
            notes=("this is a downgrade",) if found.downgrade else (),
        )
    if found.unheld:
        return Change(
            subject="holds",
            summary=f"hold {len(found.unheld)} package{'s' if len(found.unheld) > 1 else ''} of the {what}",
            kind=Kind.UPDATE,
            actions=(Packages(backend.manager, hold=found.unheld),),
            before="",
            after="".join(f"{name}\n" for name in found.unheld),
        )
    return None


def _summary(found: Difference, state: PackageState, what: str, version: str) -> str:
    have = sorted(
        {upstream(v) for package in found.wrong if (v := state.version(package.name)) is not None} - {version}
    )
    count = len(found.wrong)
    text = f"{what} {', '.join(have)} → {version}" if have else f"{what} {version}"
    parts = [f"{count} package{'s' if count > 1 else ''}"] if count else []
    parts += [f"{len(found.remove)} removed"] if found.remove else []
    return f"{text} ({', '.join(parts)})"


def _listing(found: Difference, state: PackageState) -> str:
    """The installed state of what the change touches."""
    names = [*(package.name for package in found.packages), *found.remove]
    return "".join(f"{name} {version}\n" for name in names if (version := state.version(name)) is not None)
