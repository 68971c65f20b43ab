"""Read a host: all probes in one execution."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from provisioner.engine.compile import shell
from provisioner.engine.secrets import Secrets
from provisioner.errors import Disconnected
from provisioner.facts.host import IdentityProbe, SystemProbe
from provisioner.facts.merge import facts_from, merge, unique
from provisioner.facts.workload import WorkloadProbe
from provisioner.model.fact import Facts, Output, Probe
from provisioner.quoting import quote
from provisioner.transport.executor import Executor

ALWAYS: tuple[Probe[Any], ...] = (IdentityProbe(), SystemProbe(), WorkloadProbe())
TIMEOUT = 180.0
"""Seconds for one observation; every nvidia command inside has a shorter limit of its own."""
SETTLE = 120
"""Seconds an orphaned script (its controller is gone) may take to end before the host is read anyway."""


@dataclass(frozen=True)
class GenerationProbe(Probe[str]):
    """How often runs have changed this host since it booted, so that a run notices that another was faster."""

    @property
    def key(self) -> str:
        return "generation"

    def script(self) -> str:
        return "[ -r /run/provision/generation ] || absent\ncat /run/provision/generation"

    def parse(self, output: Output) -> str:
        return output.text.strip()


def generation(facts: Facts) -> str:
    """What the next stage's script must still find."""
    return facts.get(GenerationProbe()) or "0"


def observe(executor: Executor, probes: Sequence[Probe[Any]], secrets: Secrets, *, release: str = "") -> Facts:
    """All facts of the probes and of ALWAYS, by one execution.

    `release` names a run whose lock on the host ends with this observation. Raises TransportError; Disconnected
    also when the answer isn't whole.
    """
    asked = unique((*ALWAYS, GenerationProbe(), *probes))
    head = shell("hostlock.sh") + (f"release_lock {quote(release)}\n" if release else f"settle {SETTLE}\n")
    done = executor.run(head + merge(asked), timeout=TIMEOUT + SETTLE)
    try:
        return facts_from(executor.host.name, asked, done.stdout, time.time(), secrets.mask)
    except ValueError as error:
        said = secrets.mask(done.stderr).decode("utf-8", "replace").strip()
        raise Disconnected(
            f"{executor.host.name} couldn't be read whole",
            why=f"{error}; status {done.rc}" + (f": {said[-400:]}" if said else ""),
            remedy="is /run writable and /bin/sh a POSIX shell there?",
        ) from error
