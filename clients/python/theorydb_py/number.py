"""DynamoDB's numbers: decimals of up to 38 digits, to the last one."""

from __future__ import annotations

import math
import re
from decimal import Decimal

Number = int | float | Decimal

EXPECTED = "a number of at most 38 digits, from 1E-130 to 9.99E+125 in magnitude"

_DIGITS = 38
_SMALLEST, _LARGEST = -130, 125  # exponents of the first digit
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,6})?", re.ASCII)
_LONGEST = 512  # characters of a number that anybody writes


def is_number(value: object) -> bool:
    """Whether a value is one of Number; a bool is none."""
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def number_text(value: Number) -> str:
    """Write a number as DynamoDB does, in plain decimal. ValueError: it cannot be kept to the last digit.

    Of a float it is the shortest decimal that is read back as the same float.
    """
    if isinstance(value, int) and abs(value) >= 10 ** (_LARGEST + 1):
        raise ValueError(EXPECTED)  # before its digits are written out
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(EXPECTED)
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return format(_kept(number), "f")


def parse_number(text: str) -> Decimal:
    """Read a number as DynamoDB writes it, or another program. ValueError: it is none."""
    number = parse_decimal(text)
    # Bounded before anybody writes it out: an exponent may say a million digits.
    if number and not _SMALLEST <= number.adjusted() <= _LARGEST:
        raise ValueError(EXPECTED)
    return number


def parse_decimal(text: str) -> Decimal:
    """Read a decimal of any magnitude: to expand it may take very long. ValueError: it is none."""
    if len(text) > _LONGEST or _NUMBER.fullmatch(text) is None:
        raise ValueError(EXPECTED)
    return Decimal(text)


def parse_integer(text: str) -> int:
    """Read a number that is whole, however it is written: 1.5E3 is. ValueError: it is none."""
    number = parse_number(text)
    whole = int(number)
    if whole != number:
        raise ValueError("a whole number")
    return whole


def _kept(number: Decimal) -> Decimal:
    """Return the number without trailing zeros, which do not count. No context of the program rounds it."""
    if not number.is_finite():
        raise ValueError(EXPECTED)
    sign, digits, last = number.as_tuple()
    exponent = int(last)
    text = "".join(map(str, digits)).lstrip("0")
    significant = text.rstrip("0")
    if not significant:
        return Decimal(0)
    exponent += len(text) - len(significant)
    if len(significant) > _DIGITS or not _SMALLEST <= len(significant) + exponent - 1 <= _LARGEST:
        raise ValueError(EXPECTED)
    return Decimal((sign, tuple(map(int, significant)), exponent))
