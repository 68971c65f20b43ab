"""The options of `provision upgrade-driver`, what they exclude, and what they come to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast

import click

from provisioner.cli.durations import option as duration
from provisioner.errors import UsageError
from provisioner.model.upgrade import RollOptions
from provisioner.report.names import spelled

F = TypeVar("F", bound=Callable[..., Any])
Mode = Literal["roll", "resume", "status", "abort"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for. `pace` is a number of nodes or a percentage, which `options` can't hold: see `sized`.
    `words` are the options that a follow-up command repeats."""

    mode: Mode
    options: RollOptions
    pace: str = "1"
    to: str | None = None
    toolkit: str | None = None
    dry_run: bool = False
    yes: bool = False
    words: tuple[str, ...] = ()

    def sized(self, hosts: int) -> RollOptions:
        """The options for an inventory of which `hosts` are selected."""
        from provisioner.upgrade.schedule import at_once

        return replace(self.options, max_unavailable=at_once(self.pace, hosts))


_WHAT = (
    click.option("--to", metavar="VERSION", help="Write this driver version to the inventory, lock it, and go there."),
    click.option("--toolkit", metavar="VERSION", help="The same for the toolkit, in place of the driver."),
    click.option("--deferred", is_flag=True, help="Do the restarts and reboots that `apply` deferred."),
)
_PACE = (
    click.option("--one-at-a-time", is_flag=True, help="One node after the other (the default)."),
    click.option("--max-unavailable", metavar="N|P%", help="So many nodes at once."),
    click.option("--canary", metavar="HOST", help="This host first, then stop and ask."),
    click.option("--soak", type=duration, metavar="D", help="Watch the canary so long before going on.  [default: 0]"),
    click.option("--order", metavar="GROUP,...", help="Groups in this order; names control planes, which go last."),
    click.option("--max-failures", type=click.IntRange(0), metavar="N", help="Go on after so many.  [default: 0]"),
    click.option("--window", metavar="SPAN", help='Begin nodes only then: "Sat 02:00-06:00 Europe/Berlin".'),
    click.option("--pause-between", type=duration, metavar="D", help="Wait between nodes.  [default: 0]"),
)
_NODE = (
    click.option(
        "--reboot",
        type=click.Choice(["auto", "always", "never"]),
        help="auto: only where loading the driver isn't enough.  [default: auto]",
    ),
    click.option("--reboot-timeout", type=duration, metavar="D", help="Wait so long for a host.  [default: 15m]"),
    click.option(
        "--drain",
        type=click.Choice(["gpu-pods", "full"]),
        help="Evict pods that use cards, or all.  [default: gpu-pods]",
    ),
    click.option("--drain-timeout", type=duration, metavar="D", help="Then leave the node as it was.  [default: 15m]"),
    click.option("--wait-for-jobs", metavar="SELECTOR", help="Pods to wait for before evicting any."),
    click.option("--job-timeout", type=duration, metavar="D", help="Wait so long for them; 0: no end.  [default: 0]"),
    click.option(
        "--rollback",
        type=click.Choice(["auto", "never"]),
        help="never: a node that fails stays as it is, out of the schedule.  [default: auto]",
    ),
)
_DO = (
    click.option("--dry-run", is_flag=True, help="Show the plan; change nothing."),
    click.option("--yes", is_flag=True, help="Don't ask. Skips questions and nothing else."),
    click.option("--resume", is_flag=True, help="Go on with a roll that was cut off, from any machine."),
    click.option("--status", is_flag=True, help="Show where each node is; change nothing."),
    click.option("--abort", is_flag=True, help="Ask the roll at work to come to a safe end."),
)
_REPEATED = tuple(name for name in RollOptions.__dataclass_fields__ if name not in ("kind", "canary", "soak"))
"""Options of a roll that a follow-up command repeats, under their names in RollOptions."""


def roll_options(command: F) -> F:
    """All options that say what is rolled and how; the command gets one `wanted`."""

    @functools.wraps(command)
    def wrapped(**given: Any) -> Any:
        taken = {option: given.pop(option) for option in _TAKEN}
        return command(wanted=wanted(**taken), **given)

    made: Any = wrapped
    for add in reversed((*_WHAT, *_PACE, *_NODE, *_DO)):
        made = add(made)
    return cast(F, made)


_HOW = (
    *("deferred", "one_at_a_time", "max_unavailable", "canary", "soak", "order", "max_failures", "window"),
    *("pause_between", "reboot", "reboot_timeout", "drain", "drain_timeout", "wait_for_jobs", "job_timeout"),
    "rollback",
)
_TAKEN = ("to", "toolkit", *_HOW, "dry_run", "yes", "resume", "status", "abort")


def wanted(**given: Any) -> Wanted:
    """From the options by name, None for those that weren't typed. Raises UsageError for what excludes each other."""
    _refuse_contradictions(given)
    _refuse_nonsense(given)
    mode = next((name for name in ("resume", "status", "abort") if given[name]), "roll")
    kind = "toolkit" if given["toolkit"] else "deferred" if given["deferred"] else "driver"
    order = tuple(part.strip() for part in (given["order"] or "").split(",") if part.strip())
    typed = {name: given[name] for name in RollOptions.__dataclass_fields__ if given.get(name) is not None}
    pace = typed.pop("max_unavailable", None) or "1"
    options = RollOptions(**{**typed, "order": order, "kind": kind})
    return Wanted(
        mode=cast(Mode, mode),
        options=options,
        pace=pace,
        to=given["to"],
        toolkit=given["toolkit"],
        dry_run=given["dry_run"],
        yes=given["yes"],
        words=tuple(_words(given)),
    )


def _words(given: dict[str, Any]) -> list[str]:
    words = ["--deferred"] if given["deferred"] else []
    words += ["--toolkit", given["toolkit"]] if given["toolkit"] else []
    for name in _REPEATED:
        value = given[name]
        if value is not None:
            text = spelled(value) if isinstance(value, float) else str(value)
            words += [f"--{name.replace('_', '-')}", text]
    return words


def _refuse_contradictions(given: dict[str, Any]) -> None:
    def both(first: str, second: str) -> bool:
        return all(given[name] not in (None, False) for name in (first, second))

    once = (("to", "toolkit"), ("to", "deferred"), ("toolkit", "deferred"), ("one_at_a_time", "max_unavailable"))
    modes = ("resume", "status", "abort")
    exclusive = [(first, second) for first in modes for second in modes if first < second]
    exclusive += [(mode, what) for mode in modes for what in ("to", "dry_run")]
    exclusive += [(mode, what) for mode in ("status", "abort") for what in ("toolkit", *_HOW)]
    for first, second in (*once, *exclusive):
        if both(first, second):
            raise UsageError(
                f"{_option(first)} and {_option(second)} exclude each other", remedy="`--help` says what each does"
            )
    for needy, base in (("soak", "canary"), ("job_timeout", "wait_for_jobs")):
        if given[needy] is not None and not given[base]:
            raise UsageError(f"{_option(needy)} needs {_option(base)}", remedy="name both, or none")


def _refuse_nonsense(given: dict[str, Any]) -> None:
    """What only the roll reads, before anything is connected to."""
    if given["window"] is not None:
        from provisioner.upgrade import window

        window.parse(given["window"])
    if given["max_unavailable"] is not None:
        from provisioner.upgrade.schedule import at_once

        at_once(given["max_unavailable"], 1)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
