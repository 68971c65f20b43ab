"""Which inventory is meant."""

from pathlib import Path

import pytest

from provisioner.config.locate import locate
from provisioner.errors import UsageError


def test_named_then_environment_then_the_only_one_then_prod(tmp_path: Path) -> None:
    folder = tmp_path / "inventories"
    folder.mkdir()
    (folder / "one.toml").touch()
    (folder / "one.lock").touch()
    assert locate("x.toml", tmp_path, {"PROVISION_INVENTORY": "y.toml"}) == Path("x.toml")
    assert locate(None, tmp_path, {"PROVISION_INVENTORY": "y.toml"}) == Path("y.toml")
    assert locate(None, tmp_path, {"PROVISION_INVENTORY": ""}) == Path("inventories/one.toml")
    (folder / "two.toml").touch()
    with pytest.raises(UsageError, match=r"(?s)inventories/one.toml, inventories/two.toml.*PROVISION_INVENTORY"):
        locate(None, tmp_path, {})
    (folder / "prod.toml").touch()
    assert locate(None, tmp_path, {}) == Path("inventories/prod.toml")


def test_where_there_is_none_the_next_step_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"provision init HOST... > inventories/prod.toml") as caught:
        locate(None, tmp_path, {})
    assert caught.value.exit_code == 64
