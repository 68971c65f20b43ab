"""What differs between hosts, and since when."""

from __future__ import annotations

from typing import Any

from provisioner.report import facts as facts_text


def host(driver: str, hostname: str, **more: Any) -> dict[str, Any]:
    return {"driver": {"version": driver}, "system": {"hostname": hostname}, "cards": ["A100", "A100"], **more}


def test_the_host_that_differs_is_named() -> None:
    facts = {f"gpu0{n}": host("580.95.05", f"gpu0{n}") for n in (1, 2, 3)} | {"gpu04": host("570.172.08", "gpu04")}
    [difference] = facts_text.between(facts)
    assert difference.name == "driver.version"
    assert facts_text.differences_text([difference]) == [
        "driver.version",
        "  580.95.05   3 hosts: gpu[01-03]",
        "  570.172.08  1 host: gpu04",
    ]


def test_what_only_one_host_has_is_a_difference() -> None:
    facts = {"a": host("1", "a"), "b": host("1", "b", holds=["nvidia-open"])}
    [difference] = facts_text.between(facts)
    assert dict(difference.values) == {facts_text.MISSING: ("a",), "[nvidia-open]": ("b",)}


def test_names_of_the_machine_itself_are_no_difference() -> None:
    assert facts_text.between({"a": host("1", "a"), "b": host("1", "b")}) == ()


def test_since_an_earlier_reading() -> None:
    then, now = host("570.172.08", "a", workload={"pods": 1}), host("580.95.05", "a", workload={"pods": 2})
    assert facts_text.since(then, now) == {"driver.version": ("570.172.08", "580.95.05")}


def test_equal_hosts_are_shown_once() -> None:
    text = facts_text.render({"gpu01": host("1", "gpu01"), "gpu02": host("1", "gpu02")})
    assert text.splitlines()[0] == "gpu[01-02]  2 hosts"
    assert "hostname" not in text
    assert facts_text.render({"gpu01": host("1", "gpu01")}).count("hostname") == 1


def test_unknown_absent_and_empty_look_different() -> None:
    facts: dict[str, Any] = {"driver": {"unknown": "modinfo fails"}, "toolkit": None, "holds": []}
    assert facts_text.flat(facts) == {"driver": "unknown: modinfo fails", "toolkit": "-", "holds": "none"}
