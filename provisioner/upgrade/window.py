"""Maintenance windows: "Sat 02:00-06:00 Europe/Berlin". Pure.

    WINDOW  = SPAN (";" SPAN)*
    SPAN    = [DAYS] HH:MM-HH:MM [ZONE]
    DAYS    = DAY or DAY-DAY, separated by commas: "Sat", "Mon-Fri", "Fri-Mon", "Mon,Wed"

Without days a span is for every day; without a zone it is UTC. An end at or before the start is on the next day, and
the days are those on which it starts. Times are those of the wall clock: on a day on which the clock is put forward,
a time that doesn't exist is as long after the change as it would have been; of one that exists twice the first counts
for an opening and the second for an end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from provisioner.errors import UsageError

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SPAN = re.compile(
    r"(?:(?P<days>[A-Za-z,\s-]+?)\s+)?(?P<start>\d\d?:\d\d)\s*-\s*(?P<end>\d\d?:\d\d)(?:\s+(?P<zone>\S+))?"
)


@dataclass(frozen=True, slots=True)
class Span:
    """`days`: 0 is Monday."""

    days: frozenset[int]
    start: time
    end: time
    zone: ZoneInfo

    def opening(self, day: date) -> tuple[datetime, datetime] | None:
        """Opening and end (UTC) of the span that starts on `day` in its zone."""
        if day.weekday() not in self.days:
            return None
        last = day if self.end > self.start else day + timedelta(days=1)
        opens = datetime.combine(day, self.start, self.zone).astimezone(UTC)
        end = datetime.combine(last, self.end, self.zone)
        return opens, max(end.replace(fold=fold).astimezone(UTC) for fold in (0, 1))


@dataclass(frozen=True, slots=True)
class Window:
    """When nodes may be started."""

    spans: tuple[Span, ...]
    text: str

    def open_at(self, now: datetime) -> bool:
        """Whether a node may be started at `now` (aware)."""
        return self.closes(now) is not None

    def closes(self, now: datetime) -> datetime | None:
        """When the window that is open at `now` ends (UTC), the latest of those that overlap; None while closed."""
        return max((end for start, end in self._around(now, 2) if start <= now < end), default=None)

    def next_opening(self, now: datetime) -> datetime:
        """`now` while it is open, else the first opening after it (UTC)."""
        if self.open_at(now):
            return now.astimezone(UTC)
        return min(start for start, _ in self._around(now, 10) if start > now)

    def _around(self, now: datetime, ahead: int) -> Iterator[tuple[datetime, datetime]]:
        for span in self.spans:
            today = now.astimezone(span.zone).date()
            for offset in range(-2, ahead):
                found = span.opening(today + timedelta(days=offset))
                if found:
                    yield found


def parse(text: str) -> Window:
    """Raises UsageError."""
    spans = tuple(_span(part.strip(), text) for part in text.split(";") if part.strip())
    if not spans:
        raise _wrong(text, "it names no span of time")
    return Window(spans, text)


def _span(part: str, whole: str) -> Span:
    found = _SPAN.fullmatch(part)
    if not found:
        raise _wrong(whole, f"{part!r} is no span of time")
    zone = found["zone"] or "UTC"
    try:
        return Span(_days(found["days"]), _time(found["start"]), _time(found["end"]), ZoneInfo(zone))
    except (OSError, KeyError):
        raise _wrong(whole, f"there is no time zone {zone!r} on this machine") from None
    except ValueError as problem:
        raise _wrong(whole, str(problem)) from None


def _time(text: str) -> time:
    hour, minute = (int(part) for part in text.split(":"))
    return time(0 if (hour, minute) == (24, 0) else hour, minute)


def _days(text: str | None) -> frozenset[int]:
    if text is None:
        return frozenset(range(7))
    days: set[int] = set()
    for part in text.replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        start, end = _day(first), _day(last if dash else first)
        days |= {(start + step) % 7 for step in range((end - start) % 7 + 1)}
    return frozenset(days)


def _day(name: str) -> int:
    low = name.lower()
    found = [number for number, day in enumerate(_DAYS) if low.startswith(day)]
    if not found:
        raise ValueError(f"{name!r} is no day of the week (Mon, Tue, …)")
    return found[0]


def _wrong(text: str, why: str) -> UsageError:
    return UsageError(
        f"--window {text!r} can't be read", why=why, remedy='write it like "Sat 02:00-06:00 Europe/Berlin"'
    )
