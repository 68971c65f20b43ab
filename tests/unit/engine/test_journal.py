"""What a run leaves on the controller, also when it is killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provisioner.engine.journal import Journal, last_failed, state_folder
from provisioner.errors import UsageError
from provisioner.model.event import Event


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVISION_STATE_DIR", str(tmp_path / "state"))


def report(**status: str) -> dict[str, object]:
    return {"hosts": {name: {"status": value} for name, value in status.items()}}


def test_failed_at_last_is_everything_that_did_not_end_well(tmp_path: Path) -> None:
    inventory = tmp_path / "prod.toml"
    assert last_failed(inventory) is None
    Journal(inventory, "run-1").finish(
        report(a="ok", b="changed", c="failed", d="refused", e="unreachable", f="stopped")
    )
    assert last_failed(inventory) == ["c", "d", "e", "f"]
    Journal(inventory, "run-2").finish(report(a="ok"))
    assert last_failed(inventory) == []


def test_a_killed_run_counts_by_its_journal(tmp_path: Path) -> None:
    inventory = tmp_path / "prod.toml"
    journal = Journal(inventory, "run-1")
    journal(Event("run-started", 1.0))
    journal(Event("change-started", 2.0, "a", change="x"))
    journal(Event("host-done", 3.0, "b"))
    with journal.path.open("a") as file:
        file.write('{"at": 4, "kind": "host-do')
    assert last_failed(inventory) == ["a"]


def test_two_inventories_of_one_name_are_told_apart(tmp_path: Path) -> None:
    one, two = tmp_path / "x" / "prod.toml", tmp_path / "y" / "prod.toml"
    Journal(one, "run-1").finish(report(a="failed"))
    assert last_failed(two) is None


def test_only_the_owner_reads_a_journal_and_each_line_is_json(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "prod.toml", "run-1")
    journal(Event("change-failed", 1.5, "a", "stage", "id", 'text with "quotes"\nand \x1b[31m lines', {"restored": ""}))
    journal.finish(report(a="failed"))
    assert journal.path.stat().st_mode & 0o077 == 0
    assert (journal.folder / "report.json").stat().st_mode & 0o077 == 0
    [line] = journal.path.read_text().splitlines()
    assert json.loads(line)["text"].startswith('text with "quotes"')


def test_a_journal_that_cannot_be_begun_ends_the_run_before_any_host_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PROVISION_STATE_DIR", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="can't be begun") as refused:
        Journal(tmp_path / "prod.toml", "run-1")
    assert "no host was changed" in refused.value.why


def test_a_disk_that_is_full_does_not_end_a_run_that_changes_hosts(tmp_path: Path) -> None:
    inventory = tmp_path / "prod.toml"
    folder = state_folder(inventory) / "run-1"
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").symlink_to("/dev/full")
    journal = Journal(inventory, "run-1")
    journal(Event("run-started", 1.0))
    journal.finish(report(a="ok"))
    assert journal.where == f"{journal.path} (incomplete: No space left on device)"
