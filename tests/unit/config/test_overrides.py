"""`--set` keeps the kinds of variables."""

from pathlib import Path
from typing import Any

import pytest

from provisioner.config.inventory import load_inventory
from provisioner.errors import UsageError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "prod.toml").write_text('[vars]\nrelease = "1.0"\n[hosts.a]\n')
    return tmp_path / "prod.toml"


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        ("versions.toolkit=1.18.0", "versions.toolkit", "1.18.0"),
        ("versions.driver=580.95", "versions.driver", "580.95"),
        ("gpu.cards=8", "gpu.cards", 8),
        ("gpu.persistence=false", "gpu.persistence", False),
        ("driver.packages=a,b", "driver.packages", ["a", "b"]),
        ("free=8", "free", 8),
        ("free=1.10", "free", "1.10"),
        ("free=a=b $(id) 'x'", "free", "a=b $(id) 'x'"),
        ('free="8"', "free", "8"),
        ("free=[1, 2]", "free", [1, 2]),
        ("free=[not toml", "free", "[not toml"),
        ("release=2", "release", "2"),
        ("ntp.pool=x", "ntp.pool", "x"),
        ("empty=", "empty", ""),
    ],
)
def test_a_value_has_the_kind_of_its_variable(path: Path, option: str, name: str, value: Any) -> None:
    found = load_inventory(path, sets=[option]).hosts[0].var(name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("novalue", "isn't NAME=VALUE"),
        ("a b=c", "isn't NAME=VALUE"),
        ("versions.drivr=1.2", r"(?s)no such variable.*'versions.driver'"),
        ("versons.driver=580.1", r"(?s)no such variable.*'versions.driver'"),
        ("gpu.cards=many", "must be an integer of 0 or more, not the string 'many'"),
        ("containerd.mode=both", 'must be "default" or "runtimeclass"'),
        ("connection.port=22", "only variables can be set"),
        ("host.name=x", "only variables can be set"),
    ],
)
def test_a_wrong_one_is_refused(path: Path, option: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load_inventory(path, sets=[option])
