"""All hosts through all stages: undisturbing work everywhere at once, disturbing work on one host first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from provisioner.engine.hostrun import HostRun
from provisioner.engine.pool import each


def roll(
    runs: Sequence[HostRun],
    stages: Sequence[str],
    *,
    forks: int,
    max_failures: int,
    interrupted: Callable[[], bool],
) -> None:
    """Do every stage on every host that has work in it.

    A stage that disturbs a host is done on one such host first, then on the rest; once more than `max_failures`
    of them failed, no further one is started. A host that fails goes no further itself. `interrupted` ends the
    starting of new work; what runs is let end.
    """
    for number, stage in enumerate(stages):
        busy = [run for run in runs if run.due(stage)]
        quiet = [run for run in busy if not run.disturbs(stage)]
        disturbed = [run for run in busy if run.disturbs(stage)]

        def work(run: HostRun, number: int = number, stage: str = stage) -> None:
            run.apply(stage, last=not any(run.due(later) for later in stages[number + 1 :]))

        def steady(disturbed: Sequence[HostRun] = tuple(disturbed)) -> bool:
            return not interrupted() and sum(run.failed for run in disturbed) <= max_failures

        each(quiet, work, forks=forks, go_on=lambda: not interrupted())
        for group in (disturbed[:1], disturbed[1:]):
            for run in each(group, work, forks=forks, go_on=steady):
                if not interrupted():
                    failed = ", ".join(other.name for other in disturbed if other.failed)
                    run.stopped = f"stage {stage} was not started here: it failed on {failed}"
    if interrupted():
        for run in runs:
            if any(run.due(stage) for stage in stages):
                run.stopped = "interrupted before this host was done"
