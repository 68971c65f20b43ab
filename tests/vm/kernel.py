"""The kernels of the guest, as packages of Debian's cloud flavour: the one that it boots, and a newer one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.lab.engine import LabError
from tests.lab.images import BASES, base_image, downloaded
from tests.lab.mirror import security_mirror

BASE = "debian12"

_RELEASE = r"6\.1\.0-[0-9]+-cloud-amd64"


@dataclass(frozen=True)
class Kernel:
    """``release`` as ``uname -r`` says it. ``image``: its package and what that needs beyond the base system;
    ``headers``: what building a module takes besides a compiler."""

    release: str
    image: tuple[Path, ...]
    headers: tuple[Path, ...]


def kernels() -> tuple[Kernel, Kernel]:
    """(the one that boots, the newer one): the two newest that the mirror has; the cache keeps them.

    Raises ``LabError`` where the mirror has but one.
    """
    debs = packages()
    releases = sorted(
        {found[1] for deb in debs if (found := re.match(rf"linux-image-({_RELEASE})_", deb.name))},
        key=lambda release: int(release.split("-")[1]),
    )
    if len(releases) != 2:
        raise LabError(f"the mirror has these cloud kernels with headers: {releases or 'none'}; two are needed")
    boots, newer = (_kernel(release, debs) for release in releases)
    return boots, newer


def packages() -> list[Path]:
    """Both kernels with their headers, make, a compiler, and what these need beyond the base system."""
    names = (
        f"for kind in image headers; do apt-cache pkgnames linux-$kind-6.1.0- | "
        f"sed -nE 's/^linux-'$kind'-({_RELEASE})$/\\1/p' | sort >/tmp/$kind; done\n"
        "newest=$(comm -12 /tmp/image /tmp/headers | sort -V | tail -n 2)\n"
    )
    fetch = "apt-get install -q -y --no-install-recommends --download-only gcc make"
    fetch += " $(for k in $newest; do echo linux-image-$k linux-headers-$k; done)\n"
    return downloaded("vm-kernels", base_image(BASE), f"{with_updates()}apt-get update -q\n{names}{fetch}")


def with_updates() -> str:
    """Shell lines that let apt of the base image see security updates as well: kernels come from there."""
    codename = BASES[BASE].codename
    uri = security_mirror()
    line = f"deb {uri} {codename}-security main"
    return f"echo '{line}' >/etc/apt/sources.list.d/updates.list\n" if uri else ""


def _kernel(release: str, debs: list[Path]) -> Kernel:
    abi = release.removesuffix("-cloud-amd64")
    return Kernel(
        release=release,
        image=tuple(_named(debs, f"linux-image-{release}", "linux-base")),
        headers=tuple(
            _named(
                debs,
                f"linux-headers-{release}",
                f"linux-headers-{abi}-common",
                r"linux-kbuild-.*",
                r"linux-compiler-.*",
            )
        ),
    )


def _named(debs: list[Path], *patterns: str) -> Iterator[Path]:
    return (deb for deb in debs if re.fullmatch("|".join(patterns), deb.name.split("_")[0]))
