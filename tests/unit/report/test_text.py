"""Host names as ranges, durations, and text that can't harm a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.report.names import compress, duration
from provisioner.report.printable import one_line, output_tail, printable


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["gpu01", "gpu02", "gpu03", "gpu04", "gpu05", "gpu06", "gpu08"], "gpu[01-06,08]"),
        (["gpu9", "gpu10"], "gpu9, gpu10"),
        (["gpu08", "gpu09", "gpu10"], "gpu[08-10]"),
        (["rack1-gpu1.example", "rack1-gpu2.example"], "rack1-gpu[1-2].example"),
        (["a", "b"], "a, b"),
        (["gpu01"], "gpu01"),
        ([], ""),
    ],
)
def test_compress(names: list[str], text: str) -> None:
    assert compress(names) == text


@given(st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,3}([.][a-z0-9]{1,2})?", fullmatch=True), unique=True))
def test_compress_loses_no_host(names: list[str]) -> None:
    from provisioner.config.ranges import expand

    shown = compress(names)
    parts = [part for part in shown.split(", ") if part]
    assert sorted(member.name for part in parts for member in expand(part)) == sorted(names)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0s"), (9.4, "9s"), (59.6, "1m00s"), (125, "2m05s"), (3720, "1h02m")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@given(st.text())
def test_nothing_that_a_terminal_obeys_gets_through(text: str) -> None:
    shown = printable(text)
    assert all(character in "\n\t" or character.isprintable() or character.isspace() for character in shown)
    assert not {"\x1b", "\x9b", "\r", "\x07", "\u202e"} & set(shown)
    shown.encode("utf-8")
    assert "\n" not in one_line(text)


def test_output_tail_has_real_line_ends() -> None:
    assert output_tail("a\r\nb\rc\n\n", 2) == ["b", "c"]
    assert output_tail("\n\n") == []
