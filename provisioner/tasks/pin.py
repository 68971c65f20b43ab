"""Task `pin`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from provisioner.facts.files import FileProbe
from provisioner.model.action import WriteFile
from provisioner.model.change import Change, Finding, Kind, Note, Refusal
from provisioner.model.fact import Facts, Probe
from provisioner.tasks.context import Context
from provisioner.tasks.packaging.apt import AUTOMATIC_UPDATES, PREFERENCES
from provisioner.tasks.packaging.closure_on_host import difference
from provisioner.tasks.packaging.stack import other_driver, stack, stack_probes
from provisioner.tasks.task import Task, task


@task("pin")
class Pin(Task):
    """Nothing else moves the locked packages: preferences for the exact versions, none for automatic updates.

    The priority is 1000, never more, since above that apt downgrades unasked. Both files follow the lock; the
    preferences wait where the driver itself waits for a drained node. (Holds are set by `driver` and `toolkit`.)

        [[stages.tasks]]
        task = "pin"
    """

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield from stack_probes()
        yield FileProbe(PREFERENCES)
        yield FileProbe(AUTOMATIC_UPDATES)

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        have = stack(facts, ctx)
        if isinstance(have, Refusal):
            yield Note(have.subject, f"nothing is pinned: {have.what}")
            return
        locked = have.closure.role("driver", "toolkit")
        drivers = difference(have.closure.role("driver"), have.state, have.backend, driver=have.closure.driver)
        waits = other_driver(facts, ctx, have.closure.driver) if drivers.moves else None
        for file in have.backend.pins(locked):
            there = facts.get(FileProbe(file.path))
            before = there.content if there else None
            if before != file.content:
                change = Change(
                    subject=file.path,
                    summary="pin the locked versions" if file.path == PREFERENCES else "no automatic updates of these",
                    kind=Kind.UPDATE if there else Kind.CREATE,
                    actions=(WriteFile(file.path, file.content),),
                    before=before,
                    after=file.content,
                )
                yield replace(change, deferred=waits) if file.path == PREFERENCES else change
