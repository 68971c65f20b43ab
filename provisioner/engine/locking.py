"""`provision lock`: ask one host of each kind for the exact packages, and write them beside the inventory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from provisioner.config.lockfile import read_lock, write_lock
from provisioner.engine.hostrun import HostRun
from provisioner.engine.lock import differences, lock_script, parse_closure
from provisioner.engine.secrets import Secrets
from provisioner.errors import LockError, ProvisionError, UsageError
from provisioner.facts.host import System, SystemProbe
from provisioner.model.fact import Known
from provisioner.model.lock import Closure, Lock
from provisioner.replacing import replace_file
from provisioner.tasks.packaging.locked import Wanted, matches, wanted

TIMEOUT = 900.0
"""Seconds for one host: it reads the repositories' lists into a folder of its own."""


@dataclass(frozen=True)
class LockOutcome:
    """The lock as it should be. `changed`: it differs from the file; `differences` for people, a line each."""

    lock: Lock
    text: str
    changed: bool
    differences: tuple[str, ...]
    path: Path


def find_lock(runs: Sequence[HostRun], secrets: Secrets, path: Path, *, whole: bool) -> LockOutcome:
    """The closures of these hosts (already read), each found on the first reachable host that wants it.

    `whole`: they are all hosts of the inventory, so closures that none of them wants are dropped; otherwise those
    are kept. Raises LockError, or the TransportError of the last host when none of a kind answers.
    """
    kinds: dict[Wanted, list[tuple[HostRun, System]]] = {}
    unread: list[HostRun] = []
    for run in runs:
        system = run.facts.fact(SystemProbe()) if run.facts else None
        if isinstance(system, Known):
            kinds.setdefault(wanted(run.wanted.ctx, system.value), []).append((run, system.value))
        else:
            unread.append(run)
    if not kinds:
        raise unread[0].error or LockError("no host could be read") if unread else LockError("no host is selected")
    found = [_closure(want, hosts, secrets) for want, hosts in kinds.items()]
    old = read_lock(path) or Lock()
    keep = [] if whole and not unread else [c for c in old.closures if not any(matches(c, want) for want in kinds)]
    # write_lock orders closures and packages, so equal locks are equal texts.
    lock = Lock((*found, *keep))
    text = write_lock(lock)
    told = differences(old, lock)
    return LockOutcome(lock, text, bool(told) or not path.exists(), told, path)


def write_beside(path: Path, text: str) -> None:
    """Replace a file of the site atomically. Raises UsageError where it can't be."""
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise UsageError(
            f"can't write {path}", why=f"{error.strerror}; it is as it was", remedy="mend its folder, then run it again"
        ) from error


def _closure(want: Wanted, hosts: Sequence[tuple[HostRun, System]], secrets: Secrets) -> Closure:
    error: ProvisionError | None = None
    for run, system in hosts:
        script = lock_script(want, system, run.wanted.ctx.repositories)
        try:
            done = run.executor.run(script, timeout=TIMEOUT)
        except ProvisionError as failed:
            error = failed
            continue
        output = secrets.mask(done.stdout).decode("utf-8", "replace")
        if done.rc != 0 and not output.strip():
            said = secrets.mask(done.stderr).decode("utf-8", "replace").strip()
            raise LockError(
                f"{run.name} couldn't find the packages of {want.text}",
                why=said or f"status {done.rc}",
                remedy="correct uri, suite or key of the repository in the inventory, or mend the repository",
            )
        return parse_closure(output, want)
    raise error or LockError(f"no host of {want.distribution} answered")
