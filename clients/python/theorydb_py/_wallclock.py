"""Wall clocks that callers pass, whose unit is checked."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from theorydb_py._times import MAX_EPOCH
from theorydb_py.errors import InvalidInputError

EARLIEST = 100_000_000
"""3 March 1973 in epoch seconds. No wall clock is before it; a monotonic clock, which counts from the start, is."""


def wall_clock(now: Callable[[], float] | None) -> Callable[[], float]:
    """Return a wall clock in epoch seconds, each reading of which is checked; None: time.time.

    Two processes whose clocks count in different units, or from different moments,
    would see each other's leases as expired, or as held for ever.

    Raises:
        InvalidInputError: here, and from the returned clock, unless it is in epoch seconds.
    """
    if now is None or now is time.time:
        return time.time
    if not callable(now):
        raise InvalidInputError(f"now is {now!r:.60}: expected a function that returns epoch seconds, as time.time")

    def checked() -> float:
        return _checked(now())

    checked()
    return checked


def _checked(seconds: object) -> float:
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and EARLIEST <= seconds <= MAX_EPOCH:
        return seconds
    advice = ""
    if isinstance(seconds, int | float) and math.isfinite(seconds):
        advice = (
            "; divide milliseconds by 1000, nanoseconds by 1e9"
            if seconds > MAX_EPOCH
            else "; a clock that does not count from 1970, such as time.monotonic, cannot be compared between processes"
        )
    raise InvalidInputError(
        f"now() is {seconds!r:.60}: expected epoch seconds from {EARLIEST} (the year 1973) to {MAX_EPOCH} "
        f"(the end of the year 9999), as time.time returns{advice}"
    )
