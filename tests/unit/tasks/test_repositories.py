"""repositories: keys, sources, credentials, contradictions, lists."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from provisioner.facts.files import FileProbe, FileState
from provisioner.facts.host import System, SystemProbe
from provisioner.facts.packages import PackagesProbe, PackageState
from provisioner.facts.repositories import SecretFile, SecretFileProbe, SourcesProbe
from provisioner.model.action import Packages, RemoveFile, Run, WriteFile
from provisioner.model.change import Change, Finding, Kind, Note, Refusal
from provisioner.model.fact import Output, Probe
from provisioner.model.inventory import Repository, Secret
from provisioner.tasks.proof import assert_settles, changes, context_of, findings
from provisioner.tasks.repositories import Repositories
from tests.unit.tasks.hosts import DEBIAN, ROCKY, UBUNTU, dpkg, rpm
from tests.unit.tasks.keys import FINGERPRINT, KEY

REPO = Repository(
    name="cuda",
    uri="https://mirror.example.org/cuda/repos/{distribution}/{machine}",
    suite="/",
    key=KEY,
    fingerprint=FINGERPRINT,
)
PRIVATE = replace(
    REPO,
    name="site",
    uri="http://mirror.example.org/site/",
    suite="{codename}",
    components=("main", "contrib"),
    proxy="http://proxy.example.org:3128",
    user="gpu",
    password=Secret("mirror", "pa'ss $(word)"),
)
BASE = "==> /etc/apt/sources.list\ndeb http://archive.example.org/debian bookworm main\n\n"
READ = "archive.example.org_debian_dists_bookworm_InRelease\n"
CUDA = "mirror.example.org_cuda_repos_debian12_x86%5f64_InRelease\n"
ROOT = {"mode": 0o644, "owner": "root", "group": "root", "size": 1}


def facts(
    *repositories: Repository,
    files: dict[str, str] | None = None,
    sources: str = BASE,
    lists: str = READ,
    system: System = DEBIAN,
    state: PackageState | None = None,
    hidden: dict[str, SecretFile] | None = None,
) -> dict[Probe[Any], Any]:
    """What the task reads; `files` and `hidden` are what is there."""
    found: dict[Probe[Any], Any] = {
        SystemProbe(): system,
        PackagesProbe(): state or dpkg(""),
        SourcesProbe(): SourcesProbe().parse(Output(0, f"{sources}==> lists\n{lists}".encode())),
    }
    for probe in Repositories().probes(context_of(repositories=repositories)):
        if isinstance(probe, FileProbe):
            content = (files or {}).get(probe.path)
            found[probe] = None if content is None else FileState("file", content=content, **ROOT)  # type: ignore[arg-type]
        elif isinstance(probe, SecretFileProbe):
            found[probe] = (hidden or {}).get(probe.path)
    return found


def plan(*repositories: Repository, disable: bool = False, **more: Any) -> list[Finding]:
    task = Repositories(disable_conflicting=disable)
    return findings(task, facts(*repositories, **more), context_of(repositories=repositories))


def written(found: list[Finding]) -> dict[str, WriteFile]:
    actions = [action for finding in found if isinstance(finding, Change) for action in finding.actions]
    return {action.path: action for action in actions if isinstance(action, WriteFile)}


def test_a_repository_is_a_key_a_source_and_its_lists() -> None:
    found = changes(Repositories(), facts(REPO), context_of(repositories=(REPO,)))
    files = {path: action.content for path, action in written(list(found)).items()}
    assert files["/etc/apt/keyrings/provision-cuda.asc"] == KEY
    assert files["/etc/apt/sources.list.d/provision-cuda.sources"].splitlines()[1:] == [
        "Types: deb",
        "URIs: https://mirror.example.org/cuda/repos/debian12/x86_64",
        "Suites: /",
        "Signed-By: /etc/apt/keyrings/provision-cuda.asc",
    ]
    assert found[-1].actions == (Packages("apt", lists=("cuda",), timeout=900.0),)
    assert found[-1].requires == tuple(change.subject for change in found[:-1])
    assert_settles(
        Repositories(),
        before=facts(REPO),
        after=facts(REPO, files=files, lists=READ + CUDA),
        ctx=context_of(repositories=(REPO,)),
    )


def test_lists_that_were_never_read_are_read() -> None:
    files = {path: action.content for path, action in written(plan(REPO)).items()}
    (change,) = changes(Repositories(), facts(REPO, files=files), context_of(repositories=(REPO,)))
    assert change.actions == (Packages("apt", lists=("cuda",), timeout=900.0),)
    everything = plan(REPO, files=files, lists=CUDA)
    assert [f.actions for f in everything if isinstance(f, Change)] == [(Packages("apt", lists=("*",), timeout=900.0),)]


def test_the_vendors_spelling_of_a_distribution() -> None:
    source = written(plan(REPO, system=UBUNTU))["/etc/apt/sources.list.d/provision-cuda.sources"].content
    assert "URIs: https://mirror.example.org/cuda/repos/ubuntu2204/x86_64\n" in source
    repo = written(plan(REPO, system=ROCKY, state=rpm("")))["/etc/yum.repos.d/provision-cuda.repo"].content
    assert "baseurl=https://mirror.example.org/cuda/repos/rocky9/x86_64/\n" in repo
    assert "gpgkey=file:///etc/pki/rpm-gpg/provision-cuda.asc\n" in repo


def test_proxy_and_credentials_without_the_password_in_the_plan() -> None:
    found = plan(PRIVATE)
    files = written(found)
    assert 'Acquire::http::Proxy::mirror.example.org "http://proxy.example.org:3128";' in (
        files["/etc/apt/apt.conf.d/51provision-site"].content
    )
    secret = files["/etc/apt/auth.conf.d/provision-site.conf"]
    assert secret.mode == 0o600
    assert secret.content.endswith("machine http://mirror.example.org/site login gpu password ⟦secret:mirror⟧\n")
    assert "pa'ss" not in repr(found)
    assert "Components: main contrib\n" in files["/etc/apt/sources.list.d/provision-site.sources"].content


@pytest.mark.parametrize(
    ("change", "open_"), [({}, False), ({"mode": 0o644}, True), ({"digest": "0"}, True), ({"owner": "ops"}, True)]
)
def test_a_file_with_a_password_is_compared_by_its_digest(change: dict[str, Any], open_: bool) -> None:
    shown = written(plan(PRIVATE))["/etc/apt/auth.conf.d/provision-site.conf"].content
    real = shown.replace("⟦secret:mirror⟧", "pa'ss $(word)")
    there = replace(SecretFile(0o600, "root", hashlib.sha256(real.encode()).hexdigest()), **change)
    found = plan(PRIVATE, hidden={"/etc/apt/auth.conf.d/provision-site.conf": there})
    assert ("/etc/apt/auth.conf.d/provision-site.conf" in written(found)) is open_


@pytest.mark.parametrize(
    ("repository", "what"),
    [
        (replace(REPO, fingerprint="8793F200" * 5), "isn't the one the inventory names"),
        (replace(REPO, fingerprint=""), "has no fingerprint"),
        (replace(REPO, key=""), "has no key"),
        (replace(REPO, key="no key"), "can't be read"),
        (replace(REPO, key=KEY + KEY), "isn't the one the inventory names"),
    ],
)
def test_a_key_that_cant_be_trusted_stops_the_host(repository: Repository, what: str) -> None:
    found = plan(repository)
    (refusal,) = [finding for finding in found if isinstance(finding, Refusal)]
    assert what in refusal.what
    assert not written(found)


def test_a_fingerprint_may_have_spaces() -> None:
    spaced = replace(REPO, fingerprint=" ".join(FINGERPRINT[i : i + 4] for i in range(0, 40, 4)).lower())
    assert not [finding for finding in plan(spaced) if isinstance(finding, Refusal)]


LIST = (
    "==> /etc/apt/sources.list.d/cuda-debian12-x86_64.list\n# by hand\n"
    "deb [arch=amd64 signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] "
    "https://mirror.example.org/cuda/repos/debian12/x86_64/ /\n\n"
)


def test_the_same_repository_with_another_key_is_refused_or_disabled() -> None:
    (refusal,) = [finding for finding in plan(REPO, sources=BASE + LIST) if isinstance(finding, Refusal)]
    assert "/etc/apt/sources.list.d/cuda-debian12-x86_64.list:2 names" in refusal.what
    assert "Signed-By" in refusal.why
    found = plan(REPO, sources=BASE + LIST, disable=True)
    assert not [finding for finding in found if isinstance(finding, Refusal)]
    (change,) = [f for f in found if isinstance(f, Change) and f.kind is Kind.DELETE]
    (action,) = change.actions
    assert isinstance(action, Run)
    assert action.script.endswith("cuda-debian12-x86_64.list.disabled")
    both = LIST.rstrip("\n") + "\ndeb https://other.example.org/ stable main\n\n"
    assert [f for f in plan(REPO, sources=BASE + both, disable=True) if isinstance(f, Refusal)]


def test_contradictions_between_others_stop_apt_too_and_doubles_are_noted() -> None:
    stanza = (
        "==> /etc/apt/sources.list.d/extra.sources\n# comment\n\nTypes: deb\nURIs: http://archive.example.org/debian/\n"
        "Suites: bookworm bookworm-updates\nComponents: main\n{signed}\n"
    )
    signed = stanza.format(signed="Signed-By: /usr/share/keyrings/debian.gpg\n")
    (refusal,) = [finding for finding in plan(sources=BASE + signed) if isinstance(finding, Refusal)]
    assert "/etc/apt/sources.list:1 and /etc/apt/sources.list.d/extra.sources:3" in refusal.what
    noted = [f.text for f in plan(sources=BASE + stanza.format(signed="")) if isinstance(f, Note)]
    assert any("configured more than once" in text for text in noted)
    off = stanza.format(signed="Signed-By: /x.gpg\nEnabled: no\n")
    assert not [finding for finding in plan(sources=BASE + off) if isinstance(finding, Refusal)]


def test_a_source_of_ours_that_the_inventory_forgot_is_removed() -> None:
    old = (
        "==> /etc/apt/sources.list.d/provision-old.sources\nTypes: deb\nURIs: http://old.example.org/\nSuites: /\n"
        "Signed-By: /etc/apt/keyrings/provision-old.asc\n\n"
    )
    (change,) = [finding for finding in plan(sources=BASE + old) if isinstance(finding, Change)]
    assert RemoveFile("/etc/apt/sources.list.d/provision-old.sources") in change.actions
    assert RemoveFile("/etc/apt/auth.conf.d/provision-old.conf") in change.actions
