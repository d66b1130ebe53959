"""DynamoDB's numbers: decimals of up to 38 digits, without rounding."""

from __future__ import annotations

import math
import re
from decimal import Decimal

Number = int | float | Decimal

EXPECTED = "a number of at most 38 digits, from 1E-130 to 9.99E+125 in magnitude"

_DIGITS = 38
_MIN_EXPONENT, _MAX_EXPONENT = -130, 125  # adjusted exponents
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,6})?", re.ASCII)
_MAX_LENGTH = 512  # the longest number accepted, in characters


def is_number(value: object) -> bool:
    """Return whether a value is an int, a float or a Decimal; a bool is not."""
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def number_text(value: Number) -> str:
    """Format a number as DynamoDB does, in plain decimal. Raises ValueError if it would be rounded.

    A float becomes the shortest decimal that parses to the same float.
    """
    if isinstance(value, int) and abs(value) >= 10 ** (_MAX_EXPONENT + 1):
        raise ValueError(EXPECTED)  # checked before formatting
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(EXPECTED)
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return format(_kept(number), "f")


def parse_number(text: str) -> Decimal:
    """Parse a number as DynamoDB or another program writes it. Raises ValueError."""
    number = parse_decimal(text)
    # Bounded before formatting: an exponent may stand for a million digits.
    if number and not _MIN_EXPONENT <= number.adjusted() <= _MAX_EXPONENT:
        raise ValueError(EXPECTED)
    return number


def parse_decimal(text: str) -> Decimal:
    """Parse a decimal of any magnitude, which may take long to expand. Raises ValueError."""
    if len(text) > _MAX_LENGTH or _NUMBER.fullmatch(text) is None:
        raise ValueError(EXPECTED)
    return Decimal(text)


def parse_integer(text: str) -> int:
    """Parse a whole number in any notation, such as 1.5E3. Raises ValueError."""
    number = parse_number(text)
    whole = int(number)
    if whole != number:
        raise ValueError("a whole number")
    return whole


def _kept(number: Decimal) -> Decimal:
    """Return the number without trailing zeros, independent of the program's decimal context."""
    if not number.is_finite():
        raise ValueError(EXPECTED)
    sign, digits, last = number.as_tuple()
    exponent = int(last)
    text = "".join(map(str, digits)).lstrip("0")
    significant = text.rstrip("0")
    if not significant:
        return Decimal(0)
    exponent += len(text) - len(significant)
    if len(significant) > _DIGITS or not _MIN_EXPONENT <= len(significant) + exponent - 1 <= _MAX_EXPONENT:
        raise ValueError(EXPECTED)
    return Decimal((sign, tuple(map(int, significant)), exponent))
