"""The packages action as sh: try without doing, fetch, install, check what is there, hold; holds survive a failure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import resources

from provisioner.errors import ConfigError
from provisioner.model.action import Packages
from provisioner.quoting import quote

LOCK_WAIT = 300
"""Seconds to wait for another process that holds the package manager's lock."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*(:[a-z0-9]+)?")
VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~:^_-]*")
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*|\*")


def compile_packages(action: Packages) -> str:
    """A POSIX sh script that does the action as root; status 0 means done, else standard error says why.

    It runs in a shell of its own (it sets traps and exits). Raises ConfigError for a name, version or repository
    that can't be one: each becomes a word of apt's or dnf's command line, where a leading hyphen or a trailing
    one would mean something else.
    """
    values = {
        "install": _lines(_wanted(name, version) for name, version in action.install),
        "remove": _lines(_checked(name, NAME, "package name") for name in action.remove),
        "hold": _lines(_checked(name, NAME, "package name") for name in action.hold),
        "unhold": _lines(_checked(name, NAME, "package name") for name in action.unhold),
        "lists": _lines(_checked(name, REPOSITORY, "repository name") for name in action.lists),
        "downgrade": "yes" if action.allow_downgrade else "",
        "cache": action.cache,
        "lock_wait": str(int(min(LOCK_WAIT, action.timeout / 2))),
    }
    assignments = "".join(f"{name}={quote(value)}\n" for name, value in values.items())
    body = resources.files("provisioner.engine").joinpath(f"packages_{action.manager}.sh").read_text(encoding="utf-8")
    return assignments + body


def _wanted(name: str, version: str | None) -> str:
    checked = _checked(name, NAME, "package name")
    return checked if version is None else f"{checked}={_checked(version, VERSION, 'version')}"


def _checked(value: str, pattern: re.Pattern[str], what: str) -> str:
    if not pattern.fullmatch(value) or value.endswith("-"):
        raise ConfigError(f"{value!r} is not a {what}", remedy="correct it in the inventory, the playbook or the lock")
    return value


def _lines(values: Iterable[str]) -> str:
    return "\n".join(values)
