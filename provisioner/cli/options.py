"""Options that several commands share, each written once, and what they come to: a View and a Request."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from provisioner.cli.view import View
from provisioner.errors import UsageError
from provisioner.report.hints import Invocation

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Request:
    """Which inventory, hosts, playbook and values a command works with, and what it may do there."""

    inventory: Path
    playbook: str | None = None
    limit: str | None = None
    sets: tuple[str, ...] = ()
    stage: str | None = None
    forks: int = 32
    local: bool = False
    allow_no_gpu: bool = False
    disruptive: bool = False
    reboot: bool = False
    words: tuple[str, ...] = ()

    def invocation(self, verb: str) -> Invocation:
        """What follow-up commands repeat: all of it but `forks` and `words`."""
        named = (("--playbook", self.playbook), ("--limit", self.limit), ("--stage", self.stage))
        options = [word for name, value in named if value is not None for word in (name, value)]
        options += [word for value in self.sets for word in ("--set", value)]
        flags = ("local", "allow_no_gpu", "disruptive", "reboot")
        options += [f"--{flag.replace('_', '-')}" for flag in flags if getattr(self, flag)]
        return Invocation(verb, str(self.inventory), tuple(options))


_SELECT = (
    click.option("--limit", metavar="EXPR", help="Only these hosts: names, ranges, groups, failed@last."),
    click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a variable; the strongest level."),
)
_READ = (
    click.option("--playbook", metavar="NAME|FILE", help="Another playbook than the inventory's."),
    click.option("--forks", type=click.IntRange(1), default=32, show_default=True, help="Hosts worked on at once."),
    click.option("--local", is_flag=True, help="This machine, without SSH: for image builds."),
)
_PLAN = (
    click.option("--stage", metavar="NAME", help="Only this stage's changes."),
    click.option("--allow-no-gpu", is_flag=True, help="Go on where no card is found."),
    click.option(
        "--disruptive", is_flag=True, help="Consent to disturb what runs on the hosts: restarts, drained or not."
    ),
    click.option("--reboot", is_flag=True, help="Consent to restart hosts that need it and have no active kubelet."),
)
_OUTPUT = (
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document to stdout."),
    click.option(
        "--events",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write what happens as JSON objects, one a line.",
    ),
    click.option("-v", "--verbose", count=True, help="Say more; -vv shows tracebacks."),
    click.option("-q", "--quiet", is_flag=True, help="Say only what went wrong."),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Colour the output.",
    ),
)


def output_options(command: F) -> F:
    """--json, --events, -v, -q, --color; the command gets one `view`."""

    @functools.wraps(command)
    def wrapped(
        ctx: click.Context, as_json: bool, events: Path | None, verbose: int, quiet: bool, color: str, **others: Any
    ) -> Any:
        name = ctx.command_path.partition(" ")[2] or ctx.command_path
        return command(view=View(name, as_json, -1 if quiet else verbose, color, events), **others)

    return cast(F, _with(_OUTPUT, click.pass_context(wrapped)))


def request_options(*, reads: bool = True, plans: bool = False, words: str = "") -> Callable[[F], F]:
    """INVENTORY, --limit, --set, and what reading hosts or planning for them takes; the command gets one `request`.

    `words` names further arguments (a metavar such as "[HOST]..."); then INVENTORY is the first argument if that
    ends in .toml.
    """
    argument = click.argument(
        "arguments", nargs=-1 if words else 1, required=False, metavar=f"[INVENTORY] {words}".strip()
    )
    options = (argument, *_SELECT, *(_READ if reads else ()), *(_PLAN if plans else ()))

    def decorate(command: F) -> F:
        taken = {"limit", "sets"}
        taken |= {"playbook", "forks", "local"} if reads else set()
        taken |= {"stage", "allow_no_gpu", "disruptive", "reboot"} if plans else set()

        @functools.wraps(command)
        def wrapped(arguments: str | tuple[str, ...] | None, **others: Any) -> Any:
            given = (arguments,) if isinstance(arguments, str) else tuple(arguments or ())
            named = given[:1] if given and (given[0].endswith(".toml") or not words) else ()
            fields = {key: others.pop(key) for key in taken & others.keys()}
            request = Request(inventory_path(*named), words=given[len(named) :], **fields)
            return command(request=request, **others)

        return cast(F, _with(options, wrapped))

    return decorate


def inventory_path(argument: str | None = None) -> Path:
    """The inventory that was named, or the one that is meant. Raises UsageError with the candidates."""
    from provisioner.config.locate import locate

    return locate(argument, Path.cwd(), os.environ)


def only_hosts(request: Request) -> str | None:
    """The limit of a command that takes host names as arguments too. Raises UsageError for both at once."""
    if request.words and request.limit:
        raise UsageError("hosts were named as arguments and by --limit", remedy="use one of the two")
    return ",".join(request.words) or request.limit


def diff_option(command: F) -> F:
    """--diff; the command gets `diff_style`."""
    return click.option(
        "--diff",
        "diff_style",
        type=click.Choice(["full", "compact", "none"]),
        default="compact",
        show_default=True,
        help="How much of each text's difference is shown.",
    )(command)


def example(*lines: str) -> str:
    """An epilog that shows how the command is typed."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def _with(options: Iterable[Callable[[Any], Any]], command: Any) -> Any:
    for add in reversed(tuple(options)):
        command = add(command)
    return command
