"""What a roll was about is on record, so that going on needs no option."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from provisioner.model.upgrade import Kind, NodeRecord, Phase, RollOptions
from provisioner.upgrade.fleet import Fleet
from provisioner.upgrade.record import from_json, to_json
from provisioner.upgrade.selection import kind_of

WANTED = SimpleNamespace(driver="580.95.05", toolkit="1.18.0")


@dataclass
class Kept:
    """A host that was read, and the record that an earlier roll left of it, as it lies there."""

    host: str
    text: str
    kind: str = "driver"
    node: str = ""
    facts: object = "read"

    def kept_record(self, api: object) -> NodeRecord | None:
        return from_json(self.text) if self.text else None

    def wanted(self) -> object:
        return WANTED


def left(host: str, kind: Kind, phase: Phase, token: int = 1) -> Kept:
    target = {"driver": WANTED.driver, "toolkit": WANTED.toolkit, "deferred": "570.172.08"}[kind]
    return Kept(host, to_json(NodeRecord(host, phase=phase, run="r", token=token, kind=kind, target=target)))


def fleet(*kept: Kept, **given: Any) -> Fleet:
    members: Any = {each.host: each for each in kept}
    session: Any = SimpleNamespace()
    return Fleet(session, RollOptions(**given), None, members, threading.Event())


@pytest.mark.parametrize("kind", ["driver", "toolkit", "deferred"])
def test_a_roll_of_any_kind_is_gone_on_with_as_what_it_was(kind: Kind) -> None:
    made = fleet(left("a", kind, Phase.INSTALL), left("b", kind, Phase.DONE))
    refused: dict[str, str] = {}
    known = made.records(refused)
    found = kind_of(known.values())
    assert found == kind
    made.be(found)
    assert [(each.host, each.kind, each.phase) for each in made.unfinished(known, refused)] == [
        ("a", kind, Phase.INSTALL)
    ]
    assert refused == {}
    assert made.options.kind == kind
    assert {member.kind for member in made.members.values()} == {"toolkit" if kind == "toolkit" else "driver"}
    assert made.options.rollback == ("never" if kind == "deferred" else "auto")


def test_nodes_in_the_middle_of_another_kind_of_roll_are_named_not_mixed_up() -> None:
    made = fleet(left("a", "driver", Phase.EVICT, token=1), left("b", "toolkit", Phase.EVICT, token=2))
    refused: dict[str, str] = {}
    known = made.records(refused)
    made.be(kind_of(known.values()) or "driver")
    assert [each.host for each in made.unfinished(known, refused)] == ["b"], "the latest comes first"
    assert "a is in the middle of a roll of another kind" in refused["a"]
    assert "driver run r left it while evicting" in refused["a"]


def test_the_latest_record_tells_where_no_node_is_in_the_middle() -> None:
    done = [
        NodeRecord("a", phase=Phase.DONE, token=3, kind="deferred"),
        NodeRecord("b", phase=Phase.DONE, token=4, kind="toolkit"),
    ]
    assert kind_of(done) == "toolkit"
    assert kind_of([*done, NodeRecord("c", phase=Phase.LOCK, token=2)]) == "driver", "unfinished ones come first"
    assert kind_of([]) is None


def test_a_version_that_inventory_and_lock_no_longer_want_is_refused() -> None:
    made = fleet(Kept("a", to_json(NodeRecord("a", phase=Phase.LOAD, kind="toolkit", target="1.17.8"))))
    refused: dict[str, str] = {}
    known = made.records(refused)
    made.be("toolkit")
    assert made.unfinished(known, refused) == []
    assert "on its way to 1.17.8" in refused["a"]
    assert "want toolkit 1.18.0" in refused["a"]
