"""The plan of a roll: what a person must see before saying yes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provisioner.model.upgrade import RollPlan
from provisioner.report import upgrade, upgrade_json
from provisioner.report.diff import Style
from tests.unit.report.rolls import BEFORE, NEW, OLD, options, plan, planned


def test_nodes_stand_in_their_order_and_alike_neighbours_together() -> None:
    found = plan(planned(4), planned(1), planned(2), planned(3), planned(7, node="master-1", control_plane=True))
    lines = upgrade.render(found).splitlines()
    rows = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines if "→" in line]
    assert rows == [
        ["1", "gpu04", f"{OLD} → {NEW}"],
        ["2-4", "gpu[01-03]", f"{OLD} → {NEW}"],
        ["5", "gpu07 (master-1)", f"{OLD} → {NEW}", "control plane"],
    ]


def test_what_takes_a_decision_is_on_the_plan() -> None:
    found = plan(
        planned(1),
        planned(2, way_back=False, notes=("MIG instances of 2 cards are lost on the way and put back",)),
        left_out={"gpu06": "cordoned by a person", "gpu07": "cordoned by a person"},
        refused={"gpu08": "no way back: the old packages are gone\x1b[2J\n  they left the repository"},
        files=(("inventories/prod.toml", BEFORE, BEFORE.replace(OLD, NEW)),),
        notes=("budget train/llm allows no eviction now",),
        options=options(canary="gpu01", soak=600.0, window="Sat 02:00-06:00", rollback="never", max_failures=2),
    )
    text = upgrade.render(found)
    for said in (
        "Roll  driver 580.95.05 · 2 nodes · one at a time · 2 left out · 1 refused\n",
        f'  -driver = "{OLD}"  # as the images need it\n  +driver = "{NEW}"  # as the images need it\n',
        "canary, then 10m of watching it, then a question",
        "! no way back\n",
        "i MIG instances of 2 cards are lost",
        "left out  gpu[06-07]: cordoned by a person\n",
        "refused  gpu08: no way back: the old packages are gone\\x1b[2J\n    they left the repository\n",
        "i budget train/llm allows no eviction now\n",
        "NO rollback",
        "nodes begin only Sat 02:00-06:00",
        "ends after 3 failures",
    ):
        assert said in text or said in text.replace("\n  ", " ")
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("found", "asked"),
    [
        (plan(), "Upgrade 3 nodes to driver 580.95.05, one at a time?"),
        (plan(planned(1), cluster=False), "Upgrade 1 host to driver 580.95.05, one at a time?"),
        (plan(options=options(max_unavailable=2)), "Upgrade 3 nodes to driver 580.95.05, 2 at a time?"),
        (plan(kind="toolkit", target="1.18.1"), "Upgrade 3 nodes to toolkit 1.18.1, one at a time?"),
        (plan(kind="deferred", target=""), "Do the restarts that were deferred on 3 nodes, one at a time?"),
        (
            plan(files=(("a/prod.toml", "", "x"), ("a/prod.lock", "", "y"))),
            "Write prod.toml and prod.lock, then upgrade 3 nodes to driver 580.95.05, one at a time?",
        ),
        (replace(plan(files=(("prod.toml", "", "x"),)), nodes=()), "Write prod.toml?"),
    ],
)
def test_the_question(found: RollPlan, asked: str) -> None:
    assert upgrade.question(found) == asked


def test_without_a_cluster_nothing_is_said_of_pods() -> None:
    text = upgrade.render(plan(planned(1, node=""), cluster=False))
    assert "no cluster" in text
    assert "wait for GPU processes (15m)" in text
    assert "cordon" not in text
    assert "pods" not in text


@pytest.mark.parametrize("style", ["full", "compact", "none"])
def test_an_empty_plan(style: Style) -> None:
    assert "Nothing to roll." in upgrade.render(replace(plan(), nodes=()), style)


def test_json_names_nodes_in_order_and_shows_files_as_differences() -> None:
    found = plan(planned(2), planned(1, node="n1"), files=(("prod.toml", BEFORE, BEFORE.replace(OLD, NEW)),))
    doc = upgrade_json.plan(found)
    assert [node["name"] for node in doc["nodes"]] == ["gpu02", "n1"]
    assert f'+driver = "{NEW}"' in doc["files"][0]["diff"]
    assert (doc["kind"], doc["target"], doc["max_unavailable"]) == ("driver", NEW, 1)
