"""`--limit`: which hosts."""

from collections.abc import Collection
from pathlib import Path

import pytest

from provisioner.config.inventory import load_inventory
from provisioner.config.limit import select
from provisioner.errors import UsageError
from provisioner.model.inventory import Inventory


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    path = tmp_path / "prod.toml"
    path.write_text(
        '[hosts."gpu[01-04]"]\n[hosts.login]\n[groups.h100]\nhosts = ["gpu[02-03]"]\n[groups.none]\nhosts = []\n'
    )
    return load_inventory(path)


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        (None, "gpu01 gpu02 gpu03 gpu04 login"),
        ("all", "gpu01 gpu02 gpu03 gpu04 login"),
        ("login,gpu01", "gpu01 login"),
        ("gpu*", "gpu01 gpu02 gpu03 gpu04"),
        ("g*[02,04]", "gpu02 gpu04"),
        ("gpu0[!24]", "gpu01 gpu03"),
        ("gpu[01-02,04], login", "gpu01 gpu02 gpu04 login"),
        ("h100", "gpu02 gpu03"),
        ("!h100", "gpu01 gpu04 login"),
        ("gpu*,!gpu[03-04]", "gpu01 gpu02"),
        ("!login,h100,!gpu02", "gpu03"),
        ("failed@last", "gpu03"),
        ("all,!failed@last", "gpu01 gpu02 gpu04 login"),
    ],
)
def test_parts_add_and_exclusions_take_out(inventory: Inventory, expression: str | None, chosen: str) -> None:
    found = select(inventory, expression, ["gpu03", "gone"])
    assert " ".join(host.name for host in found) == chosen


@pytest.mark.parametrize(
    ("expression", "last", "says"),
    [
        ("gpu1", None, r"neither a host nor a group\n  did you mean 'gpu\d\d'"),
        ("h10", None, r"did you mean 'h100'"),
        ("web*", None, "'web\\*' is neither"),
        ("gpu[01-05]", None, "'gpu05' is neither a host"),
        ("gpu[02-01]", None, "02 is above 01"),
        ("!gpu9,h100", None, "'gpu9' is neither"),
        ("h100,!gpu*", None, "leaves no host"),
        ("", None, "names no host"),
        (" , ", None, "names no host"),
        ("none", None, "'none' has no hosts"),
        ("failed@last", None, "no earlier run"),
        ("failed@last", [], "no host failed"),
        ("failed@last", ["gone"], "any more: gone"),
    ],
)
def test_what_matches_nothing_is_an_error(
    inventory: Inventory, expression: str, last: Collection[str] | None, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        select(inventory, expression, last)
