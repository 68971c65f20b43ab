"""The new version in the inventory: everything else stays byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioner.config.inventory import load_inventory
from provisioner.errors import UsageError
from provisioner.upgrade.target import differing, with_version

TEXT = """\
# Our site.
playbook = "gpu-node"

[versions]   # what runs
driver = '570.172.08'  # since May
toolkit = "1.18.0"

[hosts.gpu01]
address = "10.0.0.1"
[hosts.gpu02]
address = "10.0.0.2"
"""


def moved(path: Path, text: str, name: str = "driver", version: str = "580.95.05") -> str:
    path.write_text(text)
    inventory = load_inventory(path)
    return with_version(inventory, inventory.hosts, name, version)


def test_only_the_version_changes(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    after = moved(path, TEXT)
    assert after == TEXT.replace("'570.172.08'", '"580.95.05"')
    assert path.read_text() == TEXT, "nothing is written by this"
    assert differing(path, after) == (str(path), TEXT, after)
    assert differing(path, TEXT) is None


def test_a_version_that_was_nowhere_is_added(tmp_path: Path) -> None:
    without = TEXT.replace("driver = '570.172.08'  # since May\n", "")
    after = moved(tmp_path / "site.toml", without)
    assert 'driver = "580.95.05"' in after
    assert "# what runs" in after


@pytest.mark.parametrize(
    "more",
    [
        '[groups.a]\nhosts = ["gpu02"]\n[groups.a.versions]\ndriver = "550.54.15"\n',
        '[hosts.gpu02.versions]\ndriver = "550.54.15"\n',
    ],
)
def test_a_host_with_a_version_of_its_own_is_for_a_person(tmp_path: Path, more: str) -> None:
    with pytest.raises(UsageError, match="gpu02 is not the inventory's top-level one"):
        moved(tmp_path / "site.toml", TEXT + more)
    assert "1.18.1" in moved(tmp_path / "site.toml", TEXT + more, "toolkit", "1.18.1"), "the toolkit is not concerned"
