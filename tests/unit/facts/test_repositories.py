"""apt's sources and the names of its list files."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioner.facts.repositories import SecretFileProbe, Source, SourcesProbe, list_name, plain_uri
from provisioner.model.fact import Absent, Known
from tests.unit.facts.shell import ask, put

FILES = {
    "/etc/apt/sources.list": "# deb http://off.example.org/ x main\ndeb-src http://a.example.org/ bookworm main\n",
    "/etc/apt/sources.list.d/a.list": "deb [ arch=amd64 Signed-By=/k.gpg ] http://u:pw@b.example.org/r/ ./ # comment\n",
    "/etc/apt/sources.list.d/b.sources": (
        "Types: deb deb-src\nURIs: http://c.example.org/debian\n  http://d.example.org/debian\nSuites: bookworm\n"
        "Components: main contrib\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n\n\n"
        "# off\nEnabled: no\nTypes: deb\nURIs: http://e.example.org/\nSuites: /\n"
    ),
    "/etc/apt/sources.list.d/c.list.disabled": "deb http://f.example.org/ x main\n",
    "/var/lib/apt/lists/b.example.org_r_._InRelease": "",
    "/var/lib/apt/lists/lock": "",
}


def test_entries_of_both_formats(tmp_path: Path) -> None:
    put(tmp_path, FILES)
    fact = ask(SourcesProbe(), tmp_path)
    assert isinstance(fact, Known)
    there = f"{tmp_path}/etc/apt/sources.list.d"
    assert fact.value.entries == (
        Source(f"{there}/a.list", 1, "http://b.example.org/r/", "./", (), "/k.gpg"),
        Source(f"{there}/b.sources", 1, "http://c.example.org/debian/", "bookworm", ("main", "contrib"), "(embedded)"),
        Source(f"{there}/b.sources", 1, "http://d.example.org/debian/", "bookworm", ("main", "contrib"), "(embedded)"),
        Source(f"{there}/b.sources", 13, "http://e.example.org/", "/", (), "", False),
    )
    assert fact.value.fetched("http://b.example.org/r", "./")
    assert not fact.value.fetched("http://c.example.org/debian", "bookworm")


def test_a_host_without_apt(tmp_path: Path) -> None:
    assert ask(SourcesProbe(), tmp_path) == Absent()


@pytest.mark.parametrize(
    ("uri", "suite", "name"),
    [
        ("http://archive.example.org/debian", "bookworm", "archive.example.org_debian_dists_bookworm_"),
        (
            "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64/",
            "/",
            "developer.download.nvidia.com_compute_cuda_repos_ubuntu2204_x86%5f64_",
        ),
        ("file:/srv/repo", "debian12", "_srv_repo_dists_debian12_"),
        ("http://user:pw@mirror.example.org:8080/x", "sub/", "mirror.example.org:8080_x_sub_"),
    ],
)
def test_names_of_lists_as_apt_makes_them(uri: str, suite: str, name: str) -> None:
    assert list_name(uri, suite) == name


def test_a_password_is_no_part_of_a_uri() -> None:
    assert plain_uri("http://user:pw@mirror.example.org/x") == "http://mirror.example.org/x/"


def test_a_secret_file_is_told_by_its_digest(tmp_path: Path) -> None:
    put(tmp_path, {"/etc/apt/auth.conf.d/a.conf": "password"})
    fact = ask(SecretFileProbe("/etc/apt/auth.conf.d/a.conf"), tmp_path)
    assert isinstance(fact, Known)
    assert fact.value.digest == "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"
    assert ask(SecretFileProbe("/etc/apt/auth.conf.d/b.conf"), tmp_path) == Absent()
