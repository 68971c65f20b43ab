"""How a roll stands and ended: evidence, and a command for everything that needs one."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest

from provisioner.cli.main import cli
from provisioner.model.upgrade import Phase
from provisioner.report import upgrade_json, upgrade_report
from provisioner.report.paint import Paint
from tests.unit.report.rolls import CALL, NEW, record, report

MIXED = report(
    record(1, Phase.DONE),
    record(2, Phase.EVICT, since=1000.0, reason="waiting for 1: train/llm-0"),
    record(3, Phase.BROKEN, back=True, cordoned_before=("person",), reason="cards: 1 of 2 are there; fabric\x1b[2J"),
    record(4, Phase.FAILED, reason="budget train/llm allowed no eviction in 15m"),
    record(5, Phase.PENDING),
    stopped="gpu03 failed, and --max-failures is 0",
    outdated=("train/llm-1",),
    seconds={"gpu01": {"evicting": 30.0, "installing": 100.0}},
    journal="/state/journal.jsonl",
)


def test_what_is_in_trouble_comes_with_evidence_and_a_command() -> None:
    text = upgrade_report.final(MIXED, CALL)
    for said in (
        "gpu03  broken\n  | cards: 1 of 2 are there\n  | fabric\\x1b[2J\n",
        "    provision upgrade-driver inventories/prod.toml --drain full --limit gpu03\n",
        "    provision upgrade-driver inventories/prod.toml --drain full --limit gpu04\n",
        "gpu-unhealthy=true, and the cordon of person, upgrade",
        "No further node was begun: gpu03 failed",
        "make them anew: train/llm-1",
        "gpu[02,05] not at an end: go on:\n",
        "  provision upgrade-driver inventories/prod.toml --limit h100 --drain full --resume\n",
        "1 evicting, 1 broken, 1 failed, 1 pending, 1 done of 5 nodes. Journal: /state/journal.jsonl\n",
    ):
        assert said in text
    assert "\x1b" not in text


def test_the_table_begins_with_what_needs_a_person() -> None:
    head, *rows = upgrade_report.table(MIXED)
    assert head.split() == ["NODE", "PHASE", "TIME", "VERSION", "CORDONED", "BY"]
    assert [row.split()[0] for row in rows] == ["gpu02", "gpu03", "gpu04", "gpu05", "gpu01"]
    assert rows[4].split() == ["gpu01", "done", "2m10s", NEW, "-"]
    painted = upgrade_report.table(MIXED, Paint(True))
    assert "\x1b[32mdone\x1b[0m" in painted[5]


def test_status_says_who_is_at_work_how_long_and_how_to_end_it() -> None:
    text = upgrade_report.status(replace(MIXED, holder="ops@laptop"), CALL, 1125.0)
    assert "At work: ops@laptop\n" in text
    assert "gpu02  evicting  2m05s" in text
    assert "provision upgrade-driver inventories/prod.toml --abort" in text
    assert "--resume" not in text


def test_status_of_a_frozen_cluster_names_the_way_out() -> None:
    text = upgrade_report.status(report(frozen="christmas"), CALL, 0.0)
    assert "All rolls are frozen: christmas. To end that: kubectl -n kube-system annotate lease" in text
    assert "Nobody is at work." in text


@pytest.mark.parametrize("phase", list(Phase))
def test_no_node_stays_cordoned_without_being_told(phase: Phase) -> None:
    held = phase not in (*(Phase.PENDING, Phase.LOCK, Phase.DONE, Phase.FAILED, Phase.ROLLED_BACK),)
    assert ("upgrade" in upgrade_report.cordoned(record(1, phase))) is held
    assert upgrade_report.cordoned(record(1, phase, cordoned_before=("person",)))[0] == "person"
    assert upgrade_report.cordoned(record(1, phase, node="", cordoned_before=())) == ()


def test_a_good_end_asks_for_nothing() -> None:
    found = report(record(1, Phase.DONE), record(2, Phase.DONE))
    assert upgrade_report.next_steps(found, CALL) == ()
    assert "provision" not in upgrade_report.final(found, CALL)


def test_the_commands_that_are_named_can_be_typed() -> None:
    """Options that exclude each other would make the advice worthless."""
    from provisioner.cli.upgrade_driver import upgrade_driver

    found = [*upgrade_report.next_steps(MIXED, CALL)]
    found += upgrade_report.next_steps(replace(MIXED, holder="ops@laptop"), CALL)
    found += upgrade_report.next_steps(report(interrupted=True), CALL)
    assert len(found) == 7
    for step in found:
        program, command, *arguments = shlex.split(step.command)
        assert (program, command) == ("provision", "upgrade-driver")
        assert "upgrade-driver" in cli.list_commands(upgrade_driver.make_context("x", ["prod.toml"]))
        upgrade_driver.make_context("upgrade-driver", arguments)


def test_json_keys_are_node_names_and_host_names_without_a_cluster() -> None:
    found = report(record(1, Phase.DONE, node="node-1"), record(2, Phase.DONE, node=""))
    doc = upgrade_json.report(found, CALL)
    assert {name: node["phase"] for name, node in doc["nodes"].items()} == {"node-1": "done", "gpu02": "done"}
    assert doc["nodes"]["node-1"]["host"] == "gpu01"
    doc = json.loads(json.dumps(upgrade_json.report(MIXED, CALL)))
    assert doc["nodes"]["gpu03"]["cordoned_by"] == ["person", "upgrade"]
    assert doc["nodes"]["gpu01"]["seconds"] == {"evicting": 30.0, "installing": 100.0}
    assert [step["hosts"] for step in doc["next"]] == [["gpu03"], ["gpu04"], ["gpu02", "gpu05"]]
