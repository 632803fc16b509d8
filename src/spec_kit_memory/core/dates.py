"""Which moment does a written date mean? Always an aware UTC datetime, or None."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_EPOCH = re.compile(r"-?\d{9,14}(?:\.\d{1,9})?")
# Day first, as in the names of memory files: 31-01-26, 31.01.2026_14-05, 31/01/2026 14:05:09
_DAY_FIRST = re.compile(
    r"(\d{1,2})[-./](\d{1,2})[-./](\d{4}|\d{2})(?:(?:[T_ ]|, ?)(\d{1,2})[-:.h](\d{2})(?:[-:.](\d{2}))?)?"
)
_YEAR_FIRST = re.compile(
    r"(\d{4})[-./](\d{1,2})(?:[-./](\d{1,2}))?(?:(?:[T_ ]|, ?)(\d{1,2})[-:.h](\d{2})(?:[-:.](\d{2}))?)?"
)
_ZONE_NAME = re.compile(r"[ ]?(?:UTC|GMT)$", re.IGNORECASE)
_NAMED = ("%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y", "%d %B %Y %H:%M", "%B %d %Y %H:%M", "%Y %B %d")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)
_MILLISECONDS_FROM = 100_000_000_000  # as seconds, this would be the year 5138

_CLOCKS_DIFFER = timedelta(days=1)  # tolerance for time zones and inaccurate clocks


def is_in_future(moment: datetime, *, now: datetime) -> bool:
    """Is this moment in the future? A document with such a date would rank as the newest for ever."""
    return moment - now > _CLOCKS_DIFFER


def read(text: str) -> datetime | None:
    """Parse a date in any of the usual formats; one without a time zone is UTC."""
    text = " ".join(text.split())
    if not text or len(text) > 80:
        return None
    try:
        when = _epoch(text) or _iso(text) or _numeric(text) or _named(text) or _mail(text)
        if when is None:
            return None
        return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _epoch(text: str) -> datetime | None:
    if not _EPOCH.fullmatch(text):
        return None
    seconds = float(text)
    return datetime.fromtimestamp(seconds / 1000 if abs(seconds) >= _MILLISECONDS_FROM else seconds, UTC)


def _iso(text: str) -> datetime | None:
    try:
        # ISO 8601 knows "+00:00", not "UTC" or "GMT".
        return datetime.fromisoformat(_ZONE_NAME.sub("+00:00", text))
    except ValueError:
        return None


def _numeric(text: str) -> datetime | None:
    without_zone = _ZONE_NAME.sub("", text)
    if match := _YEAR_FIRST.fullmatch(without_zone):
        year, month, day, *clock = match.groups()
        return _moment(year, month, day or "1", clock)
    if match := _DAY_FIRST.fullmatch(without_zone):
        day, month, year, *clock = match.groups()
        if int(month) > 12:
            day, month = month, day
        return _moment(year if len(year) == 4 else f"20{year}", month, day, clock)
    return None


def _moment(year: str, month: str, day: str, clock: list[str | None]) -> datetime:
    hour, minute, second = (int(part or 0) for part in clock)
    return datetime(int(year), int(month), int(day), hour, minute, second)


def _named(text: str) -> datetime | None:
    """Month names in English."""
    without_zone = _ORDINAL.sub("", _ZONE_NAME.sub("", text)).replace(",", " ").replace(".", " ")
    without_zone = " ".join(without_zone.split())
    for form in _NAMED:
        try:
            return datetime.strptime(without_zone, form)
        except ValueError:
            continue
    return None


def _mail(text: str) -> datetime | None:
    """The format of mail headers and of `git log`."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
