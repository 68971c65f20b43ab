"""`--limit EXPR`: which of the inventory's hosts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from provisioner.config.document import suggestion
from provisioner.config.inventory import EVERY
from provisioner.config.ranges import expand, is_range
from provisioner.errors import UsageError
from provisioner.model.inventory import Host, Inventory

FAILED = "failed@last"
"""The hosts that failed in the last run with this inventory."""


def select(
    inventory: Inventory, expression: str | None, last_failed: Collection[str] | None = None
) -> tuple[Host, ...]:
    """The hosts of a limit, in the inventory's order; None means all.

    Parts are separated by commas: host names, ranges (`gpu[01-04,07]`), globs (`gpu*`, `rack[1-2]-*`),
    groups, `all`, `failed@last` (`last_failed`: those hosts; None where there was no run), and `!PART` to take hosts
    out again. Only exclusions: all hosts but those. Raises UsageError when a part, or the whole, matches no host.
    """
    if expression is None:
        return inventory.hosts
    names = {host.name: host for host in inventory.hosts}
    taken: set[str] = set()
    left_out: set[str] = set()
    parts = [part.strip() for part in re.split(r",(?![^\[]*\])", expression) if part.strip()]
    if not parts:  # an empty variable in somebody's script must not mean every host
        raise UsageError("--limit names no host", remedy="leave it out, or say --limit all")
    for part in parts:
        target = left_out if part.startswith("!") else taken
        target |= _matching(part.removeprefix("!"), names, inventory.groups, last_failed)
    if all(part.startswith("!") for part in parts):
        taken = set(names)
    chosen = tuple(host for host in inventory.hosts if host.name in taken - left_out)
    if not chosen:
        raise UsageError(f"--limit {expression} leaves no host", why="what it names, it also takes out")
    return chosen


def _matching(
    part: str, hosts: Mapping[str, Host], groups: Mapping[str, tuple[str, ...]], last_failed: Collection[str] | None
) -> set[str]:
    if part == FAILED:
        return _failed(hosts, last_failed)
    if part == EVERY:
        return set(hosts)
    if part in hosts:
        return {part}
    if part in groups:
        if not groups[part]:
            raise UsageError(f"--limit: the group {part!r} has no hosts")
        return set(groups[part])
    candidates = [*hosts, *groups, EVERY]
    try:
        wanted = [member.name for member in expand(part)] if is_range(part) else [part]
    except ValueError as error:
        raise UsageError(f"--limit: {part!r} doesn't name hosts", why=str(error)) from None
    found: set[str] = set()
    for name in wanted:
        matching = {host for host in hosts if fnmatchcase(host, name)}
        if not matching:
            raise UsageError(
                f"--limit {part}: {name!r} is neither a host nor a group",
                why=suggestion(name, candidates),
                remedy="`provision inventory list` shows hosts and groups",
            )
        found |= matching
    return found


def _failed(hosts: Mapping[str, Host], last_failed: Collection[str] | None) -> set[str]:
    if last_failed is None:
        raise UsageError(f"--limit {FAILED}: there is no earlier run of this inventory")
    found = set(last_failed) & set(hosts)
    if not found:
        gone = ", ".join(sorted(last_failed))
        why = f"the hosts that failed aren't in the inventory any more: {gone}" if gone else "no host failed in it"
        raise UsageError(f"--limit {FAILED}: the last run leaves nothing to select", why=why)
    return found
