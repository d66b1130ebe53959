"""Times: RFC 3339 in UTC, or epoch seconds in the role ttl."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

MIN_EPOCH = -62135596800
"""The first second of the year 1, in epoch seconds: datetime's minimum."""
MAX_EPOCH = 253402300799
"""The last second of the year 9999, in epoch seconds."""

_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)")
_MICROSECOND_DIGITS = 6


def rfc3339(moment: datetime) -> str:
    """Format a time in UTC, with a fraction only if it has one.

    Raises ValueError without a time zone, or beyond the years 1 to 9999 in UTC.
    """
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ValueError("a time with a time zone, such as datetime.now(UTC)")
    try:
        utc = moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("a time of the years 1 to 9999 in UTC") from error
    fraction = f".{utc.microsecond:06d}".rstrip("0") if utc.microsecond else ""
    return f"{utc.year:04d}-{utc:%m-%dT%H:%M:%S}{fraction}Z"


def parse_rfc3339(text: str) -> datetime:
    """Parse a time in any zone, rounded down to microseconds, datetime's resolution. Raises ValueError."""
    parts = _RFC3339.fullmatch(text)
    if parts is None:
        raise ValueError("a time of RFC 3339")
    whole, fraction, zone = parts.groups()
    micros = (fraction or "")[:_MICROSECOND_DIGITS].ljust(_MICROSECOND_DIGITS, "0")
    try:
        return datetime.fromisoformat(f"{whole}.{micros}{zone}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("a time of RFC 3339") from error


def from_epoch(seconds: int) -> datetime:
    """Convert epoch seconds. Raises ValueError beyond the years 1 to 9999."""
    if not MIN_EPOCH <= seconds <= MAX_EPOCH:
        raise ValueError("epoch seconds up to the year 9999; are they milliseconds?")
    return _EPOCH + timedelta(seconds=seconds)


def to_epoch(moment: datetime) -> int:
    """Return whole epoch seconds, rounded down. Raises ValueError without a time zone."""
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ValueError("a time with a time zone, such as datetime.now(UTC)")
    return (moment - _EPOCH) // timedelta(seconds=1)


def format_time(seconds: int) -> str:
    """Format epoch seconds for people."""
    return rfc3339(from_epoch(seconds))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
