"""Windows open when a person who reads them expects it, days on which clocks change included."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.errors import UsageError
from provisioner.upgrade.window import parse

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: ZoneInfo = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone)


@pytest.mark.parametrize(
    ("window", "moment", "is_open"),
    [
        ("Sat 02:00-06:00 Europe/Berlin", "2026-01-03T02:00", True),  # a Saturday
        ("Sat 02:00-06:00 Europe/Berlin", "2026-01-03T05:59", True),
        ("Sat 02:00-06:00 Europe/Berlin", "2026-01-03T06:00", False),
        ("Sat 02:00-06:00 Europe/Berlin", "2026-01-03T01:59", False),
        ("Sat 02:00-06:00 Europe/Berlin", "2026-01-04T03:00", False),
        ("saturday 2:00 - 6:00 Europe/Berlin", "2026-01-03T03:00", True),
        ("Mon-Fri 22:00-04:00 Europe/Berlin", "2026-01-03T03:00", True),  # began on Friday
        ("Mon-Fri 22:00-04:00 Europe/Berlin", "2026-01-05T03:00", False),  # would have begun on Sunday
        ("Fri-Mon 01:00-02:00 Europe/Berlin", "2026-01-05T01:30", True),
        ("Fri-Mon 01:00-02:00 Europe/Berlin", "2026-01-06T01:30", False),
        ("Mon,Wed 01:00-02:00 Europe/Berlin; Thu 05:00-06:00 Europe/Berlin", "2026-01-08T05:30", True),
        ("02:00-06:00 Europe/Berlin", "2026-01-06T03:00", True),
        ("20:00-24:00 Europe/Berlin", "2026-01-06T23:59", True),
        ("00:00-00:00 Europe/Berlin", "2026-01-06T13:00", True),  # the whole day
        ("02:00-06:00", "2026-01-06T02:30", False),  # UTC
        ("02:00-06:00", "2026-01-06T03:30", True),
        # The clock goes from 02:00 to 03:00: from 02:30 there are 30 minutes less, and none is lost.
        ("Sun 02:30-04:00 Europe/Berlin", "2026-03-29T03:29", False),
        ("Sun 02:30-04:00 Europe/Berlin", "2026-03-29T03:30", True),
        ("Sun 01:00-02:30 Europe/Berlin", "2026-03-29T03:29", True),
        ("Sun 01:00-02:30 Europe/Berlin", "2026-03-29T03:30", False),
    ],
)
def test_open(window: str, moment: str, is_open: bool) -> None:
    assert parse(window).open_at(at(moment)) is is_open


def test_an_hour_that_comes_twice_is_open_twice() -> None:
    window = parse("Sun 02:00-02:30 Europe/Berlin")
    for fold in (0, 1):
        assert window.open_at(at("2026-10-25T02:15").replace(fold=fold))
    assert not window.open_at(at("2026-10-25T02:30").replace(fold=1))


def test_next_opening_and_end() -> None:
    window = parse("Sat 02:00-06:00 Europe/Berlin; Tue 23:00-01:00 Europe/Berlin")
    assert window.next_opening(at("2026-01-03T07:00")) == at("2026-01-06T23:00")
    assert window.next_opening(at("2026-01-07T02:00")) == at("2026-01-10T02:00")
    assert window.closes(at("2026-01-07T00:30")) == at("2026-01-07T01:00")
    assert window.closes(at("2026-01-07T02:30")) is None


@given(
    st.datetimes(datetime(2025, 1, 1), datetime(2028, 1, 1)),
    st.sampled_from(["Sat 02:00-06:00", "Mon-Fri 22:15-02:15", "Sun 02:10-02:50", "00:30-00:45", "Wed 12:00-12:00"]),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
)
def test_an_opening_is_open_and_nothing_before_it_was(moment: datetime, span: str, zone: str) -> None:
    window, now = parse(f"{span} {zone}"), moment.replace(tzinfo=UTC)
    opens = window.next_opening(now)
    assert opens >= now
    assert window.open_at(opens)
    if opens > now:
        assert not window.open_at(opens - timedelta(seconds=1))
        assert not window.open_at(now + (opens - now) / 2)
    closes = window.closes(opens)
    assert closes is not None
    assert closes > opens
    assert not window.open_at(closes)


@pytest.mark.parametrize(
    "text",
    ["", ";", "Sat", "Sat 2-6", "Sat 02:00", "Foo 02:00-03:00", "Sat 25:00-26:00", "Sat 02:00-03:00 Mars/Base"],
)
def test_what_is_no_window_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="--window") as caught:
        parse(text)
    assert "Sat 02:00-06:00 Europe/Berlin" in caught.value.remedy
