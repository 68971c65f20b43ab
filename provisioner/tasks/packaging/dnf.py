"""dnf's files: repository files, keys, and what dnf-automatic leaves alone. Versions are kept by versionlock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from provisioner.facts.host import System
from provisioner.model.inventory import Repository
from provisioner.model.lock import LockedPackage
from provisioner.tasks.packaging.backend import HostFile
from provisioner.tasks.packaging.repository import HEAD, ended, filled
from provisioner.tasks.packaging.versions import rpm_compare


class Dnf:
    """The seam's dnf side."""

    manager: Literal["dnf"] = "dnf"

    def compare(self, one: str, two: str) -> int:
        """As rpm orders them."""
        return rpm_compare(one, two)

    def repository(self, repository: Repository, system: System) -> tuple[HostFile, ...]:
        """The key and the .repo file; one with a password isn't readable by others."""
        name = repository.name
        key = f"/etc/pki/rpm-gpg/provision-{name}.asc"
        uri = filled(repository.uri, system).rstrip("/") + "/"
        suite = filled(repository.suite, system).strip("/.")
        lines = [
            f"[provision-{name}]",
            f"name=provision {name}",
            f"baseurl={uri}{suite}",
            "enabled=1",
            "gpgcheck=1",
            f"gpgkey=file://{key}",
        ]
        if repository.proxy is not None:
            lines.append(f"proxy={'_none_' if repository.proxy == 'DIRECT' else repository.proxy}")
        if repository.user is not None:
            lines.append(f"username={repository.user}")
        text = HEAD + "".join(f"{line}\n" for line in lines)
        path = f"/etc/yum.repos.d/provision-{name}.repo"
        files = [HostFile(key, ended(repository.key))]
        if repository.password is None:
            return (*files, HostFile(path, text))
        shown, real = (f"{text}password={value}\n" for value in (repository.password, repository.password.value))
        return (*files, HostFile(path, shown, mode=0o600, secret=real))

    def pins(self, packages: Iterable[LockedPackage]) -> tuple[HostFile, ...]:
        """None: versionlock, set as holds of the transaction, also binds dnf-automatic."""
        return ()
