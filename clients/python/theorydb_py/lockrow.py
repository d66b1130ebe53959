"""LOCK rows: what a lease is in the table, whoever wrote it.

The rows are those of the Go package dynamostore and of the TypeScript client.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from theorydb_py.errors import InvalidInputError

# Conditions on a LOCK row. A row without a number cannot say when it ends: it is free.
IS_FREE = "attribute_not_exists(pk) OR NOT attribute_type(lease_expires_at, :number) OR lease_expires_at <= :now"
IS_HELD = "lease_token = :token AND lease_expires_at > :now"
IS_OURS = "lease_token = :token"

# How many seconds a LOCK row outlives its lease before DynamoDB may collect it:
# longer than clocks differ.
LINGER = 3600

MAX_MOMENT = 253402300799
"""The last second of the year 9999, in epoch seconds."""
MAX_INTERVAL = 10 * 365 * 24 * 3600
"""The longest interval, ten years, in seconds."""


@dataclass(frozen=True)
class Lock:
    """What a LOCK row says."""

    token: str
    owner: str
    """Who has it, for people; empty if it does not say."""
    expires_at: int
    """Epoch seconds, rounded up; 0, which is long ago, if it does not say."""
    failures: int
    """How many attempts have failed in a row; 0 if the count makes no sense."""


def read_lock(item: Mapping[str, Any]) -> Lock:
    """Read a stored row as the condition of an acquisition judges it: never an error."""
    return Lock(
        token=_text(item, "lease_token"),
        owner=_text(item, "lease_owner"),
        expires_at=_whole(item, "lease_expires_at", ROUND_CEILING, MAX_MOMENT),
        failures=_whole(item, "failures", ROUND_FLOOR, _MAX_FAILURES),
    )


def free_at(now: float) -> dict[str, Any]:
    """Return the values of IS_FREE at a time in epoch seconds."""
    return {":number": {"S": "N"}, ":now": {"N": str(math.floor(now))}}


def held_at(token: str, now: float) -> dict[str, Any]:
    """Return the values of IS_HELD."""
    return {":token": {"S": token}, ":now": {"N": str(math.floor(now))}}


def expiry(now: float, seconds: int) -> int:
    """Return when a lease ends that lasts so long from now.

    In epoch seconds, rounded up so that no holder gets less than it asked for.
    """
    return min(max(math.ceil(now + seconds), 0), MAX_MOMENT)


def lease_seconds(what: str, seconds: float) -> int:
    """Round a lifetime up to whole seconds; from above 0 to ten years."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= MAX_INTERVAL:
        raise InvalidInputError(f"{what}: expected seconds above 0, at most {MAX_INTERVAL}, found {seconds!r}")
    return math.ceil(seconds)


# A count only shapes a back-off: more are no different.
_MAX_FAILURES = 1 << 20


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name, {}).get("S", "")
    return value if isinstance(value, str) else ""


def _whole(item: Mapping[str, Any], name: str, rounding: str, most: int) -> int:
    digits = item.get(name, {}).get("N")
    if digits is None:
        return 0
    number = min(max(Decimal(digits), Decimal(0)), Decimal(most))
    return int(number.to_integral_value(rounding=rounding))
