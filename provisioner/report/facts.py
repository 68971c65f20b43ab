"""What was read from hosts, as dotted names; and what differs between hosts, or since an earlier reading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.report.inventory import shown
from provisioner.report.names import compress, counted
from provisioner.report.paint import PLAIN, Paint
from provisioner.report.printable import one_line

HostFacts = Mapping[str, Any]

OWN = (
    "hostname",
    "identity",
    "machine_id",
    "boot",
    "boot_id",
    "boot_time",
    "uptime",
    "workload",
    "uuid",
    "serial",
    "time",
)
"""Last or first parts of a dotted name whose values differ between healthy hosts by their nature."""

ALIKE = ("driver", "toolkit", "modules", "self_test")
"""First parts of names on which all hosts must agree, whatever their distribution."""

MISSING = "(not there)"


@dataclass(frozen=True, slots=True)
class Difference:
    """One dotted name for which hosts hold different values: (value, hosts), the commonest first."""

    name: str
    values: tuple[tuple[str, tuple[str, ...]], ...]


def flat(facts: Any, before: str = "") -> dict[str, str]:
    """Dotted name → value on one line. Arrays count as one value, except arrays of tables, which are numbered."""
    if isinstance(facts, Mapping) and facts.keys() == {"unknown"}:
        return {before: f"unknown: {shown(facts['unknown'])}"}
    if isinstance(facts, Mapping):
        parts: Iterable[tuple[str, Any]] = ((str(key), value) for key, value in facts.items())
    elif isinstance(facts, list | tuple) and any(isinstance(item, Mapping) for item in facts):
        parts = ((str(number), value) for number, value in enumerate(facts))
    else:
        return {before: "-" if facts is None else "none" if facts in ([], ()) else shown(facts, 100)}
    found: dict[str, str] = {}
    for key, value in parts:
        found |= flat(value, f"{before}.{key}" if before else key)
    return found


def render(facts: Mapping[str, HostFacts], paint: Paint = PLAIN) -> str:
    """All facts, hosts with equal ones together. What a host has of its own counts as equal and is left out for
    groups of more than one."""
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for host, values in facts.items():
        alike.setdefault(tuple(sorted(item for item in flat(values).items() if not own(item[0]))), []).append(host)
    lines: list[str] = []
    for common, hosts in alike.items():
        values = flat(facts[hosts[0]]) if len(hosts) == 1 else dict(common)
        lines.append(f"{paint('bold', one_line(compress(hosts)))}  {counted(len(hosts), 'host')}")
        width = max(map(len, values), default=0)
        lines += [f"  {one_line(name):<{width}}  {value}" for name, value in values.items()]
    return "\n".join(lines) + "\n" if lines else "no facts\n"


def own(name: str) -> bool:
    """Whether a dotted name is one of those that differ between healthy hosts."""
    parts = name.split(".")
    return any(part in OWN for part in parts)


def follows_distribution(name: str, flattened: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether hosts of one distribution agree on it: containerd's version, for one, comes with the distribution."""
    values: dict[str, set[str]] = {}
    for facts in flattened.values():
        values.setdefault(facts.get("system.distribution", ""), set()).add(facts.get(name, MISSING))
    return all(len(found) == 1 for found in values.values())


def between(facts: Mapping[str, HostFacts]) -> tuple[Difference, ...]:
    """What differs between hosts, left out what must."""
    flattened = {host: flat(values) for host, values in facts.items()}
    names = dict.fromkeys(name for values in flattened.values() for name in values if not own(name))
    found = []
    for name in names:
        if name.partition(".")[0] not in ALIKE and follows_distribution(name, flattened):
            continue
        holders: dict[str, list[str]] = {}
        for host, values in flattened.items():
            holders.setdefault(values.get(name, MISSING), []).append(host)
        if len(holders) > 1:
            ordered = sorted(holders.items(), key=lambda item: -len(item[1]))
            found.append(Difference(name, tuple((value, tuple(hosts)) for value, hosts in ordered)))
    return tuple(found)


def since(saved: HostFacts, now: HostFacts) -> dict[str, tuple[str, str]]:
    """Dotted name → (then, now) of what moved on one host; the boot counts, what runs doesn't."""
    then, today = flat(saved), flat(now)
    names = dict.fromkeys([*then, *today])
    moved = {}
    for name in names:
        pair = then.get(name, MISSING), today.get(name, MISSING)
        if pair[0] != pair[1] and not ({"workload", "uptime"} & set(name.split("."))):
            moved[name] = pair
    return moved


def differences_text(found: Iterable[Difference], paint: Paint = PLAIN) -> list[str]:
    """One block a difference: the name, then each value with its hosts."""
    lines: list[str] = []
    for difference in found:
        lines.append(paint("bold", one_line(difference.name)))
        width = max(len(value) for value, _ in difference.values)
        lines += [
            f"  {value:<{width}}  {counted(len(hosts), 'host')}: {one_line(compress(hosts))}"
            for value, hosts in difference.values
        ]
    return lines
