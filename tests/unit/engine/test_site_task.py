"""A site's own task that breaks off stops the plan of its host, and says where."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from provisioner.engine.planning import HostSteps, Step, plan_host
from provisioner.errors import PlaybookError
from provisioner.model.change import Finding
from provisioner.model.fact import Facts
from provisioner.tasks.context import Context
from provisioner.tasks.proof import context_of, facts_of
from provisioner.tasks.task import Task


class Broken(Task):
    """Raises what it is given."""

    name = "acme.broken"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        raise self.error


def steps(error: Exception) -> HostSteps:
    return HostSteps(context_of(), (Step("site", "ours", Broken(error)),))


def test_the_host_is_blocked_and_told_why() -> None:
    plan = plan_host(steps(KeyError("gone")), facts_of({}))
    assert plan.blocked
    ((stage, label, text),) = plan.unknown
    assert (stage, label) == ("site", "ours")
    what, why, where, remedy = text.splitlines()
    assert "acme.broken broke off" in what
    assert "KeyError: 'gone'" in why
    assert f"{__file__}:" in where
    assert "mend the task" in remedy


def test_what_it_says_itself_is_passed_on() -> None:
    with pytest.raises(PlaybookError, match="no such thing"):
        plan_host(steps(PlaybookError("no such thing")), facts_of({}))
