"""A signed apt repository made of .deb files."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from email.utils import formatdate
from pathlib import Path

from tests.lab.engine import run
from tests.lab.paths import KEYS

#: suite → component → packages
Suites = Mapping[str, Mapping[str, Iterable[Path]]]


def publish(root: Path, suites: Suites, *, origin: str, label: str) -> None:
    """Write pool and indices of a repository below ``root`` and sign them with the lab's key."""
    stanzas: dict[Path, str] = {}
    for suite, components in suites.items():
        dist = root / "dists" / suite
        indices: dict[str, bytes] = {}
        for component, debs in components.items():
            text = "".join(_entry(root, deb, component, stanzas) for deb in sorted(debs))
            where = f"{component}/binary-amd64/Packages"
            indices[where] = text.encode()
            indices[where + ".gz"] = gzip.compress(text.encode(), mtime=0)
        for where, content in indices.items():
            (dist / where).parent.mkdir(parents=True, exist_ok=True)
            (dist / where).write_bytes(content)
        (dist / "Release").write_text(_release(suite, list(components), indices, origin, label))
        sign(dist)


def _entry(root: Path, deb: Path, component: str, stanzas: dict[Path, str]) -> str:
    pooled = root / "pool" / component / deb.name
    if not pooled.exists():
        pooled.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(deb, pooled)
        except OSError:
            shutil.copyfile(deb, pooled)
        pooled.chmod(0o644)
    if pooled not in stanzas:
        content = pooled.read_bytes()
        stanzas[pooled] = (
            run(["dpkg-deb", "-f", pooled]).strip()
            + f"\nFilename: pool/{component}/{deb.name}\nSize: {len(content)}\n"
            + f"SHA256: {hashlib.sha256(content).hexdigest()}\n\n"
        )
    return stanzas[pooled]


def _release(suite: str, components: list[str], indices: Mapping[str, bytes], origin: str, label: str) -> str:
    sums = "".join(
        f" {hashlib.sha256(content).hexdigest()} {len(content)} {where}\n" for where, content in indices.items()
    )
    return (
        f"Origin: {origin}\nLabel: {label}\nSuite: {suite}\nCodename: {suite}\nDate: {formatdate(usegmt=True)}\n"
        f"Architectures: amd64\nComponents: {' '.join(components)}\nSHA256:\n{sums}"
    )


def sign(dist: Path, secret: Path | None = KEYS / "repo-secret.asc") -> None:
    """Sign the Release file in ``dist`` (InRelease and Release.gpg); with None, by a key that nobody knows."""
    with tempfile.TemporaryDirectory(prefix="provision-lab-gpg-") as home:
        gpg = ["gpg", "--batch", "--quiet", "--yes", "--homedir", home]
        if secret is None:
            run([*gpg, "--passphrase", "", "--quick-gen-key", "Stranger", "ed25519", "sign", "never"])
        else:
            run([*gpg, "--import", secret])
        run([*gpg, "--clearsign", "-o", dist / "InRelease", dist / "Release"])
        run([*gpg, "--armor", "--detach-sign", "-o", dist / "Release.gpg", dist / "Release"])
        run(["gpgconf", "--homedir", home, "--kill", "all"])
