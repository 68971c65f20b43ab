"""Task `repositories`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from provisioner.facts.files import FileProbe, FileState
from provisioner.facts.host import System, SystemProbe
from provisioner.facts.packages import PackagesProbe
from provisioner.facts.repositories import SecretFile, SecretFileProbe, Sources, SourcesProbe
from provisioner.model.action import Packages, RemoveFile, WriteFile
from provisioner.model.change import Change, Finding, Kind, Note
from provisioner.model.fact import Facts, Probe
from provisioner.model.inventory import Repository
from provisioner.tasks.context import Context
from provisioner.tasks.packaging.apt import key_path
from provisioner.tasks.packaging.backend import Backend, HostFile
from provisioner.tasks.packaging.choose import BACKENDS, backend_for
from provisioner.tasks.packaging.conflicts import OURS, conflicts
from provisioner.tasks.packaging.keys import key_refusal
from provisioner.tasks.packaging.repository import filled
from provisioner.tasks.task import Task, task

NO_SYSTEM = System("", "", (), "", "", "", "")
"""Which files a repository has, and which of them hold a secret, doesn't depend on the host's system."""


@task("repositories")
class Repositories(Task):
    """The inventory's package repositories, each with its key, and their lists fetched.

    For each `[repositories.NAME]`: the key (checked against its fingerprint before anything is planned), the source
    that is signed by this key alone, proxy and credentials where given. A source file of ours that the inventory
    no longer names is removed. Another entry for the same repository makes apt refuse all work; with
    `disable_conflicting = true` a file that holds nothing else is renamed to FILE.disabled, else it is reported.

        [[stages.tasks]]
        task = "repositories"
        disable_conflicting = true
    """

    disable_conflicting: bool = False

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield from (SystemProbe(), PackagesProbe(), SourcesProbe())
        for backend in BACKENDS.values():
            for repository in ctx.repositories:
                for file in backend.repository(repository, NO_SYSTEM):
                    yield SecretFileProbe(file.path) if file.secret else FileProbe(file.path)

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        system = facts.need(SystemProbe())
        backend = backend_for(facts.need(PackagesProbe()))
        sources = facts.get(SourcesProbe()) or Sources()
        if not ctx.repositories:
            yield Note("repositories", "the inventory names none: packages come from what the host has configured")
        changes: list[Change] = []
        for repository in ctx.repositories:
            refusal = key_refusal(repository)
            if refusal is not None:
                yield refusal
                continue
            changes += _files(repository, backend, system, facts)
        changes += _forgotten(sources, ctx.repositories)
        for finding in conflicts(sources, ctx.repositories, system, disable=self.disable_conflicting):
            if isinstance(finding, Change):
                changes.append(finding)
            else:
                yield finding
        yield from changes
        lists = _lists(changes, sources, ctx.repositories, system, backend)
        if lists is not None:
            yield lists


def _files(repository: Repository, backend: Backend, system: System, facts: Facts) -> Iterator[Change]:
    for file in backend.repository(repository, system):
        if file.secret:
            hidden = facts.get(SecretFileProbe(file.path))
            if _hidden_differs(hidden, file):
                yield _write(file, repository, exists=hidden is not None, before=None)
        else:
            there = facts.get(FileProbe(file.path))
            if _differs(there, file):
                yield _write(file, repository, exists=there is not None, before=there.content if there else None)


def _differs(there: FileState | None, file: HostFile) -> bool:
    return there is None or there.content != file.content or there.mode & 0o444 != 0o444


def _hidden_differs(there: SecretFile | None, file: HostFile) -> bool:
    digest = hashlib.sha256(file.secret.encode()).hexdigest()
    return there is None or (there.digest, there.mode, there.owner) != (digest, file.mode, "root")


def _write(file: HostFile, repository: Repository, *, exists: bool, before: str | None) -> Change:
    return Change(
        subject=file.path,
        summary=f"repository {repository.name}",
        kind=Kind.UPDATE if exists else Kind.CREATE,
        # apt reads sources and keys as another user
        actions=(WriteFile(file.path, file.content, mode=file.mode or 0o644, owner="root", group="root"),),
        before=before,
        after=file.content,
    )


def _forgotten(sources: Sources, repositories: tuple[Repository, ...]) -> Iterator[Change]:
    """Source files of ours that the inventory no longer names."""
    names = {repository.name for repository in repositories}
    for path in sorted({entry.path for entry in sources.entries if entry.path.startswith(OURS)}):
        name = path.removeprefix(OURS).removesuffix(".sources")
        if name not in names:
            rest = (
                key_path(name),
                f"/etc/apt/apt.conf.d/51provision-{name}",
                f"/etc/apt/auth.conf.d/provision-{name}.conf",
            )
            yield Change(
                subject=path,
                summary=f"the inventory no longer names repository {name}",
                kind=Kind.DELETE,
                # The source last: while it is there, a run that was cut off finds the rest again.
                actions=tuple(RemoveFile(file) for file in (*rest, path)),
            )


def _lists(
    changes: list[Change],
    sources: Sources,
    repositories: tuple[Repository, ...],
    system: System,
    backend: Backend,
) -> Change | None:
    """Reading lists anew: of repositories that are new, changed or were never read; all when others never were."""
    touched = {change.summary.removeprefix("repository ") for change in changes if change.kind is not Kind.DELETE}
    stale = [
        repository.name
        for repository in repositories
        if repository.name in touched
        or (
            backend.manager == "apt"
            and not sources.fetched(filled(repository.uri, system), filled(repository.suite, system))
        )
    ]
    others = [entry for entry in sources.entries if entry.enabled and not entry.path.startswith(OURS)]
    unread = bool(others) and not any(sources.fetched(entry.uri, entry.suite) for entry in others)
    if not stale and not unread:
        return None
    return Change(
        subject="package lists",
        summary=f"read the lists of {'all repositories' if unread else ', '.join(stale)}",
        kind=Kind.RUN,
        actions=(Packages(backend.manager, lists=("*",) if unread else tuple(stale), timeout=900.0),),
        requires=tuple(change.subject for change in changes),
    )
