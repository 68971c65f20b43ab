"""What a repository's files have in common in apt and dnf."""

from __future__ import annotations

from provisioner.facts.host import System

HEAD = "# Written by provision; it follows the inventory.\n"


def filled(text: str, system: System) -> str:
    """{distribution}, {codename}, {arch} and {machine} of a URI or suite, from facts.

    {distribution} is written as in the vendor's paths: debian12, ubuntu2204, rhel9.
    """
    version = system.version if system.family == "debian" else system.version.partition(".")[0]
    values = {
        "distribution": system.id + version.replace(".", ""),
        "codename": system.codename,
        "arch": system.arch,
        "machine": system.machine,
    }
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def ended(text: str) -> str:
    """The text with a line end at its end."""
    return text if text.endswith("\n") else text + "\n"
