"""A saved plan is applied to exactly what it was made for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provisioner.engine.saved import check_fit
from provisioner.engine.secrets import Secrets
from provisioner.errors import PlanMoved
from provisioner.model.action import WriteFile
from provisioner.model.change import Change, Kind
from provisioner.model.inventory import Secret
from provisioner.model.plan import HostPlan, Plan

SECRETS = Secrets([Secret("mirror", "s3cr3t-pass")])
CHANGE = Change("/etc/a", "a", Kind.UPDATE, (WriteFile("/etc/a", "one"),), task="file", stage="site")
HOST = HostPlan("gpu01", (CHANGE,), identity="machine/boot/1")
PLAN = Plan(
    "gpu-node",
    "prod.toml",
    ("site",),
    (HOST,),
    inventory_digest="i",
    playbook_digest="p",
    secrets={"salt": "s", **SECRETS.hashes("s")},
)


def test_the_same_world_fits() -> None:
    check_fit(PLAN, replace(PLAN, secrets={}, hosts=(replace(HOST, identity="machine/boot/2"),)), SECRETS)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (replace(PLAN, inventory_digest="other"), "inventory"),
        (replace(PLAN, playbook_digest="other"), "playbook"),
        (replace(PLAN, hosts=()), "selected"),
        (replace(PLAN, hosts=(replace(HOST, changes=()),)), "no longer needed"),
        (replace(PLAN, hosts=(replace(HOST, changes=(CHANGE, replace(CHANGE, subject="/etc/b"))),)), "/etc/b"),
        (
            replace(PLAN, hosts=(replace(HOST, changes=(replace(CHANGE, actions=(WriteFile("/etc/a", "two"),)),)),)),
            "something else",
        ),
        (replace(PLAN, hosts=(replace(HOST, changes=(CHANGE.defer("busy"),)),)), "something else"),
        (replace(PLAN, hosts=(replace(HOST, identity="other/boot/1"),)), "another machine"),
        (replace(PLAN, hosts=(replace(HOST, error="gone"),)), "gone"),
    ],
)
def test_a_moved_world_is_refused(now: Plan, said: str) -> None:
    with pytest.raises(PlanMoved, match=said):
        check_fit(PLAN, now, SECRETS)


def test_a_changed_secret_is_noticed() -> None:
    with pytest.raises(PlanMoved, match="secret"):
        check_fit(PLAN, PLAN, Secrets([Secret("mirror", "another-pass")]))
