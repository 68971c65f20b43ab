"""One roll at a time in a cluster: the Lease kube-system/provision-upgrade.

Fencing: each acquisition has a token that only grows (annotation `provision.dev/token`; the lease is never deleted,
and should somebody delete it, the clock keeps new tokens above old ones). Every side effect is preceded by
`Held.check`, a fresh read; node patches and host scripts carry the token and refuse an older one.

Clocks of two machines may differ, so `renewTime` alone proves little. A lease is taken over when it ran out by our
clock *and* either didn't change while we watched it for its whole duration on our monotonic clock, or ran out longer
ago than clocks differ (SKEW), or its holder was a process of this very machine that is no more. A holder that only
slept or was cut off, and was not taken over, goes on: holder and token are still its own, and it renews.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from provisioner.errors import ApiUnreachable, Conflict, Frozen, KubeError, LeaseHeld, LeaseLost, NotFound
from provisioner.kube.api import Api
from provisioner.kube.objects import field_owner, seconds, timestamp
from provisioner.upgrade.holder import Holder

NAMESPACE, NAME = "kube-system", "provision-upgrade"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
LEASE = f"{LEASES}/{NAME}"
TOKEN, RUN, PLACE = "provision.dev/token", "provision.dev/run", "provision.dev/place"
FREEZE, ABORT = "provision.dev/freeze", "provision.dev/abort"

DURATION = 60.0
RENEW = 15.0
SKEW = 300.0
"""Seconds: validity without renewal, between renewals, and by how much we let clocks differ."""

_STATUS_COMMAND = "see it with: provision upgrade-driver INVENTORY --status"


@dataclass(frozen=True)
class State:
    """The lease as it was read. `who` is "" while nobody holds it; times in seconds since the epoch."""

    who: str = ""
    run: str = ""
    token: int = 0
    place: str = ""
    since: float = 0.0
    renewed: float = 0.0
    duration: float = DURATION
    frozen: str = ""
    frozen_by: str = ""
    abort: str = ""
    version: str = ""

    @property
    def expires(self) -> float:
        """When it runs out unless it is renewed."""
        return self.renewed + self.duration


def state(raw: Mapping[str, Any]) -> State:
    """A Lease object. Pure."""
    meta, spec = raw.get("metadata") or {}, raw.get("spec") or {}
    notes = meta.get("annotations") or {}
    noted = str(notes.get(TOKEN, ""))
    return State(
        who=str(spec.get("holderIdentity") or ""),
        run=str(notes.get(RUN, "")),
        token=int(noted) if noted.isdigit() else int(spec.get("leaseTransitions") or 0),
        place=str(notes.get(PLACE, "")),
        since=seconds(str(spec.get("acquireTime") or "")),
        renewed=seconds(str(spec.get("renewTime") or "")),
        duration=float(spec.get("leaseDurationSeconds") or DURATION),
        frozen=str(notes[FREEZE] or "no reason was given") if FREEZE in notes else "",
        frozen_by=field_owner(raw, "metadata", "annotations", FREEZE) if FREEZE in notes else "",
        abort=str(notes.get(ABORT, "")),
        version=str(meta.get("resourceVersion", "")),
    )


def read(api: Api) -> tuple[State, dict[str, Any] | None]:
    """The lease and its object; a State without holder and None where it was never made."""
    try:
        raw = api.get(LEASE)
    except NotFound:
        return State(), None
    return state(raw), raw


def refuse_frozen(found: State) -> None:
    """Raises Frozen where the lease has the annotation `provision.dev/freeze`."""
    if not found.frozen:
        return
    by = f", set with {found.frozen_by}" if found.frozen_by else ""
    raise Frozen(
        "all rolls of this cluster are frozen",
        why=f"lease {NAMESPACE}/{NAME} has the annotation {FREEZE}: {found.frozen}{by}",
        remedy=f"when it may go on: kubectl -n {NAMESPACE} annotate lease {NAME} {FREEZE}- , then --resume",
    )


def _held(found: State) -> LeaseHeld:
    since, until = timestamp(found.since)[:19] + "Z", timestamp(found.expires)[:19] + "Z"
    return LeaseHeld(
        found.who,
        found.run,
        found.since,
        found.expires,
        why=f"it has worked since {since}; its lease runs until {until} and is renewed while it lives",
        remedy=f"wait for its end; if it is dead, try again after that time. {_STATUS_COMMAND}",
    )


class Watched:
    """Whether a lease has run out, as one observer may judge it (see above)."""

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._clock, self._wall = clock, wall
        self._version, self._since = "", 0.0
        self.moved = False

    def look(self, found: State) -> None:
        """Note what was read now."""
        if found.version != self._version:
            self.moved = self._version != ""
            self._version, self._since = found.version, self._clock()

    def past(self, found: State) -> bool:
        """It ran out by our clock: its holder may be dead, or have a clock that goes behind ours."""
        return self._wall() > found.expires

    def expired(self, found: State) -> bool:
        """It may be taken over."""
        unchanged = self._clock() - self._since >= found.duration
        return self.past(found) and (unchanged or self._wall() > found.expires + SKEW)


def acquire(
    api: Api,
    run: str,
    holder: Holder,
    *,
    wait: float = 0.0,
    duration: float = DURATION,
    renew: float = RENEW,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> Held:
    """Take the lease and renew it from now on.

    A lease that looks dead is watched until that is sure; for one that lives, up to `wait` seconds.
    Raises LeaseHeld, Frozen, KubeError; LeaseHeld also when `api.stop` is set while waiting.
    """
    watched, deadline = Watched(clock, wall), clock() + wait
    while True:
        found, raw = read(api)
        watched.look(found)
        refuse_frozen(found)
        if not found.who or watched.expired(found) or holder.outlived(found.place):
            held = _take(api, found, raw, run, holder, duration, renew, wall)
            if held is not None:
                return held
            continue
        alive = watched.moved or not watched.past(found)
        if (alive and clock() >= deadline) or api.stop.wait(min(1.0, found.duration / 4)):
            raise _held(found)


def _take(
    api: Api,
    found: State,
    raw: dict[str, Any] | None,
    run: str,
    holder: Holder,
    duration: float,
    renew: float,
    wall: Callable[[], float],
) -> Held | None:
    """The lease as ours, None where somebody else was faster."""
    at = wall()
    token = max(found.token + 1, int(at))
    meta: dict[str, Any] = {"name": NAME, "namespace": NAMESPACE, **((raw or {}).get("metadata") or {})}
    meta.pop("managedFields", None)
    notes = {key: value for key, value in (meta.get("annotations") or {}).items() if key != ABORT}
    meta["annotations"] = {**notes, TOKEN: str(token), RUN: run, PLACE: holder.place}
    spec = {
        "holderIdentity": holder.who,
        "leaseDurationSeconds": max(1, round(duration)),
        "acquireTime": timestamp(at),
        "renewTime": timestamp(at),
        "leaseTransitions": int(((raw or {}).get("spec") or {}).get("leaseTransitions") or 0) + 1,
    }
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
    try:
        _ = api.create(LEASES, body) if raw is None else api.replace(LEASE, body)
    except Conflict:
        return None
    except ApiUnreachable:
        now, _raw = read(api)  # patient: the fresh look tells whether it was written
        if (now.token, now.run, now.place) != (token, run, holder.place):
            return None
    return Held(api, run, holder.who, token, renew, wall)


class Holding(Protocol):
    """What lets a run have side effects."""

    token: int

    def check(self) -> None:
        """Raises LeaseLost, Frozen or KubeError unless the run may still change something, by a fresh look."""
        ...

    def release(self) -> None:
        """Give it back; never raises."""
        ...


class Unleased:
    """Without a cluster there is no lease: the hosts' own locks and the token, which grows with time, must do."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self.token = int(wall())

    def check(self) -> None:
        """See Holding.check."""

    def release(self) -> None:
        """See Holding.release."""


class Held:
    """The lease while it is ours, renewed by a thread. `abort` is set once somebody asked for the run's end."""

    def __init__(self, api: Api, run: str, who: str, token: int, every: float, wall: Callable[[], float]) -> None:
        self.run, self.who, self.token = run, who, token
        self.abort = threading.Event()
        self._api, self._wall = api, wall
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._renewing, args=(every,), name="lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """See Holding.check. One read; a lease that ran out and is still ours is renewed first."""
        found, raw = self._ours()
        refuse_frozen(found)
        if self._wall() > found.expires:
            self._renew(raw)

    def release(self) -> None:
        """See Holding.release. The lease stays, without a holder: its token must go on growing."""
        self._end.set()
        self._thread.join(timeout=60)
        try:
            _, raw = self._ours()
            self._renew(raw, holder=None)
        except (KubeError, LeaseLost):
            return

    def _ours(self) -> tuple[State, dict[str, Any]]:
        found, raw = read(self._api)
        if raw is None or (found.who, found.token, found.run) != (self.who, self.token, self.run):
            taken = f"{found.who}, run {found.run}, holds it now" if found.who else "nobody holds it now"
            raise LeaseLost(
                f"the lease {NAMESPACE}/{NAME} is no longer ours",
                why=f"{taken} (token {found.token}, ours {self.token})",
                remedy=f"this run changes nothing more. {_STATUS_COMMAND}",
            )
        if found.abort == self.run:
            self.abort.set()
        return found, raw

    def _renew(self, raw: dict[str, Any], holder: str | None = "") -> None:
        """Raises LeaseLost when it was taken over, KubeError."""
        while True:
            meta = {key: value for key, value in raw["metadata"].items() if key != "managedFields"}
            spec = {**raw["spec"], "renewTime": timestamp(self._wall())}
            if holder is None:
                spec.pop("holderIdentity", None)
            try:
                self._api.replace(LEASE, {**raw, "metadata": meta, "spec": spec})
            except Conflict:
                _, raw = self._ours()  # an annotation was set, or it was taken over
            else:
                return

    def _renewing(self, every: float) -> None:
        while not self._end.wait(every):
            try:
                self._renew(self._ours()[1])
            except LeaseLost:
                return  # `check` finds it too, before the next side effect
            except KubeError:
                continue


def request_abort(api: Api) -> str:
    """Ask the run that holds the lease to come to a safe end; its holder, "" where nobody holds it."""
    while True:
        found, raw = read(api)
        if raw is None or not found.who:
            return ""
        if found.abort == found.run:
            return found.who
        meta = {key: value for key, value in raw["metadata"].items() if key != "managedFields"}
        meta["annotations"] = {**(meta.get("annotations") or {}), ABORT: found.run}
        try:
            api.replace(LEASE, {**raw, "metadata": meta})
        except Conflict:
            continue
