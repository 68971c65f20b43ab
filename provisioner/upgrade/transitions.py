"""Which phase follows which: a table, not code.

A node is in (phase, back): `back` is True on the way to the previous packages. Before the driver was touched a
failure lets the node go as it was; afterwards it leads back once; a failure on the way back needs a person.
"""

from __future__ import annotations

from dataclasses import replace

from provisioner.model.upgrade import NodeRecord, Phase, Result, RollOptions

P, R = Phase, Result

FORWARD: dict[tuple[Phase, Result], Phase] = {
    (P.PENDING, R.OK): P.LOCK,
    (P.LOCK, R.OK): P.CORDON,
    (P.LOCK, R.FAILED): P.FAILED,
    (P.CORDON, R.OK): P.WAIT_JOBS,
    (P.CORDON, R.FAILED): P.RELEASE,
    (P.WAIT_JOBS, R.OK): P.EVICT,
    (P.WAIT_JOBS, R.FAILED): P.RELEASE,
    (P.EVICT, R.OK): P.STOP_CLIENTS,
    (P.EVICT, R.FAILED): P.RELEASE,
    (P.STOP_CLIENTS, R.OK): P.UNLOAD,
    (P.STOP_CLIENTS, R.FAILED): P.RELEASE,
    (P.UNLOAD, R.OK): P.INSTALL,
    (P.UNLOAD, R.BUSY): P.INSTALL,  # with a reboot instead of a load; `never` makes it RELEASE, below
    (P.UNLOAD, R.FAILED): P.RELEASE,
    (P.INSTALL, R.OK): P.LOAD,
    (P.LOAD, R.OK): P.VERIFY_HOST,
    (P.REBOOT, R.OK): P.VERIFY_HOST,
    (P.REBOOT, R.FAILED): P.MARK_UNHEALTHY,  # a host that doesn't answer can't be led back
    (P.VERIFY_HOST, R.OK): P.START_CLIENTS,
    (P.START_CLIENTS, R.OK): P.VERIFY_CLUSTER,
    (P.VERIFY_CLUSTER, R.OK): P.UNCORDON,
    (P.UNCORDON, R.OK): P.DONE,
    (P.UNCORDON, R.FAILED): P.MARK_UNHEALTHY,
    (P.RELEASE, R.OK): P.FAILED,
    (P.RELEASE, R.FAILED): P.MARK_UNHEALTHY,
    (P.MARK_UNHEALTHY, R.OK): P.BROKEN,
    (P.MARK_UNHEALTHY, R.FAILED): P.BROKEN,
}
"""From (phase, result) to the next phase on the way forward. What isn't here and failed leads back."""


def following(record: NodeRecord, result: Result, options: RollOptions) -> NodeRecord:
    """The record with its next phase (and `back`, `reboot`). Raises ValueError for a phase that has ended."""
    phase, back = record.phase, record.back
    if phase is P.UNLOAD and result is R.BUSY:
        if options.reboot == "never":
            return replace(record, phase=P.MARK_UNHEALTHY if back else P.RELEASE)
        return replace(record, phase=P.INSTALL, reboot=True)
    if result is R.RETRY_REBOOT:
        # Once: a host that comes back from its restart with the old driver doesn't get better by another one.
        if phase in (P.LOAD, P.VERIFY_HOST) and options.reboot != "never" and not record.reboot:
            return replace(record, phase=P.REBOOT, reboot=True)
        result = R.FAILED
    if phase is P.INSTALL and result is R.OK and record.reboot:
        return replace(record, phase=P.REBOOT)
    if phase is P.STOP_CLIENTS and result is R.OK and record.reboot:
        return replace(record, phase=P.INSTALL)
    if phase is P.UNCORDON and result is R.OK and back:
        return replace(record, phase=P.ROLLED_BACK)
    if result is R.FAILED and back and phase is not P.MARK_UNHEALTHY:
        return replace(record, phase=P.MARK_UNHEALTHY)
    if (phase, result) in FORWARD:
        return replace(record, phase=FORWARD[phase, result])
    if result is R.FAILED:
        if options.rollback == "never":
            return replace(record, phase=P.MARK_UNHEALTHY)
        return replace(record, phase=P.STOP_CLIENTS, back=True, reboot=options.reboot == "always", boot="")
    raise ValueError(f"nothing follows {phase.value} with {result.value}")
