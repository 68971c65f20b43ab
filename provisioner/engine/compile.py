"""Actions as data → one POSIX sh script per stage. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Protocol
from urllib.parse import quote as percent

from provisioner.engine.compile_packages import compile_packages
from provisioner.facts.merge import merge
from provisioner.facts.workload import DRIVER_DAEMONS, OWN_NAMESPACES, WorkloadProbe
from provisioner.model.action import (
    Action,
    Guarded,
    Link,
    MakeDirectory,
    Packages,
    Reboot,
    RemoveFile,
    Restore,
    Run,
    Service,
    WriteFile,
)
from provisioner.model.change import Change
from provisioner.quoting import quote, words

GOING_BACK = "that failed: going back"
"""Stands in a change's output between what was tried and what its way back printed."""


class Reveal(Protocol):
    """Replaces secret references by their values, at the last moment."""

    def reveal(self, text: str) -> str:
        """In a file's content."""
        ...

    def reveal_in_script(self, text: str) -> str:
        """In an sh script, where a reference stands inside single quotes."""
        ...


@cache
def shell(name: str) -> str:
    """One of the engine's sh files."""
    return resources.files("provisioner.engine").joinpath(name).read_text(encoding="utf-8")


def compile_stage(
    changes: Sequence[Change],
    *,
    run: str,
    who: str,
    generation: str,
    secrets: Reveal,
    idle: bool = False,
    guard: str = "",
) -> str:
    """The script that does these changes in order and stops at the first failure.

    `generation` is what the last observation read; the script refuses to start when the host was changed since.
    `idle`: it also refuses where work has begun meanwhile. A person may have thought for an hour over the question,
    and the first of many hosts may have taken as long. `guard`: sh commands that come first and may end it.
    """
    parts = [shell("prelude.sh"), shell("hostlock.sh"), guard, f"take_lock {words([run, who, generation])}\n"]
    if idle:
        known = words([" ".join(DRIVER_DAEMONS), " ".join(OWN_NAMESPACES)])
        parts += [shell("idle.sh"), f"_look() (\n{merge([WorkloadProbe()])})\n"]
        parts.append(f'_look >"$_dir/work" 2>/dev/null\nstill_idle "$_dir/work" {known}\n')
    for number, change in enumerate(changes, 1):
        body = "".join(compile_action(action, secrets) for action in change.actions)
        parts.append(f"_c{number}() (\nset -e\n{body})\nchange {number} _c{number}\n")
    parts.append("echo @stage-done\n")
    return "".join(parts)


def previous_name(path: str) -> str:
    """The file name below /var/lib/provision/previous that keeps what was at `path`."""
    return percent(path, safe="")


def compile_action(action: Action, secrets: Reveal) -> str:
    """The sh commands of one action, to be run under `set -e`."""
    match action:
        case WriteFile():
            return _write(action, secrets)
        case Restore(path):
            return f"restore {words([path, previous_name(path)])}\n"
        case RemoveFile(path, keep_previous):
            return f"remove_file {words([path, previous_name(path) if keep_previous else ''])}\n"
        case MakeDirectory(path, mode, owner, group):
            return f"make_directory {words([path, _mode(mode), owner or '', group or ''])}\n"
        case Link(path, target):
            return f"make_link {words([path, target])}\n"
        case Packages():
            return _within(compile_packages(action), action.timeout, "the package transaction", secrets)
        case Service():
            return _service(action)
        case Run(script, why, timeout):
            return _within(script, timeout, why, secrets)
        case Guarded():
            return _guarded(action, secrets)
        case Reboot():
            # Detached, so that this script and its connection end in order before the host goes down.
            return "(sleep 2; systemctl reboot || reboot) >/dev/null 2>&1 </dev/null &\n"


def _mode(mode: int | None) -> str:
    # Five digits: with fewer, chmod leaves a folder's set-group-id bit as it is.
    return "" if mode is None else f"{mode:05o}"


def _write(action: WriteFile, secrets: Reveal) -> str:
    content = secrets.reveal(action.content).encode("utf-8", "surrogateescape")
    arguments = words(
        [
            action.path,
            hashlib.sha256(content).hexdigest(),
            _mode(action.mode),
            action.owner or "",
            action.group or "",
            previous_name(action.path) if action.keep_previous else "",
        ]
    )
    body = base64.encodebytes(content).decode("ascii")
    return f"put_file {arguments} <<'@'\n{body}@\n"


def _within(script: str, timeout: float, label: str, secrets: Reveal) -> str:
    text = secrets.reveal_in_script(script)
    mark = "@" + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    # dash forgets `set -e` in an eval that feeds a condition; a failing line must end the script here too.
    return f"within {int(timeout)} {quote(label)} <<'{mark}'\nset -e\n{text.rstrip()}\n{mark}\n"


def _service(action: Service) -> str:
    unit = quote(action.unit)
    limit = f"timeout -k 10 {int(action.timeout)} "
    lines = []
    if action.daemon_reload:
        lines.append(f"if systemd_runs; then {limit}systemctl daemon-reload; fi")
    if action.masked is not None:
        lines.append(f"systemctl {'mask' if action.masked else 'unmask'} {unit}")
    if action.enabled is not None:
        lines.append(f"systemctl {'enable' if action.enabled else 'disable'} {unit}")
    if action.state is not None:
        verb = {"started": "start", "restarted": "restart", "reloaded": "reload-or-restart", "stopped": "stop"}
        command = f"{limit}systemctl {verb[action.state]} {unit}"
        tell = f"journalctl -u {unit} -n 20 --no-pager -o cat 2>/dev/null || :"
        lines.append(
            f"if systemd_runs; then {command} || {{ {tell}; fail {quote(f'{action.unit} did not obey')}; }}; fi"
        )
    return "".join(f"{line}\n" for line in lines)


def _guarded(action: Guarded, secrets: Reveal) -> str:
    do = "".join(compile_action(step, secrets) for step in action.actions)
    undo = "".join(compile_action(step, secrets) for step in action.undo)
    check = _within(action.check, action.timeout, f"the check of {action.what}", secrets)
    check_undo = _within(action.check_undo, action.timeout, "the check of the way back", secrets)
    # What was kept for the way back has served; what a run leaves behind is that of an unfinished change.
    kept = [previous_name(step.path) for step in action.undo if isinstance(step, Restore)]
    forget = "".join(f"forget {quote(name)}\n" for name in kept)
    # A subshell whose status is read later keeps `set -e`; inside `if` it would not.
    return f"""\
set +e
(
set -e
{do}{check})
_g=$?
if [ "$_g" -ne 0 ]; then
printf '{GOING_BACK} (status %s)\\n' "$_g"
(
set -e
{undo}{check_undo})
_u=$?
if [ "$_u" -eq 0 ]; then printf restored >"$_dir/restored"
else printf 'the way back failed too (status %s)' "$_u" >"$_dir/restored"; fi
exit 1
fi
set -e
{forget}"""
