"""One step of a roll on a host: a script that carries the roll's token, and what its answer means."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Generic, TypeVar

from provisioner.config.shipped import shipped
from provisioner.engine.compile import shell
from provisioner.engine.stage import RC_STALE, stale
from provisioner.errors import Disconnected, HostLocked
from provisioner.facts.merge import prelude
from provisioner.quoting import quote, words
from provisioner.transport.executor import Completed, Executor

T = TypeVar("T")

RC_LOCKED = (73, 74)
"""Statuses of a script that was refused by the host's lock: held, or taken by another in this very moment."""
SETTLE = 600
"""Seconds that a step lets an orphaned one (its controller is gone) go on before it gives up on the host's lock."""

Rows = Sequence[tuple[str, ...]]
"""An answer: a word and its fields, row by row."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Who works on the hosts: the roll's id, its token, which only grows, and the person, as "user@machine".
    `leased`: the token comes from the cluster's lease, so that an older roll has lost it and its lock of a host counts
    no more, though its controller may still be connected."""

    run: str
    token: int
    who: str
    leased: bool = False


@dataclass(frozen=True)
class Step(Generic[T]):
    """A script and the meaning of its answer. `timeout` in seconds is what the script itself may take; `what` names
    the step in messages: "unload the modules"."""

    what: str
    script: str
    timeout: float
    parse: Callable[[Rows], T]

    def run(self, executor: Executor) -> T:
        """Do it and wait for its end.

        Raises HostLocked when another run works on the host, LeaseLost when the host has seen a later roll,
        Disconnected when the script didn't come to its end, and other transport errors.
        """
        done = executor.run(self.script, timeout=self.timeout + SETTLE)
        return self.parse(whole(done, executor.host.name, self.what))


def whole(done: Completed, host: str, what: str) -> Rows:
    """The rows of a complete answer; the errors are those of `Step.run`."""
    rows = [tuple(line.split("\t")) for line in done.stdout.decode("utf-8", "replace").splitlines()]
    refused(done, host)
    if done.rc != 0 or not rows or rows[-1] != ("@end",):
        said = done.stderr.decode("utf-8", "replace").strip()
        raise Disconnected(
            f"{host}: the script that should {what} didn't run to its end",
            why=f"status {done.rc}" + (f": {said[-400:]}" if said else ""),
            remedy="go on with --resume: the step is done anew",
        )
    return rows[:-1]


def refused(done: Completed, host: str) -> None:
    """Raises HostLocked or LeaseLost when the script says that it didn't begin."""
    said = done.stderr.decode("utf-8", "replace").strip()
    if done.rc in RC_LOCKED:
        raise HostLocked(f"{host} is being changed by another run", why=said, remedy="wait for it, then --resume")
    if done.rc == RC_STALE:
        raise stale(host, said)


@cache
def host_script(name: str) -> str:
    """One of the shipped host scripts, `templates/upgrade/NAME.sh`. It isn't a template: nothing is filled in."""
    return (shipped("templates") / "upgrade" / f"{name}.sh").read_text(encoding="utf-8")


@cache
def bounded() -> str:
    """The function `bounded SECONDS COMMAND…` of the probes: it doesn't wait for a process that can't be killed, as
    one that hangs in the driver can't."""
    found = re.search(r"^bounded\(\) \{.*?^\}\n", prelude(), re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError("the probes' prelude has no function `bounded`")
    return f"_n=0\n{found[0]}"


def opened(fence: Fence) -> str:
    """What every script of a roll begins with: it refuses an older roll, then takes the host's lock."""
    asked = words([fence.run, fence.who, str(SETTLE), "leased" if fence.leased else ""])
    return shell("prelude.sh") + shell("hostlock.sh") + bounded() + _numbered(fence) + f"begin {asked}\n"


def guard(fence: Fence) -> str:
    """What a stage of an ordinary run begins with when a roll does it: it refuses an older roll."""
    return _numbered(fence) + "not_older\n"


def _numbered(fence: Fence) -> str:
    return host_script("head") + f"PROVISION_TOKEN={quote(str(fence.token))}\n"


def scripted(fence: Fence, names: Sequence[str], body: str) -> str:
    """A whole script: the host scripts `names` (functions only), then `body`, which tells rows."""
    return opened(fence) + "".join(host_script(name) for name in names) + body.rstrip() + "\necho @end\n"


def release(fence: Fence) -> Step[None]:
    """Give the host's lock back."""
    body = f"release_lock {quote(fence.run)}"
    return Step("give the host's lock back", scripted(fence, (), body), 30.0, lambda rows: None)


def fields(rows: Rows, word: str) -> list[tuple[str, ...]]:
    """The fields of the rows that begin with `word`."""
    return [row[1:] for row in rows if row[0] == word]


def last(rows: Rows, word: str) -> tuple[str, ...]:
    """The fields of the last such row. Raises ValueError when there is none."""
    found = fields(rows, word)
    if not found:
        raise ValueError(f"the answer has no row {word!r}")
    return found[-1]
