"""Package sources on a host that contradict each other or the inventory's repositories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from provisioner.facts.host import System
from provisioner.facts.repositories import Source, Sources, plain_uri
from provisioner.model.action import Run
from provisioner.model.change import Change, Finding, Kind, Note, Refusal
from provisioner.model.inventory import Repository
from provisioner.quoting import quote
from provisioner.tasks.packaging.repository import filled

OURS = "/etc/apt/sources.list.d/provision-"


def conflicts(
    sources: Sources, repositories: Sequence[Repository], system: System, *, disable: bool
) -> Iterator[Finding]:
    """apt refuses all work when one repository (URI and suite) is named with two different keys; every finding here
    is such a pair, or a note about an entry that is merely double. With `disable`, a file that holds nothing but
    entries in the way is renamed."""
    entries = [entry for entry in sources.entries if entry.enabled and not entry.path.startswith(OURS)]
    wanted = {
        (plain_uri(filled(repository.uri, system)), _suite(filled(repository.suite, system))): repository
        for repository in repositories
    }
    clashing: dict[str, list[Source]] = defaultdict(list)
    for entry in entries:
        if (entry.uri, _suite(entry.suite)) in wanted:
            clashing[entry.path].append(entry)
    for path, there in clashing.items():
        name = wanted[there[0].uri, _suite(there[0].suite)].name
        if disable and len(there) == sum(entry.path == path for entry in entries):
            yield Change(
                subject=path,
                summary=f"renamed to {path}.disabled: it names repository {name} with another key",
                kind=Kind.DELETE,
                actions=(Run(f"mv -f {quote(path)} {quote(path + '.disabled')}", f"disable {path}"),),
            )
        else:
            yield Refusal(
                path,
                f"{there[0].place} names {there[0].uri} {there[0].suite} too, with another key",
                'apt would stop with "Conflicting values set for option Signed-By"',
                "remove that entry, or set disable_conflicting = true on the task `repositories`",
            )
    yield from _among_others(entries, set(clashing))
    hosts = {uri for uri, _ in wanted}
    for entry in entries:
        if entry.uri in hosts and entry.path not in clashing:
            yield Note(entry.path, f"{entry.place} also uses {entry.uri}, with suite {entry.suite}")


def _among_others(entries: Sequence[Source], known: set[str]) -> Iterator[Finding]:
    """Contradictions between entries that aren't ours."""
    same: dict[tuple[str, str], list[Source]] = defaultdict(list)
    for entry in entries:
        if entry.path not in known:
            same[entry.uri, _suite(entry.suite)].append(entry)
    for (uri, suite), group in same.items():
        places = " and ".join(entry.place for entry in group)
        if len({entry.signed_by for entry in group}) > 1:
            yield Refusal(
                group[0].path,
                f"{uri} {suite} is named with different keys: {places}",
                'apt stops with "Conflicting values set for option Signed-By", for every repository',
                "remove the entry that is out of date",
            )
        elif any(set(a.components) & set(b.components) or not a.components for a in group for b in group if a is not b):
            yield Note(group[0].path, f"{uri} {suite} is configured more than once: {places}")


def _suite(suite: str) -> str:
    """One spelling for the root of a flat repository."""
    return "/" if suite in ("/", "./") else suite
