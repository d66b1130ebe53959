"""Encodes plain Python values as DynamoDB attributes, without a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from theorydb_py._codecerror import CodecError, attribute_mismatch, short_repr, value_mismatch
from theorydb_py._decimal import is_number, number_text, parse_number
from theorydb_py._times import rfc3339

Attribute = Mapping[str, Any]
"""A stored value: a map with one member, such as ``{"S": "text"}`` or ``{"N": "1"}``."""

MAX_DEPTH = 32
"""How deep lists and maps may be nested, including the item itself."""

_EXPECTED = "None, a bool, text, a number, bytes, a list, a dict, a set or a datetime"


def encode_value(value: object) -> Attribute:
    """Encode a value for an expression. Raises CodecError if it cannot be encoded exactly.

    The model determines the types of stored items; for values without one see
    encode_document.
    """
    return _encode(value, 1, _encode_more)


def encode_document(value: object, depth: int = 1) -> Attribute:
    """Encode a value so that decode_document returns it. Raises CodecError if that is impossible.

    Floats would come back as Decimal and times as text, so they are refused: declare a
    field of that type instead.
    """
    return _encode(value, depth, _refuse_more)


def decode_document(attribute: Attribute) -> Any:
    """Decode a stored value: whole numbers as int, others as Decimal."""
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
    raise attribute_mismatch("an attribute of a known type", attribute)


def encode_text(value: str) -> Attribute:
    """Encode text. Raises CodecError for lone surrogates, which UTF-8 cannot represent."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise value_mismatch("text that UTF-8 can represent", value) from None
    return {"S": value}


def encode_number(value: int | float | Decimal) -> Attribute:
    """Encode a number. Raises CodecError if it would be rounded."""
    try:
        return {"N": number_text(value)}
    except ValueError as error:
        # The type only: formatting all digits of an int may take very long.
        raise CodecError(str(error), type(value).__name__ + " beyond that") from None


def encode_set(values: set[Any] | frozenset[Any]) -> Attribute:
    """Encode a set of texts, numbers or bytes. Raises CodecError for an empty or mixed set."""
    if not values:
        raise CodecError("a nonempty set, as DynamoDB has no empty ones", "an empty set")
    if all(isinstance(value, str) for value in values):
        return {"SS": sorted(encode_text(value)["S"] for value in values)}
    if all(isinstance(value, bytes) for value in values):
        return {"BS": sorted(values)}
    if not all(is_number(value) for value in values):
        raise CodecError("a set of only text, only numbers or only bytes", short_repr(values))
    texts = {encode_number(value)["N"] for value in values}
    if len(texts) != len(values):
        raise CodecError("a set of numbers that differ as decimals", short_repr(values))
    return {"NS": sorted(texts)}


def check_depth(depth: int) -> None:
    """Refuse lists and maps nested too deeply for DynamoDB, including values that contain themselves."""
    if depth >= MAX_DEPTH:
        raise CodecError(f"lists and maps nested at most {MAX_DEPTH - 1} deep", "deeper ones")


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
    except CodecError as error:
        raise error.within(step) from None


def _encode_more(value: object, depth: int) -> Attribute:
    """Encode the types that lose their type when they are decoded without a model."""
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
                raise value_mismatch(str(error), value) from None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        raise value_mismatch("a plain value; dataclasses are allowed in fields of a model", value)
    raise value_mismatch(_EXPECTED, value)


def _refuse_more(value: object, depth: int) -> Attribute:  # noqa: ARG001 one of two
    raise value_mismatch("None, a bool, text, an int, a Decimal, bytes, a list, a dict or a set", value)


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise value_mismatch("text as the name of a member", name)
    encode_text(name)
    return name


def _number(text: str) -> int | Decimal:
    try:
        number = parse_number(text)
    except ValueError as error:
        raise attribute_mismatch(str(error), {"N": text}) from None
    whole = int(number)
    return whole if whole == number else number
