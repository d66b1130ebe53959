"""Plain Python values as DynamoDB's attributes, without a model that says what they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from theorydb_py.number import is_number, number_text, parse_number
from theorydb_py.times import rfc3339
from theorydb_py.unfit import UnfitError, shown, unfit_attribute, unfit_value

Attribute = Mapping[str, Any]
"""A stored value: a map of one member, such as ``{"S": "text"}`` or ``{"N": "1"}``."""

DEEPEST = 32
"""How many lists and maps may stand within each other, the item itself counted."""

_EXPECTED = "None, a bool, text, a number, bytes, a list, a dict, a set or a datetime"


def encode_value(value: object) -> Attribute:
    """Say a value as an attribute, for expressions. UnfitError: it cannot be said exactly.

    Whole items are read back as the types of their model; see encode_document
    for what has none.
    """
    return _encode(value, 1, _encode_more)


def encode_document(value: object, depth: int = 1) -> Attribute:
    """Say a value so that decode_document gives it back. UnfitError: that cannot be.

    Floats come back as decimals and times as text, so they are refused: a field
    of such a type has none of these problems.
    """
    return _encode(value, depth, _refuse_more)


def decode_document(attribute: Attribute) -> Any:
    """Return a stored value: whole numbers as int, others as Decimal."""
    kind, value = next(iter(attribute.items()))
    match kind:
        case "S" | "BOOL" | "B":
            return value
        case "NULL":
            return None
        case "N":
            return _number(value)
        case "L":
            return [decode_document(element) for element in value]
        case "M":
            return {name: decode_document(member) for name, member in value.items()}
        case "SS" | "BS":
            return set(value)
        case "NS":
            return {_number(member) for member in value}
    raise unfit_attribute("an attribute of a known type", attribute)


def encode_text(value: str) -> Attribute:
    """Say text. UnfitError: it has lone surrogates, which UTF-8 does not."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise unfit_value("text that UTF-8 can write", value) from None
    return {"S": value}


def encode_number(value: int | float | Decimal) -> Attribute:
    """Say a number. UnfitError: it cannot be kept to the last digit."""
    try:
        return {"N": number_text(value)}
    except ValueError as error:
        # Its type alone: to write all digits of an int may take very long.
        raise UnfitError(str(error), type(value).__name__ + " beyond that") from None


def encode_set(values: set[Any] | frozenset[Any]) -> Attribute:
    """Say a set of texts, of numbers or of bytes. UnfitError: it is none of these, or empty."""
    if not values:
        raise UnfitError("a set that is not empty, as DynamoDB has no empty ones", "an empty set")
    if all(isinstance(value, str) for value in values):
        return {"SS": sorted(encode_text(value)["S"] for value in values)}
    if all(isinstance(value, bytes) for value in values):
        return {"BS": sorted(values)}
    if not all(is_number(value) for value in values):
        raise UnfitError("a set of nothing but text, of nothing but numbers or of nothing but bytes", shown(values))
    texts = {encode_number(value)["N"] for value in values}
    if len(texts) != len(values):
        raise UnfitError("a set of numbers that differ as decimals", shown(values))
    return {"NS": sorted(texts)}


def check_depth(depth: int) -> None:
    """Refuse a list or map at a depth that DynamoDB does not have. It ends values that contain themselves, too."""
    if depth >= DEEPEST:
        raise UnfitError(f"lists and maps nested at most {DEEPEST - 1} deep", "deeper ones")


def _encode(value: object, depth: int, more: Callable[[object, int], Attribute]) -> Attribute:
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return encode_text(value)
        case int() | Decimal():
            return encode_number(value)
        case bytes():
            return {"B": value}
        case list():
            check_depth(depth)
            return {"L": [_encode_at(f"[{i}]", element, depth + 1, more) for i, element in enumerate(value)]}
        case dict():
            check_depth(depth)
            return {"M": {_name(k): _encode_at(_name(k), member, depth + 1, more) for k, member in value.items()}}
        case set():
            return encode_set(value)
    return more(value, depth)


def _encode_at(step: str, value: object, depth: int, more: Callable[[object, int], Attribute]) -> Attribute:
    try:
        return _encode(value, depth, more)
    except UnfitError as error:
        raise error.within(step) from None


def _encode_more(value: object, depth: int) -> Attribute:
    """Say what loses its type when it is read back without a model."""
    match value:
        case float():
            return encode_number(value)
        case tuple():
            return _encode(list(value), depth, _encode_more)
        case bytearray() | memoryview():
            return {"B": bytes(value)}
        case frozenset():
            return encode_set(value)
        case datetime():
            try:
                return {"S": rfc3339(value)}
            except ValueError as error:
                raise unfit_value(str(error), value) from None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        raise unfit_value("a plain value; the dataclasses of a model are for its fields", value)
    raise unfit_value(_EXPECTED, value)


def _refuse_more(value: object, depth: int) -> Attribute:  # noqa: ARG001 one of two
    raise unfit_value("None, a bool, text, an int, a Decimal, bytes, a list, a dict or a set", value)


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise unfit_value("text as the name of a member", name)
    encode_text(name)
    return name


def _number(text: str) -> int | Decimal:
    try:
        number = parse_number(text)
    except ValueError as error:
        raise unfit_attribute(str(error), {"N": text}) from None
    whole = int(number)
    return whole if whole == number else number
