"""The record survives the way to the node and back, and a reader of any age gets no nonsense from it."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.errors import LeaseLost
from provisioner.model.upgrade import NodeRecord, Phase
from provisioner.upgrade import record
from tests.unit.kube.memory import MemoryKubectl, api_of

NAMES = st.text(string.ascii_lowercase + string.digits + ".-", min_size=1, max_size=40)
RECORDS = st.builds(
    NodeRecord,
    host=NAMES,
    node=NAMES,
    phase=st.sampled_from(Phase),
    run=NAMES,
    token=st.integers(0, 2**53),
    kind=st.sampled_from(["driver", "toolkit", "deferred"]),
    back=st.booleans(),
    reboot=st.booleans(),
    source=NAMES,
    target=NAMES,
    cordoned_before=st.lists(NAMES, max_size=4).map(tuple),
    clients=st.lists(st.text(max_size=60), max_size=20).map(tuple),
    boot=NAMES,
    since=st.floats(0, 4e9, allow_nan=False),
    reason=st.text(max_size=1500),
)


@given(RECORDS)
def test_round_trip(given: NodeRecord) -> None:
    text = record.to_json(given)
    assert record.from_json(text) == given
    assert "\n" not in text


@given(RECORDS, st.dictionaries(st.text(min_size=1).map("later_{}".format), st.integers()))
def test_what_a_newer_provision_adds_is_left_alone(given: NodeRecord, more: dict[str, int]) -> None:
    assert record.from_json(json.dumps({**json.loads(record.to_json(given)), **more})) == given


def test_what_an_older_one_left_out_has_its_default() -> None:
    assert record.from_json('{"host": "a"}') == NodeRecord("a")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"host": 1}',
        '{"host": "a", "phase": "polishing"}',
        '{"host": "a", "kind": "firmware"}',
        '{"host": "a", "token": "7"}',
        '{"host": "a", "token": true}',
        '{"host": "a", "clients": "x"}',
        '{"host": "a", "clients": [1]}',
        '{"host": "a", "back": 1}',
    ],
)
def test_nothing_is_guessed(text: str) -> None:
    with pytest.raises(record.RecordUnreadable) as caught:
        record.from_json(text)
    assert record.ANNOTATION in caught.value.remedy


def test_size_is_bounded() -> None:
    long = record.from_json(record.to_json(NodeRecord("a", reason="x" * 100_000)))
    assert len(long.reason) <= 2000
    assert long.reason.endswith("…")
    with pytest.raises(ValueError, match="more than"):
        record.to_json(NodeRecord("a", clients=("x" * 1000,) * 20))


def test_a_record_is_written_once_and_read_back() -> None:
    kubectl = MemoryKubectl()
    kubectl.node("n1")
    api, _ = api_of(kubectl)
    mine = NodeRecord("h1", "n1", Phase.EVICT, "r1", 7)
    record.write(api, mine)
    record.write(api, mine)
    assert record.of_node(api.node("n1")) == mine
    assert sum(call.startswith("patch") for call in kubectl.calls) == 1
    record.clear(api, "n1", 7)
    assert record.of_node(api.node("n1")) is None


def test_a_run_that_was_taken_over_writes_nothing() -> None:
    kubectl = MemoryKubectl()
    kubectl.node("n1")
    api, _ = api_of(kubectl)
    record.write(api, NodeRecord("h1", "n1", Phase.EVICT, "later", 8))
    with pytest.raises(LeaseLost, match="later roll"):
        record.write(api, NodeRecord("h1", "n1", Phase.INSTALL, "earlier", 7))
    with pytest.raises(LeaseLost, match="later roll"):
        record.clear(api, "n1", 7)
    found = record.of_node(api.node("n1"))
    assert found is not None
    assert found.run == "later"
