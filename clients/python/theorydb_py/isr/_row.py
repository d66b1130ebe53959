"""Access to the attributes of items in DynamoDB's format, and their decoders.

A decoder states which values of an attribute it accepts, and the error for others. NULL
counts as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from theorydb_py._codecerror import CodecError, attribute_mismatch, describe
from theorydb_py._times import MAX_EPOCH
from theorydb_py._values import Attribute
from theorydb_py.errors import MalformedRowError
from theorydb_py.isr._numbers import MAX_COUNT, MAX_INTERVAL, MAX_STATUS, MIN_STATUS, ceil_number, clamp, floor_number

Item = Mapping[str, Attribute]
T = TypeVar("T")
HeaderValue = str | bytes

EXPECTED_TEXT = "a string that is not empty"
EXPECTED_INSTANT = "a number of epoch seconds up to the year 9999"
EXPECTED_HORIZON = "a number of epoch seconds"
EXPECTED_PERIOD = "a number of seconds"
EXPECTED_COUNT = f"a number from 0 to {MAX_COUNT}"
EXPECTED_STATUS = f"a number from {MIN_STATUS} to {MAX_STATUS}"


def string(value: str) -> Attribute:
    """Return a string attribute."""
    return {"S": value}


def number(value: int) -> Attribute:
    """Return a number attribute."""
    return {"N": str(value)}


def key(pk: str, sk: str) -> Item:
    """Return the key of a row."""
    return {"pk": string(pk), "sk": string(sk)}


def text(item: Item | None, name: str) -> str:
    """Return a string attribute's value, or the empty string."""
    value = (item or {}).get(name, {}).get("S")
    return value if isinstance(value, str) else ""


def child(item: Item | None, name: str) -> Item:
    """Return a map attribute's members; empty if it is not a map."""
    value = (item or {}).get(name, {}).get("M")
    return value if isinstance(value, Mapping) else {}


def is_null(value: Attribute) -> bool:
    """Return whether an attribute is NULL, which mappers write for a missing value."""
    return "NULL" in value


def malformed(item: Item, attribute: str, expected: str, found: str = "") -> MalformedRowError:
    """Return the error of an unexpected attribute; a dot in the name separates the members of maps."""
    *path, name = attribute.split(".")
    at = item
    for step in path:
        at = child(at, step)
    found = found or describe(at.get(name))
    pk, sk = text(item, "pk"), text(item, "sk")
    return MalformedRowError(
        f"row pk={pk} sk={sk} is malformed: {attribute}: expected {expected}, found {found}; "
        "the next publish replaces META; repair or delete other rows",
        pk=pk,
        sk=sk,
        attribute=attribute,
        expected=expected,
        found=found,
    )


# --- Decoders --------------------------------------------------------------------------


def read(item: Item, path: str, reader: Callable[[Attribute], T], default: T) -> T:
    """Decode an attribute of a row; a dot separates the members of maps.

    Returns default if it is absent. Raises MalformedRowError if the decoder refuses it.
    """
    value: Attribute | None = None
    members: Item = item
    for name in path.split("."):
        value = members.get(name)
        nested = (value or {}).get("M")
        members = nested if isinstance(nested, Mapping) else {}
    if value is None:
        return default
    try:
        return reader(value)
    except CodecError as unfit:
        raise malformed(item, path, unfit.expected) from None


def floor_of(value: Attribute) -> int | None:
    """Return a number rounded down; NULL is 0, anything else is None."""
    if "N" in value:
        return floor_number(value["N"])
    return 0 if is_null(value) else None


def text_of(value: Attribute) -> str:
    """Decode a string."""
    if is_null(value):
        return ""
    if "S" not in value:
        raise attribute_mismatch("a string", value)
    return str(value["S"])


def flag_of(value: Attribute) -> bool:
    """Decode a boolean; NULL is false."""
    if is_null(value):
        return False
    if "BOOL" not in value:
        raise attribute_mismatch("a boolean", value)
    return bool(value["BOOL"])


def count_of(value: Attribute) -> int:
    """Decode a sequence, a version or a length."""
    return _within(value, 0, MAX_COUNT, EXPECTED_COUNT)


def status_of(value: Attribute) -> int:
    """Decode an HTTP status."""
    return _within(value, MIN_STATUS, MAX_STATUS, EXPECTED_STATUS)


def instant_of(value: Attribute) -> int:
    """Decode a time in epoch seconds."""
    return _within(value, 0, MAX_EPOCH, EXPECTED_INSTANT)


def _within(value: Attribute, least: int, most: int, expected: str) -> int:
    n = floor_of(value)
    if n is None or not least <= n <= most:
        raise attribute_mismatch(expected, value)
    return n


def horizon_of(value: Attribute) -> int | None:
    """Decode a time in epoch seconds that is a lower bound: it is clamped."""
    if is_null(value):
        return None
    n = floor_of(value)
    if n is None:
        raise attribute_mismatch(EXPECTED_HORIZON, value)
    return clamp(n, MAX_EPOCH)


def optional_instant_of(value: Attribute) -> int | None:
    """Decode an optional time in epoch seconds."""
    return None if is_null(value) else instant_of(value)


def period_of(value: Attribute) -> int:
    """Decode a duration in seconds; it is clamped."""
    n = floor_of(value)
    if n is None:
        raise attribute_mismatch(EXPECTED_PERIOD, value)
    return clamp(n, MAX_INTERVAL)


def tags_of(value: Attribute) -> tuple[str, ...]:
    """Decode a list of strings."""
    if is_null(value):
        return ()
    tags = _strings(value)
    if tags is None:
        raise attribute_mismatch("a list of strings", value)
    return tuple(tag if isinstance(tag, str) else tag.decode("utf-8", "surrogateescape") for tag in tags)


def headers_of(value: Attribute) -> dict[str, tuple[HeaderValue, ...]]:
    """Decode response headers: names to lists of values. Bytes are values that are not UTF-8."""
    if is_null(value):
        return {}
    if "M" not in value:
        raise attribute_mismatch("a map of lists of strings", value)
    headers: dict[str, tuple[HeaderValue, ...]] = {}
    for name, values in value["M"].items():
        read_values = _strings(values)
        if read_values is None:
            raise attribute_mismatch(f"a map of lists of strings, and a list at {name}", value)
        headers[name.lower()] = read_values
    return headers


def _strings(value: Attribute) -> tuple[HeaderValue, ...] | None:
    members = value.get("L")
    if not isinstance(members, list):
        return None
    strings: list[HeaderValue] = []
    for member in members:
        if "S" in member:
            strings.append(member["S"])
        elif "B" in member:
            strings.append(bytes(member["B"]))
        else:
            return None
    return tuple(strings)


# --- Lenient decoders, for rows of other writers ---------------------------------------


def lenient_text(value: Attribute) -> str:
    """Decode a string; anything else is empty."""
    content = value.get("S")
    return content if isinstance(content, str) else ""


def lenient_number(value: Attribute) -> int:
    """Decode a number, rounded down; anything else is 0."""
    return floor_of(value) or 0


def lease_end_of(value: Attribute) -> int:
    """Decode the end of a lease in epoch seconds, rounded up; 0 (expired) if it is not a number.

    Rounding up agrees with ``lease_expires_at <= :now`` for a whole ``:now``.
    """
    end = ceil_number(value["N"]) if "N" in value else None
    return clamp(end or 0, MAX_EPOCH)
