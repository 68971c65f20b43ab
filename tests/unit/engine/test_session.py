"""A session does what its own last plan shows; any other plan is compared with the hosts first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from provisioner import api
from provisioner.errors import PlanMoved, PlaybookError
from tests.unit.engine.world import World, steps

INVENTORY = 'playbook = "book.toml"\n[hosts.gpu01]\n'
BOOK = """
description = "one flag"
[[stages]]
name = "site"
[[stages.tasks]]
task = "test.flag"
flag = "a"
"""


@pytest.fixture
def world() -> World:
    wanted = steps("gpu01")
    return World(wanted.ctx.host, wanted)


@pytest.fixture
def opened(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], api.Session]:
    """Opens a new session over the one host."""
    monkeypatch.setenv("PROVISION_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "site.toml").write_text(INVENTORY)
    (tmp_path / "book.toml").write_text(BOOK)

    def make() -> api.Session:
        session = api.open(tmp_path / "site.toml", connect=lambda host: world)
        world.wanted = session.steps("gpu01")
        return session

    return make


def test_a_saved_plan_is_compared_even_where_the_session_has_read_the_hosts(
    opened: Callable[[], api.Session], world: World
) -> None:
    saved = api.load_plan(api.dump_plan(opened().plan()), "saved.plan")
    world.flags["a"] = "up"
    session = opened()
    session.facts()
    with pytest.raises(PlanMoved):
        session.apply(saved)
    session.plan()
    with pytest.raises(PlanMoved):
        session.apply(saved)
    assert world.history == []


def test_its_own_plan_costs_no_further_reading(opened: Callable[[], api.Session], world: World) -> None:
    session = opened()
    result = session.apply(session.plan())
    assert (result.exit_code, result.hosts["gpu01"].execs, world.flags) == (0, 3, {"a": "up"})


def test_two_tasks_that_want_the_same_thing_are_told_apart_or_refused(
    opened: Callable[[], api.Session], tmp_path: Path
) -> None:
    (tmp_path / "book.toml").write_text(BOOK + '[[stages.tasks]]\ntask = "test.flag"\nflag = "a"\nvalue = "down"\n')
    session = opened()
    with pytest.raises(PlaybookError, match="two changes are named"):
        session.plan()
