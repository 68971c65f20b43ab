"""The script and the reading of `provision lock`: the exact packages of a driver and a toolkit on one distribution."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources

from provisioner.errors import LockError
from provisioner.facts.host import System
from provisioner.facts.repositories import plain_uri
from provisioner.model.inventory import Repository
from provisioner.model.lock import Closure, Lock, LockedPackage
from provisioner.quoting import quote
from provisioner.tasks.packaging import apt
from provisioner.tasks.packaging.keys import key_refusal
from provisioner.tasks.packaging.locked import Wanted
from provisioner.tasks.packaging.names import OWN_VERSION, STACK, TOOLKIT, built_from_driver, role, top_packages
from provisioner.tasks.packaging.repository import filled
from provisioner.tasks.packaging.versions import branch, upstream


def lock_script(want: Wanted, system: System, repositories: Sequence[Repository]) -> str:
    """A POSIX sh script for one host of the distribution: resolves the closure in an apt root of its own.

    Only a temporary folder is written, and removed at the end. It holds repository passwords: send it, never show
    it. Raises LockError when the request itself can't be met.
    """
    if not want.driver:
        raise LockError("the inventory sets no driver version", remedy='set versions.driver, e.g. "580.95.05"')
    if not want.toolkit:
        raise LockError("the inventory sets no toolkit version", remedy='set versions.toolkit, e.g. "1.18.0"')
    if want.family != "debian":
        raise LockError(
            f"no closure can be found on {want.distribution}",
            why="the closure is found with apt; this system uses another package manager",
        )
    for repository in repositories:
        refusal = key_refusal(repository)
        if refusal is not None:
            raise LockError(refusal.what, why=refusal.why, remedy=refusal.remedy)
    sets = (want.top,) if want.top else top_packages(want.family, want.source, want.flavour, want.driver)
    values = {
        "top_sets": "\n".join(" ".join(names) for names in sets),
        "top_fixed": " ".join(TOOLKIT),
        "stack": "|".join((STACK.pattern, *TOOLKIT)),
        "own_version": " ".join(sorted(OWN_VERSION)),
        "driver": want.driver,
        "toolkit": want.toolkit,
        "uris": "\n".join(plain_uri(filled(repository.uri, system)).rstrip("/") for repository in repositories),
    }
    lines = ["umask 077\nroot=$(mktemp -d) || exit 71\ntrap 'rm -rf \"$root\"' EXIT\n"]
    # A shell that a signal ends runs no EXIT trap, and there are passwords in that folder.
    lines.append("trap 'exit 143' HUP INT PIPE TERM\n")
    lines += [f"{name}={quote(value)}\n" for name, value in values.items()]
    lines.append("own_sources() {\n:\n")
    for repository in repositories:
        lines += [_put(path, text) for path, text in _isolated(repository, system)]
    lines.append("}\n")
    lines.append(resources.files("provisioner.engine").joinpath("lock_apt.sh").read_text(encoding="utf-8"))
    return "".join(lines)


def _isolated(repository: Repository, system: System) -> Iterable[tuple[str, str]]:
    """A repository's files as (path below the isolated root, content)."""
    name = repository.name
    yield f"key-{name}.asc", repository.key
    yield f"sources/provision-{name}.sources", apt.sources(repository, system, key=f"@root@/key-{name}.asc")
    if repository.proxy is not None:
        yield f"parts/zz-{name}", apt.proxy(repository, system)
    if repository.user is not None:
        password = repository.password.value if repository.password else ""
        yield f"auth/provision-{name}.conf", apt.credentials(repository, system, password)


def _put(path: str, text: str) -> str:
    filter_ = ' | sed "s,@root@,$root,"' if "@root@" in text else ""
    return f'printf %s {quote(text)}{filter_} >"$root"/{quote(path)}\n'


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a package's record says."""

    source: str
    section: str
    description: str


def parse_closure(output: str, want: Wanted) -> Closure:
    """The closure that the script's standard output describes.

    Raises LockError: a version the repositories don't have (with those they have), a set that can't be installed,
    mixed driver versions, a transitional stub, output that breaks off.
    """
    rows = [line.split("\t") for line in output.splitlines()]
    missing = [row for row in rows if row[0] == "missing"]
    if missing:
        raise _not_there(want, missing)
    failed = [row[1] for row in rows if row[0] == "failed" and len(row) > 1]
    if failed:
        said = [line for line in failed if not re.match(r"(Reading|Building|NOTE)", line)][-15:]
        raise LockError(
            f"the packages can't be installed together on {want.distribution}",
            why="\n  ".join(said),
            remedy="see whether two repositories offer the same packages, or one lacks a dependency",
        )
    if ["end"] not in rows:
        raise LockError("the answer of the host breaks off", remedy="run `provision lock` again")
    top = next((row[0].split()[1:] for row in rows if row[0].startswith("top ")), [])
    shown = {(row[1], row[2]): _Shown(*row[3:6]) for row in rows if row[0] == "show" and len(row) == 6}
    packages = tuple(
        sorted(
            LockedPackage(name, version, arch, role(name, version, want.driver))
            for name, version, arch in (row[1:4] for row in rows if row[0] == "inst")
        )
    )
    _sound(packages, shown, want)
    names = tuple(word.split("=", 1)[0] for word in top if word.split("=", 1)[0] not in TOOLKIT)
    return Closure(want.distribution, want.arch, want.source, want.driver, want.flavour, want.toolkit, names, packages)


def _not_there(want: Wanted, missing: Sequence[Sequence[str]]) -> LockError:
    lines = []
    for _, name, version, have in missing:
        versions = [v for v in have.split() if v]
        lines.append(
            f"{name} {version}: the repositories have {', '.join(versions[:8])}{', …' if len(versions) > 8 else ''}"
            if versions
            else f"{name} {version}: no repository has a package of that name"
        )
    remedy = "choose a version that is there (versions.driver, versions.toolkit)"
    if all(not have.strip() for *_, have in missing):
        remedy = (
            "name the repository in the inventory, with its key: [repositories.NAME] uri, suite, key_file, "
            "key_fingerprint"
        )
        if want.source == "nvidia":
            remedy += (
                "; NVIDIA documents https://developer.download.nvidia.com/compute/cuda/repos/{distribution}/{machine} "
                "for drivers and https://nvidia.github.io/libnvidia-container/stable/deb/{arch} for the toolkit, both "
                'with suite "/"'
            )
        elif want.source == "debian":
            remedy += "; or enable Debian's components contrib, non-free and non-free-firmware on the hosts"
    return LockError(f"not in the repositories of {want.distribution}", why="\n  ".join(lines), remedy=remedy)


def _sound(packages: Sequence[LockedPackage], shown: dict[tuple[str, str], _Shown], want: Wanted) -> None:
    """Raises LockError for mixed versions and stubs."""
    mixed = [
        package
        for package in packages
        if built_from_driver(package.name, package.version) and upstream(package.version) != want.driver
    ]
    sources = {
        record.source
        for (name, version), record in shown.items()
        if upstream(version) == want.driver and built_from_driver(name, version)
    }
    mixed += [
        package
        for package in packages
        if package not in mixed
        and upstream(package.version) != want.driver
        and (record := shown.get((package.name, package.version))) is not None
        and record.source in sources
    ]
    if mixed:
        raise LockError(
            f"the closure mixes driver {want.driver} with other versions",
            why=", ".join(f"{package.name} {package.version}" for package in mixed),
            remedy="let the repository carry all parts of one version, or keep a second repository from offering them",
        )
    for package in packages:
        record = shown.get((package.name, package.version))
        number = re.search(r"-(\d{3})(?:-|$)", package.name)
        other = number is not None and number[1] != branch(want.driver) and package.role == "driver"
        stub = record is not None and (
            "transitional" in record.description.lower() or record.section.rpartition("/")[2] == "oldlibs"
        )
        if package.role != "dependency" and (stub or other):
            raise LockError(
                f"{package.name} {package.version} is a transitional package",
                why=record.description if record and stub else f"its name says branch {number[1] if number else ''}",
                remedy=f"name the packages of branch {branch(want.driver)} in driver.packages",
            )


def differences(old: Lock, new: Lock) -> tuple[str, ...]:
    """What two locks differ in, a line for each held package and closure; ordinary dependencies may differ."""
    lines = []
    # A group may have a driver version of its own; then versions tell closures apart, else they are what moves.
    counts = Counter((id(lock), _key(closure)) for lock in (old, new) for closure in lock.closures)
    several = {key for (_, key), count in counts.items() if count > 1}
    before, after = (
        {_key(c) + ((c.driver, c.toolkit) if _key(c) in several else ()): c for c in lock.closures}
        for lock in (old, new)
    )
    for key in sorted({*before, *after}):
        name = " ".join(key[:3])
        have = {p.name: p.version for p in before[key].role("driver", "toolkit")} if key in before else {}
        want = {p.name: p.version for p in after[key].role("driver", "toolkit")} if key in after else {}
        for package in sorted({*have, *want}):
            one, two = have.get(package), want.get(package)
            if one != two:
                lines.append(f"{name}: {package} {one or '(not there)'} → {two or '(not there)'}")
    return tuple(lines)


def _key(closure: Closure) -> tuple[str, ...]:
    return closure.distribution, closure.arch, closure.source, closure.flavour, *closure.top
