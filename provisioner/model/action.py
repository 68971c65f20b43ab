"""The closed set of things that can be done to a host, as data.

A task never runs anything: it puts these into a change. `engine.compile` turns them into one script.
Texts may hold secret references (`Secret.reference`); the values enter only the script that is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Replace or create a file atomically, following a link at `path`.

    `content` is text; bytes that aren't UTF-8 stand as surrogates. `mode`, `owner`, `group` None: keep those of
    the file that is there (0644 root root for a new one). `keep_previous`: the file that was there (or the fact
    that none was) is kept so that `Restore` can bring it back. Missing parent folders are made (0755).
    """

    path: str
    content: str
    mode: int | None = None
    owner: str | None = None
    group: str | None = None
    keep_previous: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """Put back what `WriteFile(keep_previous=True)` on the same path replaced, or remove the file if none was."""

    path: str


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """Remove a file or link; a folder is never removed. `keep_previous` as in WriteFile."""

    path: str
    keep_previous: bool = False


@dataclass(frozen=True, slots=True)
class MakeDirectory:
    """Make a folder with its parents, or set mode and owner of one that is there."""

    path: str
    mode: int | None = None
    owner: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """Make `path` a symbolic link to `target`, replacing a link atomically; a file that is there is an error."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class Packages:
    """One non-interactive transaction of the package manager, with holds as one guarded step.

    `install`: (name, version) pairs, version None for any. `remove`: names. `unhold` happens before, `hold` after;
    when the transaction fails the holds that were there are put back. `lists`: repository names whose lists are
    read anew first; () none, ("*",) all. `allow_downgrade` must be meant. `cache`: a folder on the host that holds
    every package of `install` at its version; then nothing is looked up in repositories or downloaded.
    """

    manager: Literal["apt", "dnf"]
    install: tuple[tuple[str, str | None], ...] = ()
    remove: tuple[str, ...] = ()
    hold: tuple[str, ...] = ()
    unhold: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    allow_downgrade: bool = False
    cache: str = ""
    timeout: float = 1800.0


@dataclass(frozen=True, slots=True)
class Service:
    """A systemd unit. `enabled`/`state` None: leave. Without a running systemd (image builds) only enabling and
    disabling happen. `daemon_reload` first makes systemd read the unit files anew."""

    unit: str
    enabled: bool | None = None
    state: Literal["started", "restarted", "reloaded", "stopped"] | None = None
    daemon_reload: bool = False
    masked: bool | None = None
    timeout: float = 120.0


@dataclass(frozen=True, slots=True)
class Run:
    """A POSIX sh script, as root, no standard input, output kept for the report. `why` is shown in the plan.
    Values in it went through `quoting.quote`. `timeout` in seconds."""

    script: str
    why: str
    timeout: float = 300.0


@dataclass(frozen=True, slots=True)
class Reboot:
    """Restart the host and wait until it is back with another boot. `timeout` in seconds."""

    why: str
    timeout: float = 900.0


@dataclass(frozen=True, slots=True)
class Guarded:
    """Do `actions`, then `check` (an sh script, 0 is good). If an action or the check fails, do `undo` and then
    `check_undo`; both outcomes are reported, and the change counts as failed. `timeout` seconds for each check."""

    actions: tuple[Action, ...]
    check: str
    undo: tuple[Action, ...]
    check_undo: str = ":"
    timeout: float = 120.0
    what: str = field(default="")


Action = WriteFile | Restore | RemoveFile | MakeDirectory | Link | Packages | Service | Run | Reboot | Guarded


def touched(actions: Iterable[Action]) -> Iterator[str]:
    """The paths that these actions write or remove."""
    for action in actions:
        match action:
            case WriteFile() | Restore() | RemoveFile() | MakeDirectory() | Link():
                yield action.path
            case Guarded():
                yield from touched(action.actions)
