"""Names that stand for many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.config.ranges import expand, is_range


def names(text: str) -> list[str]:
    return [member.name for member in expand(text)]


def test_ranges_and_lists_keep_their_zeros_and_order() -> None:
    assert names("gpu[08-11]") == ["gpu08", "gpu09", "gpu10", "gpu11"]
    assert names("gpu[01-03,07]") == ["gpu01", "gpu02", "gpu03", "gpu07"]
    assert names("gpu[9-11].example") == ["gpu9.example", "gpu10.example", "gpu11.example"]
    assert names("r[1-2]n[1-2]") == ["r1n1", "r1n2", "r2n1", "r2n2"]
    assert names("plain") == ["plain"]


@given(
    first=st.integers(0, 2000),
    length=st.integers(1, 300),
    width=st.integers(1, 6),
    before=st.text("abc-", max_size=4),
    after=st.text("xyz.", max_size=4),
)
def test_a_range_has_every_number_once(first: int, length: int, width: int, before: str, after: str) -> None:
    last = first + length - 1
    low, high = f"{first:0{width}d}", f"{last:0{width}d}"
    if low.startswith("0") and len(low) > 1 and len(low) != len(high):
        return
    found = expand(f"{before}[{low}-{high}]{after}")
    assert [int(member.digits) for member in found] == list(range(first, last + 1))
    assert all(member.name == f"{before}{member.digits}{after}" for member in found)
    assert len({member.name for member in found}) == length


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpu[]", "is empty"),
        ("gpu[05-03]", "05 is above 03"),
        ("gpu[01-016]", "different numbers of digits"),
        ("gpu[a-c]", "no number or range"),
        ("gpu[1-2", "no partner"),
        ("gpu]1-2[", "no partner"),
        ("gpu[1-2]]", "no partner"),
        ("gpu[1-3,2]", "gpu2 comes twice"),
        ("gpu[0-99999]", "longer than"),
    ],
)
def test_an_empty_or_malformed_range_says_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        expand(text)


def test_character_classes_of_a_glob_are_no_range() -> None:
    assert is_range("gpu[01-03]")
    assert not is_range("gpu[ab]*")
    assert not is_range("gpu*")
