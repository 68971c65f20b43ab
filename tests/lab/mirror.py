"""The Debian mirror that this machine itself uses, read from its apt sources at run time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.lab.engine import LabError, run

_APT = Path("/etc/apt")


def _entries() -> Iterator[tuple[str, list[str]]]:
    """(URI, suites) of every binary source of this machine."""
    for path in sorted([*_APT.glob("sources.list"), *_APT.glob("sources.list.d/*.list")]):
        for line in path.read_text().splitlines():
            found = re.match(r"deb\s+(?:\[[^]]*]\s+)?(\S+)\s+(\S+)", line)
            if found:
                yield found[1], [found[2]]
    for path in sorted(_APT.glob("sources.list.d/*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text()):
            fields = dict(re.findall(r"^(\w[\w-]*):[ \t]*(.*)$", stanza, re.M))
            if "deb" in fields.get("Types", "").split() and fields.get("Enabled", "yes") != "no":
                for uri in fields.get("URIs", "").split():
                    yield uri, fields.get("Suites", "").split()


def debian_mirror() -> str:
    """URI of the Debian archive. Raises ``LabError`` where the machine has none."""
    override = os.environ.get("PROVISION_LAB_MIRROR")
    if override:
        return override.rstrip("/")
    for uri, suites in _entries():
        plain = {"bookworm", "trixie", "stable", "testing", "sid", "forky"} & set(suites)
        if plain and uri.startswith(("http", "file", "copy")) and "security" not in uri:
            return uri.rstrip("/")
    raise LabError(
        "no Debian archive among this machine's apt sources; the lab builds its hosts from it. "
        "Name one with PROVISION_LAB_MIRROR=URI."
    )


def security_mirror() -> str | None:
    """URI of the archive of security updates, which holds every release's; None where this machine uses none."""
    for uri, suites in _entries():
        if uri.startswith(("http", "file", "copy")) and any(suite.endswith("-security") for suite in suites):
            return uri.rstrip("/")
    return None


def suite_exists(suite: str) -> bool:
    """Whether the mirror carries the suite (a backports or sid suite may be gone)."""
    try:
        with urlopen(f"{debian_mirror()}/dists/{suite}/InRelease", timeout=30) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def apt_options() -> list[str]:
    """This machine's proxy and validity settings, as ``NAME "value";`` lines for another apt."""
    wanted = re.compile(r"^Acquire::(?:https?::.*[Pp]roxy|Check-Valid-Until|Check-Date)\b")
    return [line for line in run(["apt-config", "dump"]).splitlines() if wanted.match(line) and '""' not in line]
