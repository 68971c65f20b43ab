"""Does a saved plan still fit? Pure."""

from __future__ import annotations

from provisioner.engine.hostrun import digest
from provisioner.engine.secrets import Secrets
from provisioner.errors import PlanMoved
from provisioner.model.change import Change
from provisioner.model.plan import HostPlan, Plan

AGAIN = "plan again, and look at what is different"


def check_fit(saved: Plan, now: Plan, secrets: Secrets) -> None:
    """Raises PlanMoved when inventory, playbook, a secret or one of the plan's hosts isn't what it was."""
    if saved.inventory_digest != now.inventory_digest:
        raise PlanMoved("the inventory has changed since the plan was saved", why=now.inventory, remedy=AGAIN)
    if saved.playbook_digest != now.playbook_digest:
        raise PlanMoved("the playbook has changed since the plan was saved", why=now.playbook, remedy=AGAIN)
    salt = saved.secrets.get("salt", "")
    if {"salt": salt, **secrets.hashes(salt)} != dict(saved.secrets):
        raise PlanMoved("a secret has changed since the plan was saved", remedy=AGAIN)
    current = {plan.host: plan for plan in now.hosts}
    for plan in saved.hosts:
        if plan.host not in current:
            raise PlanMoved(f"{plan.host} of the saved plan isn't selected now", remedy="use the same --limit")
        why = moved(plan, current[plan.host])
        if why:
            raise PlanMoved(f"{plan.host} has moved since the plan was saved", why=why, remedy=AGAIN)


def moved(saved: HostPlan, now: HostPlan) -> str:
    """What differs, or ""."""
    if now.error:
        return now.error
    if saved.identity.split("/")[0] != now.identity.split("/")[0]:
        return "it is another machine (its machine id differs)"
    before = {change.id: shown(change) for change in saved.changes}
    after = {change.id: shown(change) for change in now.changes}
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            return f"{name} is no longer needed"
        if name not in before:
            return f"{name} is needed now"
        if before[name][0] != after[name][0]:
            return f"{name} would do something else now"
        if before[name] != after[name]:
            return f"{name} would change something else than what was there"
    return ""


def shown(change: Change) -> tuple[tuple[str, bool], str | None]:
    """What a person saw of a change and agreed to: what it does and whether it waits; what it does that to."""
    return (digest(change), change.deferred is None), change.before
