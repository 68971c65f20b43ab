"""The product's own files are found in a checkout and when it was installed."""

from pathlib import Path

import pytest

from provisioner.config.playbook import load_playbook
from provisioner.config.shipped import shipped


def test_the_installed_package_brings_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "provisioner"
    package.mkdir()
    monkeypatch.setattr("provisioner.__file__", str(package / "__init__.py"))
    assert shipped("playbooks") == tmp_path / "playbooks"
    (package / "_data" / "playbooks").mkdir(parents=True)
    assert shipped("playbooks") == package / "_data" / "playbooks"


def test_the_default_playbook_is_there() -> None:
    stages = [stage.name for stage in load_playbook("gpu-node").stages]
    assert stages[0] == "preflight"
    assert stages[-1] == "selftest"


def test_a_self_test_that_is_switched_off_is_still_asked_to_take_its_units_away() -> None:
    (entry,) = (task for stage in load_playbook("gpu-node").stages for task in stage.tasks if task.task == "selftest")
    assert entry.when is None
