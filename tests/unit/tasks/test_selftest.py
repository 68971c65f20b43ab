"""selftest: what is installed, when the test is run by apply, and what a verdict leads to."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from provisioner.config.templates import Templates
from provisioner.facts.driver import LoadedModules, Module, ModulesOnDisk, ModulesOnDiskProbe
from provisioner.facts.files import FileProbe, FileState
from provisioner.facts.gpu import PciDevice, PciProbe
from provisioner.facts.host import Identity, IdentityProbe
from provisioner.facts.selftest import SelfTest, SelfTestProbe
from provisioner.model.action import Link, Run, WriteFile
from provisioner.model.change import Change, Disruption, Note
from provisioner.model.fact import Output, Probe
from provisioner.tasks.context import Context, Options
from provisioner.tasks.proof import assert_settles, changes, context_of, facts_of, findings
from provisioner.tasks.selftest import REPORT_UNIT, TEST_UNIT, SelfTestTask

TASK = SelfTestTask()
WANTS = "/etc/systemd/system/multi-user.target.wants"
CARDS = (PciDevice("0000:01:00.0", 0x2331, "0302", driver="nvidia"),)
DISK = ModulesOnDisk("6.1.0", {"nvidia": Module("nvidia", "580.95.05")})


def context(*beside: Path, **variables: Any) -> Context:
    ctx = context_of(
        {"gpu.cards": 1, "selftest.deadline": 90, **{k.replace("_", ".", 1): v for k, v in variables.items()}}
    )
    return dataclasses.replace(ctx, renderer=Templates(beside))


CTX = context()
VERSION = TASK.version(CTX)
PASSED = SelfTest("pass", version=VERSION, boot="b/1", trusted=VERSION)


def link(unit: str) -> FileState:
    return FileState("dangling", 0o777, "root", "root", 0, link=f"/etc/systemd/system/{unit}")


def host(last: SelfTest | None = PASSED, installed: bool = True, **more: Any) -> dict[Probe[Any], Any]:
    """A host of one card with its driver loaded."""
    facts: dict[Probe[Any], Any] = {
        IdentityProbe(): Identity("m", "b", 1, True),
        SelfTestProbe(): last,
        PciProbe(): more.get("cards", CARDS),
        LoadedModules(): more.get("loaded", {"nvidia": "580.95.05"}),
        ModulesOnDiskProbe(): DISK,
    }
    for file in TASK.files(CTX):
        state = FileState("file", file.mode, "root", "root", 1, content=file.content(CTX))
        facts[file.probe] = state if installed else None
    for unit in (TEST_UNIT, REPORT_UNIT):
        facts[FileProbe(f"{WANTS}/{unit}", content=False)] = link(unit) if installed else None
    return facts


def of(found: list[Change], subject: str) -> Change:
    (change,) = [change for change in found if change.subject == subject]
    return change


def test_everything_is_installed_enabled_and_tested_once_without_disturbing_anything() -> None:
    found = assert_settles(TASK, before=host(None, installed=False), after=host(), ctx=CTX)
    written = {a.path: a.mode for change in found for a in change.actions if isinstance(a, WriteFile)}
    assert written == {
        "/usr/local/libexec/provision/provision-selftest": 0o755,
        "/usr/local/libexec/provision/cuda_check.py": 0o644,
        "/usr/local/libexec/provision/fatal_xid.awk": 0o644,
        "/usr/local/libexec/provision/provision-selftest-report": 0o755,
        "/usr/local/libexec/provision/api_request.py": 0o644,
        "/usr/local/libexec/provision/json_paths.awk": 0o644,
        "/etc/provision/selftest.conf": 0o644,
        f"/etc/systemd/system/{TEST_UNIT}": 0o644,
        f"/etc/systemd/system/{REPORT_UNIT}": 0o644,
    }
    links = [action for change in found for action in change.actions if isinstance(action, Link)]
    assert links == [Link(f"{WANTS}/{unit}", f"/etc/systemd/system/{unit}") for unit in (TEST_UNIT, REPORT_UNIT)]
    (run,) = of(found, "self-test passed").actions
    assert isinstance(run, Run)
    assert run.script.startswith("/usr/local/libexec/provision/provision-selftest --trust")
    assert run.timeout > 90
    assert {change.disruption for change in found} == {Disruption.NONE}


def test_units_bound_kubelets_wait_and_never_stop_it() -> None:
    files = {file.path.rpartition("/")[2]: file.content(CTX) for file in TASK.files(CTX)}
    test, report = files[TEST_UNIT].splitlines(), files[REPORT_UNIT].splitlines()
    assert "TimeoutStartSec=120" in test
    assert "Before=kubelet.service k3s.service k3s-agent.service rke2-server.service rke2-agent.service" in test
    assert not any("RequiredBy" in line or "Before" in line for line in report)
    assert "Type=simple" in report
    assert "DEADLINE=90" in files["selftest.conf"].splitlines()


def test_changed_expectation_is_a_new_version_that_must_pass_again() -> None:
    ctx = context(gpu_cards=8)
    assert TASK.version(ctx) != VERSION
    found = changes(TASK, host(), ctx)
    assert [change.subject for change in found] == ["/etc/provision/selftest.conf", "self-test passed"]
    assert of(found, "self-test passed").requires == ("/etc/provision/selftest.conf",)


@pytest.mark.parametrize("result", ["fail", "unknown"])
def test_verdict_that_is_no_pass_waits_and_is_not_run_again_and_again(result: str) -> None:
    last = SelfTest(result, "CardMissing", "1 of 2 cards", version=VERSION, boot="b/1", age=5)
    (change,) = changes(TASK, host(last), CTX)
    assert change.deferred is not None
    assert change.deferred.reason == f"the self-test says {result} (CardMissing: 1 of 2 cards)"


def test_verdict_of_an_earlier_boot_is_asked_anew() -> None:
    last = SelfTest("fail", "CardMissing", version=VERSION, boot="a/1")
    (change,) = changes(TASK, host(last), CTX)
    assert change.deferred is None


def test_pass_that_apply_did_not_see_is_seen_now() -> None:
    (change,) = changes(TASK, host(dataclasses.replace(PASSED, trusted="")), CTX)
    assert (change.subject, change.deferred) == ("self-test passed", None)


def test_trusted_test_that_fails_is_told_and_changes_nothing() -> None:
    (note,) = findings(TASK, host(dataclasses.replace(PASSED, result="fail", reason="FatalXid")), CTX)
    assert isinstance(note, Note)
    assert "fail (FatalXid)" in note.text


def test_another_loaded_driver_waits_for_the_roll() -> None:
    (change,) = changes(TASK, host(SelfTest(), loaded={"nvidia": "570.172.08"}), CTX)
    assert change.deferred is not None
    assert "570.172.08 is loaded and 580.95.05 is on disk" in change.deferred.reason
    assert change.deferred.command.startswith("provision upgrade-driver site.toml")


def test_card_held_by_nouveau_waits_for_the_reboot() -> None:
    cards = (dataclasses.replace(CARDS[0], driver="nouveau"),)
    (change,) = changes(TASK, host(SelfTest(), loaded=None, cards=cards), CTX)
    assert change.deferred is not None
    assert "reboot pending" in change.deferred.reason
    (change,) = changes(
        TASK, host(SelfTest(), loaded=None, cards=cards), dataclasses.replace(CTX, options=Options(reboot=True))
    )
    assert (change.provisional, change.deferred) == (True, None)


def test_driver_that_an_earlier_stage_loads_is_only_announced() -> None:
    (change,) = changes(TASK, host(SelfTest(), loaded=None, cards=(dataclasses.replace(CARDS[0], driver=""),)), CTX)
    assert (change.provisional, change.deferred) == (True, None)


def test_host_without_cards_is_prepared_and_not_tested() -> None:
    assert changes(TASK, host(None, cards=()), CTX) == []


def test_image_build_installs_and_tests_nothing() -> None:
    facts = {**host(None, installed=False), IdentityProbe(): Identity("m", "b", 1, False)}
    assert "self-test passed" not in [change.subject for change in changes(TASK, facts, CTX)]


def test_switched_off_on_the_host_by_a_person() -> None:
    (note,) = findings(TASK, host(SelfTest("off", disabled=True)), CTX)
    assert "switched off" in getattr(note, "text", "")


def test_switched_off_by_the_inventory() -> None:
    ctx = context(selftest_enabled=False)
    found = changes(TASK, host(), ctx)
    assert [change.subject for change in found] == [f"{TEST_UNIT} enabled", f"{REPORT_UNIT} enabled"]


def test_masked_unit_stays_masked() -> None:
    masked = FileState("other", 0o666, "root", "root", 0, link="/dev/null")
    facts = {**host(), FileProbe(f"/etc/systemd/system/{TEST_UNIT}"): masked}
    assert changes(TASK, facts, CTX) == []


def test_the_host_computes_the_version_that_the_plan_knows(tmp_path: Path) -> None:
    """The scripts as rendered, run here, through a site's own block in the configuration."""
    site = tmp_path / "site/templates/selftest/selftest.conf"
    site.parent.mkdir(parents=True)
    paths = f"STATE_DIR={tmp_path}/state\nSYSFS={tmp_path}/sys\n"
    site.write_text(
        '{% extends "!shipped/selftest/selftest.conf" %}\n{% block settings %}\n{{ super() }}'
        + paths
        + "{% endblock %}\n"
    )
    ctx = context(tmp_path / "site", gpu_cards=0)
    for file in TASK.files(ctx):
        (tmp_path / Path(file.path).name).write_text(file.content(ctx))
    command = [shutil.which("dash") or "sh", str(tmp_path / "provision-selftest"), str(tmp_path / "selftest.conf")]
    subprocess.run(command, check=True, timeout=30, capture_output=True)
    assert json.loads((tmp_path / "state/selftest.json").read_text())["version"] == TASK.version(ctx)


def test_facts_show_verdict_checks_and_cards() -> None:
    verdict = {
        "result": "fail",
        "reason": "FatalXid",
        "detail": "0000:01:00: Xid 79",
        "version": VERSION,
        "boot_id": "b",
        "boot_start": "1",
        "checks": [{"name": "xid", "result": "fail", "reason": "FatalXid", "detail": ""}],
        "cards": [{"index": 0, "result": "pass"}],
    }
    text = f'trusted {VERSION}\nselftest-report {{"outcome": "reported"}}\nselftest {json.dumps(verdict)}\n'
    last = SelfTestProbe().parse(Output(0, text.encode()))
    assert last.boot == "b/1"
    told = TASK.describe(facts_of({SelfTestProbe(): last}), CTX)["self_test"]
    assert (told["result"], told["trusted"], told["report"]) == ("fail", True, "reported")
    assert told["checks"] == {"xid": "fail"}
    assert told["cards"] == [{"index": 0, "result": "pass"}]


def test_an_old_verdict_that_is_no_pass_is_tried_again() -> None:
    last = SelfTest("unknown", "CudaCheckFailed", "no python3", version=VERSION, boot="b/1", age=3600)
    (change,) = changes(TASK, host(last), CTX)
    assert change.deferred is None
