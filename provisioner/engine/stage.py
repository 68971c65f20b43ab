"""One stage on one host: one execution, and what became of each change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from provisioner.engine.compile import compile_stage
from provisioner.engine.secrets import Secrets
from provisioner.errors import Disconnected, HostLocked, LeaseLost, PlanMoved, ProvisionError
from provisioner.model.action import Action, Guarded, Packages, Run, Service
from provisioner.model.change import Change
from provisioner.model.result import Outcome
from provisioner.transport.executor import Completed, Executor

RC_STALE = 76
"""Status of a script that was refused because the host has seen a later roll."""
OUTPUT_LIMIT = 200_000
"""Characters of a change's output that are kept for journal and report (its end)."""
_END = re.compile(rb"@end (\d+) (\d+) (\d+) (\d+) (\d+)\n")


@dataclass(frozen=True, slots=True)
class StageRun:
    """Outcomes in order; the list ends with the first failure. `error` says why the script itself didn't run to
    its end (lock held, host moved, connection lost), "" when it did."""

    outcomes: tuple[Outcome, ...]
    error: ProvisionError | None = None


def run_stage(
    executor: Executor,
    changes: Sequence[Change],
    *,
    run: str,
    who: str,
    generation: str,
    secrets: Secrets,
    idle: bool = False,
    guard: str = "",
) -> StageRun:
    """Do these changes; with `idle` only where no work has begun; `guard` as in `compile_stage`. Transport errors are
    part of the result: what was done before them is known or unknown, and says so. So is LeaseLost, of a guard that
    met a later roll."""
    script = compile_stage(changes, run=run, who=who, generation=generation, secrets=secrets, idle=idle, guard=guard)
    limit = 120 + sum(time_of(action) for change in changes for action in change.actions)
    try:
        done = executor.run(script, timeout=limit)
    except Disconnected as error:
        return StageRun((), error)
    return take_stage_apart(changes, done, secrets, executor.host.name)


def take_stage_apart(changes: Sequence[Change], done: Completed, secrets: Secrets, host: str) -> StageRun:
    """What a stage's script answered."""
    said = secrets.mask(done.stderr).decode("utf-8", "replace").strip()
    outcomes: list[Outcome] = []
    at = 0
    while match := _END.search(done.stdout, at):
        number, rc, seconds, restored_size, size = (int(group) for group in match.groups())
        start = match.end()
        # Masked piece by piece: the frames count the bytes as they were sent.
        restored = secrets.mask(done.stdout[start : start + restored_size]).decode("utf-8", "replace")
        at = start + restored_size + size
        output = secrets.mask(done.stdout[start + restored_size : at]).decode("utf-8", "replace")[-OUTPUT_LIMIT:]
        outcomes.append(Outcome(changes[number - 1], rc == 0, output, restored, float(seconds)))
    if done.rc == 73:
        return StageRun(
            (), HostLocked(f"{host} is being changed by another run", why=said, remedy="wait for it, then run again")
        )
    if done.rc == 74:
        return StageRun((), PlanMoved(f"{host} has moved", why=said, remedy="plan again"))
    if done.rc == 75:
        return StageRun(
            (),
            PlanMoved(
                f"{host} works now, and this stage would hurt that",
                why=f"it was idle when it was read; since then: {', '.join(said.splitlines())}",
                remedy="plan again; what must wait for a drained node is deferred then",
            ),
        )
    if done.rc == RC_STALE:
        return StageRun((), stale(host, said))
    failed = any(not outcome.ok for outcome in outcomes)
    if not failed and (done.rc != 0 or len(outcomes) < len(changes)):
        why = said or f"status {done.rc} after {len(outcomes)} of {len(changes)} changes"
        return StageRun(
            tuple(outcomes),
            Disconnected(
                f"the stage's script on {host} didn't run to its end",
                why=why,
                remedy="run again: it goes on from what is there",
            ),
        )
    return StageRun(tuple(outcomes))


def stale(host: str, why: str) -> LeaseLost:
    """The host has seen a later roll than the one that asked."""
    return LeaseLost(
        f"{host} refuses this roll",
        why=why,
        remedy="a later roll has taken over; see `provision upgrade-driver --status`",
    )


def time_of(action: Action) -> float:
    """The most seconds an action may take."""
    match action:
        case Guarded(actions=actions, undo=undo, timeout=timeout):
            return 2 * timeout + sum(time_of(step) for step in (*actions, *undo))
        case Packages(timeout=timeout) | Run(timeout=timeout) | Service(timeout=timeout):
            return timeout + 15
        case _:
            return 30.0
