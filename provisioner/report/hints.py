"""What to type next, in one place: every follow-up command that a message names is made here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from provisioner.quoting import words
from provisioner.report.names import compress, counted
from provisioner.report.printable import one_line

if TYPE_CHECKING:
    from provisioner.model.change import Change, Deferral

REASONS = 6
"""Reasons for deferral that a summary names."""
_DETAIL = re.compile(r" \([^()]*\)")
_HOST = "\0"

FAILED_AT_LAST = "failed@last"
"""The limit expression for the hosts that failed in the last run."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """What the user typed, as far as a follow-up repeats it: `options` are words such as ("--set", "a=b"), `command`
    what stands behind `--`."""

    verb: str
    inventory: str
    options: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    def again(self, *more: str, verb: str = "") -> str:
        """The same selection with another verb or more options."""
        tail = ("--", *self.command) if self.command else ()
        return words(("provision", *(verb or self.verb).split(), self.inventory, *self.options, *more, *tail))


def for_the_failed(call: Invocation) -> str:
    """The command that repeats a run for the hosts that failed in it."""
    kept = without_limit(call)
    return kept.again("--limit", FAILED_AT_LAST)


def to_apply(call: Invocation, saved: str = "") -> str:
    """The command that does what a plan shows."""
    return call.again(*(("--plan", saved) if saved else ()), verb="apply")


def without_terminal(call: Invocation) -> str:
    """The command that needs no answer."""
    return call.again("--yes")


def waiting(changes: Iterable[tuple[str, Change]]) -> list[str]:
    """Each reason for which changes wait, most frequent first, followed by the command that does them.

    `changes` are (host, deferred change). What runs on single hosts is left out here; the plan shows it.
    """
    waits: dict[str, list[tuple[str, Deferral]]] = {}
    for host, change in changes:
        if change.deferred is not None:
            waits.setdefault(_DETAIL.sub("", change.deferred.reason), []).append((host, change.deferred))
    lines = []
    ordered = sorted(waits.items(), key=lambda item: -len(item[1]))
    for reason, cases in ordered[:REASONS]:
        hosts = {host for host, _ in cases}
        lines.append(f"{counted(len(cases), 'change')} on {counted(len(hosts), 'host')} deferred: {one_line(reason)}")
        lines += [f"  {command}" for command in commands(cases)]
    if ordered[REASONS:]:
        more = sum(len(cases) for _, cases in ordered[REASONS:])
        lines.append(f"{counted(more, 'change')} deferred for other reasons")
    return lines


def commands(cases: Iterable[tuple[str, Deferral]]) -> list[str]:
    """The commands that do deferred changes of several hosts, as few as possible: those that differ in the name of
    the host alone become one for all of these hosts."""
    alike: dict[tuple[str, ...], dict[str, str]] = {}
    for host, deferral in cases:
        if deferral.command:
            parts = tuple(_HOST if word == host else word for word in _split(deferral.command))
            alike.setdefault(parts, {})[host] = deferral.command
    made = []
    for parts, typed in alike.items():
        if len(typed) == 1 or _HOST not in parts:
            made.append(one_line(next(iter(typed.values()))))
        else:
            limit = compress(typed, ",")
            made.append(one_line(words(limit if part == _HOST else part for part in parts)))
    return made


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quote without its partner, in a path that was put in as it is
        return [command]


def bare(call: Invocation) -> Invocation:
    """The same command without its options."""
    return replace(call, options=())


def without_limit(call: Invocation) -> Invocation:
    """The same command for all hosts."""
    kept: list[str] = []
    words_left = iter(call.options)
    for word in words_left:
        if word == "--limit":
            next(words_left, None)
        else:
            kept.append(word)
    return replace(call, options=tuple(kept))
