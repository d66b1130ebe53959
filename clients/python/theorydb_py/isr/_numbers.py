"""Rounding and bounds of stored numbers and times.

This package writes integers. Other writers may store fractions and numbers of any size:
these are rounded down (up where a condition compares them with a whole second) and
saturate.
"""

from __future__ import annotations

import math
from decimal import Decimal

from theorydb_py._decimal import parse_decimal
from theorydb_py._times import MAX_EPOCH
from theorydb_py.errors import InvalidInputError

SATURATION = 1 << 62
"""Larger magnitudes saturate here."""
MAX_COUNT = SATURATION - 1
"""The largest sequence, version or length."""
MIN_STATUS, MAX_STATUS = 100, 999
MAX_INTERVAL = 10 * 365 * 24 * 3600
"""The longest interval in seconds: ten years."""
MAX_LEASE = MAX_INTERVAL + 24 * 3600
"""How far ahead a lease may end, in seconds: the longest lease and a day of clock skew."""


def floor_number(digits: str) -> int | None:
    """Round a number in DynamoDB's notation down; None if the text is not a number."""
    number = _decimal(digits)
    return None if number is None else math.floor(number)


def ceil_number(digits: str) -> int | None:
    """Round a number in DynamoDB's notation up; None if the text is not a number."""
    number = _decimal(digits)
    return None if number is None else math.ceil(number)


def _decimal(digits: str) -> Decimal | None:
    try:
        number = parse_decimal(digits)
    except ValueError:
        return None
    # Saturate before expanding: an exponent may stand for thousands of digits.
    return min(max(number, Decimal(-SATURATION)), Decimal(SATURATION))


def clamp(value: int, most: int) -> int:
    """Clamp a value to [0, most]."""
    return min(max(value, 0), most)


def check_number(name: str, value: object) -> float:
    """Require a finite number. A bool is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidInputError(f"{name} is {value!r}: expected a finite number")
    return value


def check_time(name: str, value: object) -> float:
    """Require a time in epoch seconds before the year 10000."""
    number = check_number(name, value)
    if not 0 <= number <= MAX_EPOCH:
        raise InvalidInputError(
            f"{name} is {value!r}: expected epoch seconds from 0 to {MAX_EPOCH} (the end of the year 9999); "
            "divide milliseconds by 1000"
        )
    return number


def check_interval(name: str, value: object) -> int:
    """Return an interval in whole seconds, rounded up, at most ten years. Negative intervals are refused."""
    number = check_number(name, value)
    if number < 0:
        raise InvalidInputError(f"{name} is {value!r}: expected seconds from 0 to {MAX_INTERVAL} (ten years)")
    return clamp(math.ceil(number), MAX_INTERVAL)


def check_count(name: str, value: object, most: int = MAX_COUNT) -> int:
    """Require an integer from 0 to most."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise InvalidInputError(f"{name} is {value!r}: expected an integer from 0 to {most}")
    return value


def lease_seconds(name: str, milliseconds: object) -> int:
    """Convert a lease duration to whole seconds, rounded up, at most ten years."""
    number = check_number(name, milliseconds)
    if number <= 0:
        raise InvalidInputError(f"{name} is {milliseconds!r}: expected more than 0 milliseconds, such as 30000")
    return clamp(math.ceil(number / 1000), MAX_INTERVAL)
