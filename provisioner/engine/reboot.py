"""A restart of a host: recognised by another boot, bounded in time."""

from __future__ import annotations

import time
from collections.abc import Sequence

from provisioner.errors import AuthenticationError, HostKeyError, SudoError, TransportError, Unreachable
from provisioner.facts.host import IdentityProbe
from provisioner.facts.merge import facts_from, merge
from provisioner.model.action import Reboot
from provisioner.model.change import Change
from provisioner.model.fact import Known
from provisioner.transport.executor import Executor

PAUSE = 2.0
"""Seconds between two tries to reach a host that restarts."""


def needs_reboot(changes: Sequence[Change]) -> float | None:
    """Seconds to wait for the host when one of these changes restarts it, else None."""
    return max((a.timeout for change in changes for a in change.actions if isinstance(a, Reboot)), default=None)


def wait_for_boot(executor: Executor, identity: str, limit: float) -> None:
    """Wait until the same machine answers with another boot than `identity` (IdentityProbe's text).

    Raises Unreachable when it doesn't within `limit` seconds, and at once what waiting can't mend: another host
    key, refused login.
    """
    probe = IdentityProbe()
    end = time.monotonic() + limit
    last = "no answer"
    while time.monotonic() < end:
        executor.close()
        time.sleep(PAUSE)
        try:
            done = executor.run(merge([probe]), timeout=30)
            fact = facts_from(executor.host.name, [probe], done.stdout, time.time()).fact(probe)
        except (HostKeyError, AuthenticationError, SudoError):
            raise
        except (TransportError, ValueError) as error:
            last = str(error)
            continue
        if isinstance(fact, Known) and fact.value.text != identity:
            return
        last = "it answers, and hasn't restarted yet"
    raise Unreachable(
        f"{executor.host.name} did not come back within {limit:.0f} s of its restart",
        why=last,
        remedy="look at its console; then run again: it goes on from what is there",
    )
