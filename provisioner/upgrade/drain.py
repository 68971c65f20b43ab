"""Getting pods off a node: asked through the Eviction API, so that budgets hold, and waited for.

No pod is deleted, none is killed: what a budget, a missing controller or a finalizer keeps is named while we wait, and
after `timeout` the drain has failed and the node goes back as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from provisioner.errors import ApiUnreachable, TooManyRequests
from provisioner.kube.api import Api
from provisioner.kube.objects import Budget, Pod
from provisioner.upgrade import pods as rules

AGAIN = 5.0
"""Seconds after which a blocked eviction is asked for again; kubectl drain waits as long."""

_PAUSES = (0.25, 0.5, 1.0, 2.0)


@dataclass(frozen=True, slots=True)
class Blocker:
    """A pod that is still there, and why, for people; `budget` "NAMESPACE/NAME" where one keeps it."""

    pod: str
    reason: str
    budget: str = ""


@dataclass(frozen=True)
class Progress:
    """How a wait for pods stands: how many are left, and what keeps each of them. `seconds` since it began."""

    left: int
    blockers: tuple[Blocker, ...]
    evicted: int
    seconds: float

    @property
    def text(self) -> str:
        """One line for people."""
        named = "; ".join(f"{blocker.pod} {blocker.reason}" for blocker in self.blockers[:4])
        more = f"; and {len(self.blockers) - 4} more" if len(self.blockers) > 4 else ""
        return f"{self.left} pod{'' if self.left == 1 else 's'} left: {named}{more}" if self.left else "no pod is left"


@dataclass(frozen=True)
class Outcome:
    """How a drain ended. `ended`: "done", "timeout", or "stopped" (the run is to end)."""

    ended: Literal["done", "timeout", "stopped"]
    last: Progress

    @property
    def ok(self) -> bool:
        return self.ended == "done"


Report = Callable[[Progress], None]


@dataclass(frozen=True)
class Waiting:
    """A wait on pods of one node. `guard` is called before every eviction and raises when the run may change nothing
    more (Holding.check); `report` gets what is new; `timeout` in seconds, 0 for no end."""

    api: Api
    node: str
    timeout: float
    guard: Callable[[], None]
    report: Report = field(default=lambda progress: None)


def drain(
    on: Waiting, mode: Literal["gpu-pods", "full"], use: Callable[[], rules.GpuUse], *, stuck_for: float = 0.0
) -> Outcome:
    """Evict what uses a card (or everything) and wait until it is gone. May be called again after a crash.

    use        asked at every look, since processes on the host come and go
    stuck_for  seconds after which it ends as a timeout when all that is left may not be evicted at all; 0: `timeout`
    Raises what `guard` raises; Forbidden, ApiUnreachable after the API's patience.
    """
    asked: set[str] = set()
    refused: dict[str, tuple[float, Blocker]] = {}

    def look(seconds: float) -> Progress:
        found = rules.drain(on.api.pods(node=on.node), use(), mode)
        for pod in found.evict:
            if pod.uid not in refused or seconds - refused[pod.uid][0] >= AGAIN:
                on.guard()
                blocker = _evict(on.api, pod)
                asked.add(pod.uid)
                refused.pop(pod.uid, None)
                if blocker is not None:
                    refused[pod.uid] = (seconds, blocker)
        keeping = {uid: blocker for uid, (_, blocker) in refused.items()}
        return Progress(
            len(found.evict) + len(found.wait) + len(found.stuck),
            _blockers(found, keeping),
            len(asked - refused.keys()),
            seconds,
        )

    return _until_none(on, look)


def wait_for_jobs(on: Waiting, selector: str) -> Outcome:
    """Wait until no pod on the node that the label `selector` names runs any more; nothing is evicted."""

    def look(seconds: float) -> Progress:
        left = rules.unfinished(on.api.pods(node=on.node, selector=selector))
        blockers = tuple(Blocker(pod.full_name, f"is {pod.phase or 'there'} (waited for: {selector})") for pod in left)
        return Progress(len(left), blockers, 0, seconds)

    return _until_none(on, look)


def wait_gone(on: Waiting, found: Callable[[], Collection[Pod]]) -> Outcome:
    """Wait until `found` finds no pod any more; nothing is evicted."""

    def look(seconds: float) -> Progress:
        left = found()
        return Progress(len(left), tuple(Blocker(pod.full_name, _leaving(pod)) for pod in left), 0, seconds)

    return _until_none(on, look)


def _until_none(on: Waiting, look: Callable[[float], Progress]) -> Outcome:
    began, tries, said = on.api.clock(), 0, ""
    while True:
        progress = look(on.api.clock() - began)
        if progress.text != said:
            said = progress.text
            on.report(progress)
        if not progress.left:
            return Outcome("done", progress)
        if on.timeout and on.api.clock() - began >= on.timeout:
            return Outcome("timeout", progress)
        if on.api.stop.wait(_PAUSES[min(tries, len(_PAUSES) - 1)]):
            return Outcome("stopped", progress)
        tries += 1


def evict(on: Waiting, pods: Collection[Pod]) -> tuple[Blocker, ...]:
    """Ask once for the eviction of these pods; what refused."""
    blockers = []
    for pod in pods:
        on.guard()
        blocker = _evict(on.api, pod)
        if blocker is not None:
            blockers.append(blocker)
    return tuple(blockers)


def _evict(api: Api, pod: Pod) -> Blocker | None:
    try:
        api.evict(pod)
    except TooManyRequests as blocked:
        covering = rules.budgets_of(pod, api.budgets())
        keeping = [budget for budget in covering if budget.allowed < 1] or list(covering)
        if not keeping:
            return Blocker(pod.full_name, f"may not be evicted now: {blocked.why or blocked.what}")
        named = ", ".join(_budget(budget) for budget in keeping)
        return Blocker(pod.full_name, f"is kept by disruption budget {named}", keeping[0].full_name)
    except ApiUnreachable as silent:
        return Blocker(pod.full_name, f"eviction without answer, asked again: {silent.why or silent.what}")
    return None


def _budget(budget: Budget) -> str:
    rule = (
        f"minAvailable {budget.min_available}" if budget.min_available else f"maxUnavailable {budget.max_unavailable}"
    )
    return f"{budget.full_name} ({rule}, allows {budget.allowed} now)"


def _blockers(found: rules.Drain, refused: Mapping[str, Blocker]) -> tuple[Blocker, ...]:
    return (
        *(refused.get(pod.uid, Blocker(pod.full_name, "is asked to go")) for pod in found.evict),
        *(Blocker(pod.full_name, reason) for pod, reason in found.stuck),
        *(Blocker(pod.full_name, _leaving(pod)) for pod in found.wait),
    )


def _leaving(pod: Pod) -> str:
    if not pod.terminating:
        return "is still there"
    kept = f", kept by finalizer {', '.join(pod.finalizers)}" if pod.finalizers else ""
    return f"is ending{kept}"
