"""Getting pods off a node: asked through the Eviction API, so that budgets hold, and waited for.

No pod is deleted, none is killed: what a budget, a missing controller or a finalizer keeps is named while we wait, and
after `timeout` the drain has failed and the node goes back as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
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
        return f"waiting for {self.left}: {named}{more}" if self.left else "nothing is left to wait for"


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


class Asking:
    """Asks pods to go, each at once and again every AGAIN seconds while it is refused."""

    def __init__(self, on: Waiting) -> None:
        self._on = on
        self._asked: dict[str, float] = {}
        self._refused: dict[str, Blocker] = {}

    def ask(self, pods: Collection[Pod], seconds: float) -> tuple[Blocker, ...]:
        """Ask those that are due at `seconds` since the wait began; what keeps each of `pods`."""
        for pod in pods:
            if pod.uid not in self._asked or seconds - self._asked[pod.uid] >= AGAIN:
                self._on.guard()
                self._refused.pop(pod.uid, None)
                blocker = _evict(self._on.api, pod)
                self._asked[pod.uid] = seconds
                if blocker is not None:
                    self._refused[pod.uid] = blocker
        return tuple(self._refused.get(pod.uid, Blocker(pod.full_name, "was asked to go")) for pod in pods)

    @property
    def evicted(self) -> int:
        """Pods whose eviction was granted."""
        return len(self._asked.keys() - self._refused.keys())


def drain(on: Waiting, mode: Literal["gpu-pods", "full"], use: Callable[[], rules.GpuUse]) -> Outcome:
    """Evict what uses a card (or everything) and wait until it is gone. May be called again after a crash.

    `use` is asked at every look, for pods and their processes come and go.
    Raises what `guard` raises; Forbidden; ApiUnreachable after the API's patience.
    """
    asking = Asking(on)

    def look(seconds: float) -> Progress:
        found = rules.drain(on.api.pods(node=on.node), use(), mode)
        blockers = (
            *asking.ask(found.evict, seconds),
            *(Blocker(pod.full_name, reason) for pod, reason in found.stuck),
            *(Blocker(pod.full_name, leaving(pod)) for pod in found.wait),
        )
        return Progress(len(blockers), blockers, asking.evicted, seconds)

    return until_none(on, look)


def wait_for_jobs(on: Waiting, selector: str) -> Outcome:
    """Wait until no pod on the node that the label `selector` names runs any more; nothing is evicted."""

    def look(seconds: float) -> Progress:
        left = rules.unfinished(on.api.pods(node=on.node, selector=selector))
        blockers = tuple(Blocker(pod.full_name, f"is {pod.phase or 'there'} (waited for: {selector})") for pod in left)
        return Progress(len(left), blockers, 0, seconds)

    return until_none(on, look)


def until_none(on: Waiting, look: Callable[[float], Progress]) -> Outcome:
    """`look`, given the seconds since it began, again until nothing is left; reports what changed."""
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


def leaving(pod: Pod) -> str:
    """Why a pod that was asked to go is still there."""
    if not pod.terminating:
        return "is still there"
    kept = f", kept by finalizer {', '.join(pod.finalizers)}" if pod.finalizers else ""
    return f"is ending{kept}"
