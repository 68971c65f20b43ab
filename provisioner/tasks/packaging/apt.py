"""apt's files: deb822 sources, keys, credentials, proxies, preferences and the automatic-update blacklist."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal
from urllib.parse import urlsplit

from provisioner.facts.host import System
from provisioner.model.inventory import Repository
from provisioner.model.lock import LockedPackage
from provisioner.tasks.packaging.backend import HostFile
from provisioner.tasks.packaging.names import AUTOMATIC_UPDATE_PREFIXES
from provisioner.tasks.packaging.repository import HEAD, ended, filled
from provisioner.tasks.packaging.versions import deb_compare

PREFERENCES = "/etc/apt/preferences.d/provision-nvidia"
AUTOMATIC_UPDATES = "/etc/apt/apt.conf.d/52provision-nvidia"
PRIORITY = 1000
"""apt downgrades without being asked above 1000 (apt_preferences(5)), so never more."""


class Apt:
    """The seam's apt side."""

    manager: Literal["apt"] = "apt"

    def compare(self, one: str, two: str) -> int:
        """As dpkg orders them."""
        return deb_compare(one, two)

    def repository(self, repository: Repository, system: System) -> tuple[HostFile, ...]:
        """The files that make up one repository, the key first."""
        name = repository.name
        files = [
            HostFile(key_path(name), ended(repository.key)),
            HostFile(f"/etc/apt/sources.list.d/provision-{name}.sources", sources(repository, system)),
        ]
        if repository.proxy is not None:
            files.append(HostFile(f"/etc/apt/apt.conf.d/51provision-{name}", proxy(repository, system)))
        if repository.user is not None:
            reference = repository.password.reference if repository.password else ""
            value = repository.password.value if repository.password else ""
            files.append(
                HostFile(
                    f"/etc/apt/auth.conf.d/provision-{name}.conf",
                    credentials(repository, system, reference),
                    mode=0o600,
                    secret=credentials(repository, system, value),
                )
            )
        return tuple(files)

    def pins(self, packages: Iterable[LockedPackage]) -> tuple[HostFile, ...]:
        """Preferences for the exact versions, and what automatic updates must leave alone."""
        held = sorted(packages)
        stanzas = [
            f"Package: {package.name}\nPin: version {package.version}\nPin-Priority: {PRIORITY}\n" for package in held
        ]
        patterns = [*AUTOMATIC_UPDATE_PREFIXES]
        patterns += [f"{package.name}$" for package in held if not package.name.startswith(AUTOMATIC_UPDATE_PREFIXES)]
        blacklist = "".join(f'    "{pattern}";\n' for pattern in patterns)
        return (
            HostFile(PREFERENCES, HEAD + "\n".join(stanzas)),
            HostFile(
                AUTOMATIC_UPDATES,
                HEAD.replace("#", "//") + f"Unattended-Upgrade::Package-Blacklist {{\n{blacklist}}};\n",
            ),
        )


def key_path(name: str) -> str:
    """Where a repository's signing key lies."""
    return f"/etc/apt/keyrings/provision-{name}.asc"


def sources(repository: Repository, system: System, key: str = "") -> str:
    """The deb822 stanza. `key` another path of the key than the host's own (an isolated root)."""
    lines = [
        "Types: deb",
        f"URIs: {filled(repository.uri, system)}",
        f"Suites: {filled(repository.suite, system)}",
        f"Components: {' '.join(repository.components)}",
        f"Signed-By: {key or key_path(repository.name)}",
    ]
    return HEAD + "".join(f"{line}\n" for line in lines if not line.endswith(": "))


def proxy(repository: Repository, system: System) -> str:
    """apt.conf lines that send this repository's host through its proxy ("DIRECT" for none)."""
    host = urlsplit(filled(repository.uri, system)).hostname or ""
    return HEAD.replace("#", "//") + "".join(
        f'Acquire::{scheme}::Proxy::{host} "{repository.proxy}";\n' for scheme in ("http", "https")
    )


def credentials(repository: Repository, system: System, password: str) -> str:
    """A netrc-like line for apt_auth.conf(5)."""
    parts = urlsplit(filled(repository.uri, system))
    # Without a scheme apt sends a password over https only.
    scheme = "http://" if parts.scheme == "http" else ""
    return f"{HEAD}machine {scheme}{parts.netloc}{parts.path.rstrip('/')} login {repository.user} password {password}\n"
