"""The grammar of `when`, and its three values."""

from typing import Any

import pytest

from provisioner.config.when import NOT_YET, WhenError, parse
from provisioner.errors import FactUnknown
from provisioner.model.fact import Absent, Known, Unknown

VALUES = {"gpu": {"cards": 8, "persistence": True}, "versions": {"driver": "580.95.05"}, "tier": "high", "n": [1, 2]}
FACTS: dict[str, Any] = {
    "distribution": Known("debian12"),
    "family": "debian",
    "arch": Unknown("uname: killed"),
    "systemd": True,
    "kubelet": Absent(),
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("gpu.cards == 8", True),
        ("gpu.cards != 8", False),
        ("gpu.cards > 7 and gpu.cards <= 8", True),
        ("gpu.persistence", True),
        ("not gpu.persistence or tier == 'low'", False),
        ("not (gpu.persistence and tier == 'low')", True),
        ("false and true or true", True),
        ("false and (true or true)", False),
        ("distribution in ['debian12', \"debian13\"]", True),
        ("distribution not in ['debian12']", False),
        ("gpu.cards in n", False),
        ("versions.driver >= '570'", True),
        ("versions.driver < '580.105.08'", True),
        ("defined(tier) and not defined(gpu.layout)", True),
        ("not defined(nothing) or nothing == 1", True),
        ("kubelet == ''", False),
        ("kubelet != ''", True),
        ("kubelet", False),
        ("defined(kubelet)", False),
        ("systemd", True),
        ("false and arch == 'amd64'", False),
        ("arch == 'amd64' and false", False),
        ("true or arch == 'amd64'", True),
        ("arch == 'amd64' or true", True),
        ('tier == "hi\\"gh"', False),
        ("gpu.cards == -8", False),
        ("[] == []", True),
    ],
)
def test_a_condition_holds_or_not(text: str, holds: bool) -> None:
    assert parse(text).evaluate(VALUES, FACTS) is holds


@pytest.mark.parametrize("text", ["arch == 'amd64'", "not arch == 'x'", "true and arch == 'x'", "defined(arch)"])
def test_an_unknown_fact_is_never_false(text: str) -> None:
    with pytest.raises(FactUnknown, match=r"(?s)can't tell whether `.*uname: killed"):
        parse(text).evaluate(VALUES, FACTS)


def test_before_the_host_was_read_only_variables_decide() -> None:
    assert parse("tier == 'low' and systemd").decide(VALUES, NOT_YET) is False
    assert isinstance(parse("tier == 'high' and systemd").decide(VALUES, NOT_YET), Unknown)


@pytest.mark.parametrize(
    ("text", "column", "says", "why"),
    [
        ("gpu.cards = 8", 11, "'=' can't stand here", "compare with =="),
        ("tier == 'high", 9, "\"'\" can't stand here", "a string isn't closed"),
        ("tier ==", 8, "ends too early", ""),
        ("", 1, "ends too early", ""),
        ("(tier == 'x'", 13, "')' is missing", ""),
        ("tier == 'x' adn true", 13, "'adn' can't stand here", "did you mean 'and'?"),
        ("tier == 'x' tier", 13, "'tier' can't stand here", "known here: and, or, in, not"),
        ("defined('x')", 9, "`defined` needs a name", ""),
        ("tier not 'x'", 10, "\"'x'\" can't stand here", ""),
        ("and", 1, "'and' can't stand here", ""),
        ("[1, 2", 6, "',' is missing", ""),
        ("__import__('os')", 11, "'(' can't stand here", "expected `and`"),
    ],
)
def test_what_does_not_parse_says_the_column(text: str, column: int, says: str, why: str) -> None:
    with pytest.raises(WhenError) as caught:
        parse(text)
    assert caught.value.column == column
    assert says in caught.value.what
    assert why in caught.value.why


@pytest.mark.parametrize(
    ("text", "column", "says", "why"),
    [
        ("true and gpu.crds == 8", 10, "the variable 'gpu.crds' isn't set", "did you mean 'gpu.cards'?"),
        ("distributoin == 'x'", 1, "isn't set", "did you mean 'distribution'?"),
        ("gpu.cards == '8'", 11, "the integer 8 is compared with the string '8'", ""),
        ("gpu.persistence == 1", 17, "the boolean true is compared with the integer 1", ""),
        ("tier < 'z'", 6, "the string 'high' has no order", "versions"),
        ("tier", 1, "the value 'tier' is the string 'high', not true or false", ""),
        ("gpu.cards in 8", 11, "`in` needs an array", ""),
    ],
)
def test_what_makes_no_sense_says_the_column(text: str, column: int, says: str, why: str) -> None:
    with pytest.raises(WhenError) as caught:
        parse(text).evaluate(VALUES, FACTS)
    assert caught.value.column == column
    assert says in caught.value.what
    assert why in caught.value.why
