"""`upgrade-driver`: what is asked before anything happens, what reaches the roll, and how its end is told."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import provisioner
from provisioner.cli import options
from provisioner.model.event import Event
from provisioner.model.upgrade import Phase, RollPlan, RollReport
from tests.unit.cli.conftest import Said
from tests.unit.report import rolls

Provision = Callable[..., Said]
Answers = Callable[[str], None]


@dataclass
class StandInRoller:
    """Answers from given plans and reports, in place of hosts and a cluster."""

    planned: RollPlan = field(default_factory=rolls.plan)
    prepared: RollPlan | None = None
    report: RollReport = field(default_factory=lambda: rolls.report(rolls.record(1, Phase.DONE)))
    stands: RollReport = field(default_factory=rolls.report)
    holder: str = ""
    hosts: int = 8
    calls: list[str] = field(default_factory=list)
    ran: RollPlan | None = None
    opened: dict[str, Any] = field(default_factory=dict)
    during: Callable[[str], None] = lambda step: None

    def _step(self, name: str) -> None:
        self.calls.append(name)
        self.during(name)

    def __enter__(self) -> StandInRoller:
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.append("close")

    def plan(self) -> RollPlan:
        self._step("plan")
        return self.planned

    def prepare(self, plan: RollPlan) -> RollPlan:
        self._step("prepare")
        return self.prepared or plan

    def run(self, plan: RollPlan) -> RollReport:
        self.ran = plan
        self._step("run")
        return self.report

    def resume(self) -> RollReport:
        self._step("resume")
        return self.report

    def status(self) -> RollReport:
        self._step("status")
        return self.stands

    def abort(self) -> str:
        self._step("abort")
        return self.holder

    def stop(self) -> None:
        self.calls.append("stop")


@pytest.fixture
def roller(monkeypatch: pytest.MonkeyPatch) -> StandInRoller:
    """Puts the stand-in where the command finds the api."""
    made = StandInRoller()

    def open_roll(path: Path, options: Any, **how: Any) -> StandInRoller:
        made.opened = {"path": path, "options": options, **how}
        return made

    api = SimpleNamespace(
        open_roll=open_roll, load=lambda path, limit, sets: SimpleNamespace(hosts=tuple(range(made.hosts)))
    )
    monkeypatch.setitem(sys.modules, "provisioner.api", api)
    monkeypatch.setattr(provisioner, "api", api, raising=False)
    monkeypatch.setattr(options, "inventory_path", lambda argument=None: Path(argument or "prod.toml"))
    return made


def test_the_order_of_things(roller: StandInRoller, provision: Provision) -> None:
    said = provision("upgrade-driver", "prod.toml", "--to", rolls.NEW, "--yes")
    assert said.code == 0
    assert roller.calls == ["plan", "prepare", "run", "close"]
    assert said.out.index("Roll  driver 580.95.05") < said.out.index("gpu01  done")


def test_without_a_terminal_and_without_yes_no_host_is_touched(roller: StandInRoller, provision: Provision) -> None:
    said = provision("upgrade-driver", "prod.toml", "--to", "1.2", "--canary", "gpu01", "--drain", "full")
    assert said.code == 1
    assert "nothing was changed: there is no terminal to ask on" in said.err
    assert "provision upgrade-driver prod.toml --drain full --to 1.2 --canary gpu01 --yes" in said.err
    assert roller.calls == ["plan", "close"]


@pytest.mark.parametrize(("answer", "ran"), [("y\n", True), ("n\n", False), ("", False)])
def test_the_question(roller: StandInRoller, provision: Provision, answers: Answers, answer: str, ran: bool) -> None:
    answers(answer)
    said = provision("upgrade-driver", "prod.toml")
    assert "Upgrade 3 nodes to driver 580.95.05, one at a time? [y/N]" in said.err
    assert ("run" in roller.calls) is ran
    assert said.code == (0 if ran else 1)


def test_dry_run_shows_the_plan_and_nothing_else(roller: StandInRoller, provision: Provision) -> None:
    roller.planned = rolls.plan(refused={"gpu09": "no way back"})
    said = provision("upgrade-driver", "--to", rolls.NEW, "--dry-run")
    assert said.code == 0
    assert "refused  gpu09: no way back" in said.out
    assert roller.calls == ["plan", "close"]
    doc = json.loads(provision("upgrade-driver", "--dry-run", "--json").out)
    assert [node["name"] for node in doc["plan"]["nodes"]] == ["gpu01", "gpu02", "gpu03"]


@pytest.mark.parametrize(("refused", "code"), [({}, 0), ({"gpu09": "no way back"}, 1)])
def test_a_plan_without_nodes_asks_nothing(
    roller: StandInRoller, provision: Provision, refused: dict[str, str], code: int
) -> None:
    """Files aren't written either while a node is refused: the inventory would ask for what can't be had."""
    files = (("prod.toml", "a", "b"),) if refused else ()
    roller.planned = replace(rolls.plan(refused=refused, files=files), nodes=())
    said = provision("upgrade-driver", "prod.toml")
    assert said.code == code
    assert "Nothing to roll." in said.out
    assert roller.calls == ["plan", "close"]


@pytest.mark.parametrize(("answer", "ran"), [("y\ny\n", True), ("y\nn\n", False)])
def test_nodes_dropped_while_preparing_are_asked_about(
    roller: StandInRoller, provision: Provision, answers: Answers, answer: str, ran: bool
) -> None:
    roller.prepared = rolls.plan(rolls.planned(1), rolls.planned(3), refused={"gpu02": "no room"})
    answers(answer)
    said = provision("upgrade-driver", "prod.toml")
    assert "refused  gpu02: no room" in said.out
    assert "1 node can't be rolled. Go on with the other 2? [y/N]" in said.err
    assert ("run" in roller.calls) is ran
    if ran:
        assert roller.ran == roller.prepared


def test_yes_goes_on_with_the_nodes_that_are_left(roller: StandInRoller, provision: Provision) -> None:
    roller.prepared = rolls.plan(rolls.planned(1), refused={"gpu02": "no room", "gpu03": "no room"})
    provision("upgrade-driver", "--yes")
    assert roller.ran == roller.prepared


def test_when_no_node_is_left_nothing_is_rolled(roller: StandInRoller, provision: Provision) -> None:
    roller.prepared = replace(rolls.plan(refused={"gpu01": "no room"}), nodes=())
    said = provision("upgrade-driver", "--yes")
    assert (said.code, "run" in roller.calls) == (1, False)


def test_what_was_typed_reaches_the_roll(roller: StandInRoller, provision: Provision) -> None:
    provision(
        *("upgrade-driver", "x.toml", "--to", "1.2", "--limit", "h100", "--set", "a=b", "--max-unavailable", "3"),
        *("--canary", "gpu01", "--soak", "10m", "--order", "a, b", "--max-failures", "2", "--reboot", "always"),
        *("--drain", "full", "--drain-timeout", "1h30m", "--wait-for-jobs", "app=train", "--job-timeout", "1d"),
        *("--reboot-timeout", "90s", "--window", "Sat 02:00-06:00", "--rollback", "never", "--pause-between", "5m"),
        "--yes",
    )
    how = roller.opened
    assert (how["path"], how["to"], how["toolkit"]) == (Path("x.toml"), "1.2", None)
    assert (how["limit"], how["sets"], how["ask_canary"]) == ("h100", ("a=b",), None)
    assert how["options"] == rolls.options(
        max_unavailable=3, canary="gpu01", soak=600.0, order=("a", "b"), max_failures=2, reboot="always", drain="full",
        drain_timeout=5400.0, wait_for_jobs="app=train", job_timeout=86400.0, reboot_timeout=90.0,
        window="Sat 02:00-06:00", rollback="never", pause_between=300.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "kind", "most"),
    [
        ((), "driver", 1),
        (("--one-at-a-time",), "driver", 1),
        (("--max-unavailable", "25%"), "driver", 2),
        (("--max-unavailable", "5%"), "driver", 1),
        (("--toolkit", "1.18.1"), "toolkit", 1),
        (("--deferred",), "deferred", 1),
    ],
)
def test_what_and_how_many(
    roller: StandInRoller, provision: Provision, typed: tuple[str, ...], kind: str, most: int
) -> None:
    provision("upgrade-driver", *typed, "--yes")
    assert (roller.opened["options"].kind, roller.opened["options"].max_unavailable) == (kind, most)


@pytest.mark.parametrize(
    "typed",
    [
        "--to 1 --toolkit 2", "--to 1 --deferred", "--toolkit 1 --deferred", "--one-at-a-time --max-unavailable 2",
        "--resume --status", "--status --abort", "--resume --to 1", "--resume --dry-run", "--status --canary gpu01",
        "--abort --reboot never", "--soak 5m", "--job-timeout 5m", "--max-unavailable 0", "--max-unavailable 101%",
        "--max-unavailable x", "--window Caturday", "--drain-timeout 15", "--drain-timeout -5m", "--pause-between 1w",
        "--max-failures -1", "--reboot maybe",
    ],
)  # fmt: skip
def test_a_wrong_command_line_opens_nothing(roller: StandInRoller, provision: Provision, typed: str) -> None:
    said = provision("upgrade-driver", "prod.toml", *typed.split(), "--yes")
    assert said.code == 64
    assert said.err.startswith("error: ")
    assert roller.calls == []


def test_json_is_one_document_with_the_nodes_by_name(roller: StandInRoller, provision: Provision) -> None:
    roller.report = rolls.report(rolls.record(1, Phase.DONE), rolls.record(2, Phase.BROKEN, reason="no card"))
    said = provision("upgrade-driver", "prod.toml", "--yes", "--json")
    doc = json.loads(said.out)
    assert (doc["schema"], doc["command"], doc["exit_code"], said.code) == (1, "upgrade-driver", 1, 1)
    assert {name: node["phase"] for name, node in doc["nodes"].items()} == {"gpu01": "done", "gpu02": "broken"}
    assert doc["next"][0]["command"] == "provision upgrade-driver prod.toml --limit gpu02"


def test_status(roller: StandInRoller, provision: Provision) -> None:
    roller.stands = rolls.report(rolls.record(1, Phase.EVICT, since=time.time()), holder="ops@laptop", exit_code=0)
    said = provision("upgrade-driver", "prod.toml", "--status")
    assert (said.code, roller.calls) == (0, ["status", "close"])
    assert "At work: ops@laptop" in said.out
    doc = json.loads(provision("upgrade-driver", "prod.toml", "--status", "--json").out)
    assert doc["nodes"]["gpu01"]["phase"] == "evicting"
    assert doc["holder"] == "ops@laptop"


def test_resume_shows_where_it_stands_and_asks(roller: StandInRoller, provision: Provision, answers: Answers) -> None:
    roller.stands = rolls.report(rolls.record(2, Phase.INSTALL))
    said = provision("upgrade-driver", "prod.toml", "--resume")
    assert said.code == 1
    assert "provision upgrade-driver prod.toml --resume --yes" in said.err
    assert roller.calls == ["status", "close"]
    answers("y\n")
    said = provision("upgrade-driver", "prod.toml", "--resume")
    assert "Bring gpu02 to an end, then go on" in said.err
    assert (said.code, roller.calls[-3:]) == (0, ["status", "resume", "close"])
    roller.calls.clear()
    assert provision("upgrade-driver", "prod.toml", "--resume", "--yes").code == 0
    assert roller.calls == ["resume", "close"]


def test_abort_says_who_was_asked(roller: StandInRoller, provision: Provision) -> None:
    said = provision("upgrade-driver", "prod.toml", "--abort")
    assert (said.code, said.out) == (0, "No roll is at work: nobody holds the lease.\n")
    roller.holder = "ops@laptop"
    said = provision("upgrade-driver", "prod.toml", "--limit", "h100", "--abort")
    assert "Asked ops@laptop to end" in said.out
    assert "provision upgrade-driver prod.toml --status" in said.out


def test_the_canary_is_asked_about_and_ctrl_c_there_is_no(
    roller: StandInRoller, provision: Provision, answers: Answers
) -> None:
    answers("y\ny\n")
    heard: list[bool] = []
    roller.during = lambda step: heard.append(roller.opened["ask_canary"]("On?")) if step == "run" else None
    said = provision("upgrade-driver", "prod.toml", "--canary", "gpu01")
    assert heard == [True]
    assert "On? [y/N]" in said.err

    def interrupt(*_: object) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return ""

    def run(step: str) -> None:
        if step == "run":
            sys.stdin.readline = interrupt  # type: ignore[method-assign]
            heard.append(roller.opened["ask_canary"]("On?"))

    answers("y\n")
    roller.during = run
    assert provision("upgrade-driver", "prod.toml", "--canary", "gpu01").code == 0
    assert heard == [True, False]
    assert "stop" in roller.calls


def test_ctrl_c_stops_the_roll_and_the_way_on_is_told(roller: StandInRoller, provision: Provision) -> None:
    roller.report = rolls.report(rolls.record(1, Phase.INSTALL), exit_code=130, interrupted=True)

    def interrupt(step: str) -> None:
        if step == "run":
            os.kill(os.getpid(), signal.SIGINT)
            deadline = time.monotonic() + 5
            while "stop" not in roller.calls and time.monotonic() < deadline:
                time.sleep(0.01)

    roller.during = interrupt
    said = provision("upgrade-driver", "prod.toml", "--drain", "full", "--yes")
    assert said.code == 130
    assert "stop" in roller.calls
    assert "provision upgrade-driver prod.toml --drain full --resume" in said.out


@pytest.mark.parametrize("step", ["plan", "prepare"])
def test_half_a_plan_is_never_run(roller: StandInRoller, provision: Provision, step: str) -> None:
    roller.during = lambda now: os.kill(os.getpid(), signal.SIGINT) if now == step else None
    said = provision("upgrade-driver", "prod.toml", "--yes")
    assert said.code == 130
    assert "run" not in roller.calls


def test_what_happens_is_told_line_by_line(roller: StandInRoller, provision: Provision) -> None:
    def tell(step: str) -> None:
        if step == "run":
            roller.opened["monitor"](Event("phase-progress", 1.0, "gpu01", "evicting", text="waiting for 1: a/b"))

    roller.during = tell
    assert "gpu01 evicting: waiting for 1: a/b\n" in provision("upgrade-driver", "--yes").err


def test_every_phase_and_every_option_is_documented() -> None:
    from provisioner.cli.upgrade_driver import upgrade_driver

    docs = Path(__file__).parents[3] / "docs"
    runbook, reference = ((docs / name).read_text(encoding="utf-8") for name in ("upgrade.md", "cli.md"))
    assert [phase.value for phase in Phase if f"`{phase.value}`" not in runbook] == []
    named = [option.opts for option in upgrade_driver.params if option.opts[0].startswith("-")]
    assert [words for words in named if not any(word in reference for word in words)] == []
