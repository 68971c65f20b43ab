"""The library on a real host: a program plans and applies with `provisioner.api`, as docs/library.md says."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from provisioner import api
from tests.lab import Lab, LabHost
from tests.lab.site import GPU_NODE, REPO, Site, book

MOTD = """
task = "acme.motd"
text = "{{ host.name }}: ask the platform team first\\n"
"""


def blocks(document: str) -> list[str]:
    """The Python blocks of a document, in order."""
    text = (REPO / "docs" / document).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def spare(lab: Lab) -> LabHost:
    lab.reset("gpu-y")
    return lab.host("gpu-y")


@pytest.fixture(scope="module")
def folder(spare: LabHost, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site's folder with inventories/prod.toml, and the documented task in tasks/. One for the whole file: a
    program knows one task of each name."""
    site = Site(tmp_path_factory.mktemp("site"))
    (site.folder / "tasks").mkdir()
    (site.folder / "tasks" / "motd.py").write_text(blocks("writing-tasks.md")[0])
    site.write(spare, text=f'{GPU_NODE}\n[groups.h100]\nhosts = ["gpu-y"]', playbook="")
    (site.folder / "inventories").mkdir()
    text = site.inventory.read_text().replace('"book.toml"', '"../book.toml"').replace('"repo.asc"', '"../repo.asc"')
    (site.folder / "inventories" / "prod.toml").write_text(text)
    return site.folder


@pytest.fixture
def program(folder: Path, spare: LabHost, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The inventory of a site whose playbook uses its own task, in the current folder; the host lacks the file."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PROVISION_STATE_DIR", str(folder / "state"))
    spare.exec("rm -f /etc/motd", check=True)
    (folder / "book.toml").write_text(book(MOTD))
    return folder / "inventories" / "prod.toml"


def test_a_program_plans_and_applies_a_task_of_its_own(program: Path, spare: LabHost) -> None:
    events: list[api.Event] = []
    spare.clear_sshd_log()
    with api.open(program, limit="h100", monitor=events.append) as session:
        plan = session.plan()
        (change,) = plan.host("gpu-y").open
        assert (change.id, change.kind) == ("site/acme.motd:/etc/motd", api.Kind.CREATE)
        assert change.after == "gpu-y: ask the platform team first\n"
        assert spare.exec("test -e /etc/motd").returncode == 1, "a plan changes nothing"
        result = session.apply(plan)
    host = result.hosts["gpu-y"]
    assert (result.exit_code, host.status, host.changed) == (0, api.Status.CHANGED, 1)
    assert (host.execs, host.connections) == (3, 1)
    assert (spare.executions(), spare.connections()) == (3, 1)
    assert spare.get("/etc/motd").decode() == change.after
    kinds = [event.kind for event in events]
    expected = ["host-planned", "run-started", "stage-started", "change-started", "change-done", "stage-done"]
    assert [kind for kind in kinds if kind in expected][: len(expected)] == expected
    assert kinds[-1] == "run-done"
    assert Path(result.journal).exists()
    with api.open(program, limit="h100") as session:
        assert session.apply(yes=True).hosts["gpu-y"].status is api.Status.OK


def test_nothing_is_applied_without_a_plan_or_consent(program: Path, spare: LabHost) -> None:
    with api.open(program) as session, pytest.raises(api.ProvisionError, match="without a plan"):
        session.apply()
    assert spare.exec("test -e /etc/motd").returncode == 1


def test_stop_from_another_thread(program: Path, spare: LabHost) -> None:
    slow = 'task = "command"\nrun = "sleep 2; touch /root/slow"\ncreates = "/root/slow"\ndisruption = "none"'
    (program.parents[1] / "book.toml").write_text(book(slow, stage="first") + book(MOTD, stage="second"))

    def stop_when_it_runs(event: api.Event) -> None:
        if event.kind == "stage-started":
            threading.Thread(target=session.stop).start()

    with api.open(program, monitor=stop_when_it_runs) as session:
        result = session.apply(yes=True)
    assert (result.interrupted, result.exit_code) == (True, 130)
    assert result.hosts["gpu-y"].status is api.Status.STOPPED
    assert spare.exec("test -e /root/slow").returncode == 0, "what ran has ended"
    assert spare.exec("test -e /etc/motd").returncode == 1


def test_one_connection_serves_a_whole_session(program: Path, spare: LabHost) -> None:
    spare.clear_sshd_log()
    with api.open(program) as session:
        session.facts()
        session.exec("true")
        assert session.apply(yes=True).exit_code == 0
        session.exec("true")
    assert spare.connections() == 1


@pytest.mark.usefixtures("program")
def test_the_documents_examples_run(
    spare: LabHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = ModuleType("site_program")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    printed: list[str] = []
    for block in blocks("library.md"):
        exec(compile(block, "docs/library.md", "exec"), module.__dict__)
        printed.append(capsys.readouterr().out)
    names: dict[str, Any] = module.__dict__
    assert "gpu-y 1 changes, 0 wait\ngpu-y changed 1" in printed[0]
    assert spare.get("/etc/motd").decode().startswith("gpu-y: ask")
    assert spare.exec('test -e "/tmp/it\'s here"').returncode == 0
    assert "nvidia" in Path("inventories/prod.lock").read_text()
    assert "gpu-y ('h100',) 127.0.0.1 580.95.05" in "".join(printed)
    names["test_banner"]()
    assert "permission denied" in printed[-1]


def test_the_documented_test_of_a_task_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("site_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    task, test = blocks("writing-tasks.md")
    exec(compile(task.replace("acme.motd", "acme.tested"), "motd.py", "exec"), module.__dict__)
    exec(compile(test, "test_motd.py", "exec"), module.__dict__)
    module.__dict__["test_motd"]()
