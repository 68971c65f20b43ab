"""Durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.cli.durations import seconds
from provisioner.report.names import spelled


@pytest.mark.parametrize(
    ("text", "value"), [("90s", 90), ("15m", 900), ("2h", 7200), ("1h30m", 5400), ("1d", 86400), ("0", 0), ("0s", 0)]
)
def test_what_people_write(text: str, value: int) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "15", "1.5h", "-5m", "m", "30m1h", "5 m", "1w", "٣m"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        seconds(text)


@given(st.integers(0, 10**7))
def test_a_follow_up_command_says_the_same(value: int) -> None:
    assert seconds(spelled(value)) == value
