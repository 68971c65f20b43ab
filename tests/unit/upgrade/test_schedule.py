"""The order of nodes, and how many at once."""

from __future__ import annotations

import pytest

from provisioner.errors import UsageError
from provisioner.model.upgrade import PlannedNode
from provisioner.upgrade.schedule import at_once, ordered

GROUPS = {"train": ["gpu03", "gpu01"], "infer": ["gpu02"], "masters": ["cp01", "cp02"]}


def nodes(*names: str) -> list[PlannedNode]:
    return [PlannedNode(name, f"node-{name}", "1", "2", control_plane=name.startswith("cp")) for name in names]


def hosts(given: list[PlannedNode], order: tuple[str, ...] = (), canary: str = "") -> list[str]:
    return [node.host for node in ordered(given, GROUPS, order, canary)]


def test_groups_come_in_their_order_then_the_rest_as_the_inventory_has_them() -> None:
    given = nodes("gpu01", "gpu02", "gpu03", "gpu04")
    assert hosts(given) == ["gpu01", "gpu02", "gpu03", "gpu04"]
    assert hosts(given, ("infer", "train")) == ["gpu02", "gpu01", "gpu03", "gpu04"]


def test_the_canary_comes_first_by_host_or_node_name() -> None:
    given = nodes("gpu01", "gpu02", "gpu03")
    assert hosts(given, canary="gpu03") == ["gpu03", "gpu01", "gpu02"]
    assert hosts(given, ("infer",), canary="node-gpu03") == ["gpu03", "gpu02", "gpu01"]


def test_the_control_plane_comes_last_and_only_when_it_is_named() -> None:
    given = nodes("cp01", "gpu01", "gpu02", "cp02")
    assert hosts(given, ("train",)) == ["gpu01", "gpu02"]
    assert hosts(given, ("masters", "train")) == ["gpu01", "gpu02", "cp01", "cp02"]
    assert hosts(given, ("masters",), canary="cp02")[-2:] == ["cp02", "cp01"]


def test_the_host_that_kubectl_runs_on_is_behind_all_others() -> None:
    given = nodes("gpu01", "cp01", "gpu02", "cp02")
    order = ("masters",)
    assert [node.host for node in ordered(given, GROUPS, order, "", "gpu01")] == ["gpu02", "cp01", "cp02", "gpu01"]
    assert [node.host for node in ordered(given, GROUPS, order, "", "cp01")] == ["gpu01", "gpu02", "cp02", "cp01"]
    assert ordered(given, GROUPS, order, "gpu01", "gpu01")[0].host == "gpu01", "a person named it as the canary"


def test_names_that_mean_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="there is no group 'trian'"):
        hosts(nodes("gpu01"), ("trian",))
    with pytest.raises(UsageError, match="'gpu09' is not among the nodes"):
        hosts(nodes("gpu01"), canary="gpu09")


@pytest.mark.parametrize(
    ("text", "count", "expected"), [("1", 9, 1), ("3", 2, 3), ("10%", 40, 4), ("10%", 19, 1), ("10%", 3, 1)]
)
def test_at_once_is_a_number_or_a_share_rounded_down_but_never_none(text: str, count: int, expected: int) -> None:
    assert at_once(text, count) == expected


@pytest.mark.parametrize("text", ["0", "0%", "101%", "-1", "two", "", "%"])
def test_at_once_refuses_the_rest(text: str) -> None:
    with pytest.raises(UsageError):
        at_once(text, 10)
