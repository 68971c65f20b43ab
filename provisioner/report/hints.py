"""What to type next, in one place: every follow-up command that a message names is made here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provisioner.quoting import words
from provisioner.report.names import counted
from provisioner.report.printable import one_line

if TYPE_CHECKING:
    from provisioner.model.change import Change

FAILED_AT_LAST = "failed@last"
"""The limit expression for the hosts that failed in the last run."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """What the user typed, as far as a follow-up repeats it: `options` are words such as ("--set", "a=b")."""

    verb: str
    inventory: str
    options: tuple[str, ...] = ()

    def again(self, *more: str, verb: str = "") -> str:
        """The same selection with another verb or more options."""
        return words(("provision", *(verb or self.verb).split(), self.inventory, *self.options, *more))


def for_the_failed(call: Invocation) -> str:
    """The command that repeats a run for the hosts that failed in it."""
    kept = _without_limit(call)
    return kept.again("--limit", FAILED_AT_LAST)


def to_apply(call: Invocation, saved: str = "") -> str:
    """The command that does what a plan shows."""
    return call.again(*(("--plan", saved) if saved else ()), verb="apply")


def without_terminal(call: Invocation, tail: tuple[str, ...] = ()) -> str:
    """The command that needs no answer; `tail` are words that must stand last."""
    return call.again("--yes", *tail)


def waiting(changes: Iterable[tuple[str, Change]]) -> list[str]:
    """Each reason for which changes wait, most frequent first, followed by the command that does them.

    `changes` are (host, deferred change).
    """
    waits: dict[str, list[tuple[str, str]]] = {}
    for host, change in changes:
        if change.deferred is not None:
            waits.setdefault(change.deferred.reason, []).append((host, change.deferred.command))
    lines = []
    for reason, cases in sorted(waits.items(), key=lambda item: -len(item[1])):
        hosts = {host for host, _ in cases}
        lines.append(f"{counted(len(cases), 'change')} on {counted(len(hosts), 'host')} deferred: {one_line(reason)}")
        commands = list(dict.fromkeys(command for _, command in cases if command))
        if commands:
            more = f"   (and {len(commands) - 1} like it for other hosts)" if commands[1:] else ""
            lines.append(f"  {one_line(commands[0])}{more}")
    return lines


def _without_limit(call: Invocation) -> Invocation:
    kept: list[str] = []
    words_left = iter(call.options)
    for word in words_left:
        if word == "--limit":
            next(words_left, None)
        else:
            kept.append(word)
    return Invocation(call.verb, call.inventory, tuple(kept))
