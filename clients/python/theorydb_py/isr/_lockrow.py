"""The LOCK row of a page or a job: a lease, or the backoff after a failure."""

from __future__ import annotations

import math

from theorydb_py._times import MAX_EPOCH, format_time
from theorydb_py._values import Attribute
from theorydb_py.errors import LeaseHeldError
from theorydb_py.isr._entry import Lock
from theorydb_py.isr._names import SK_LOCK
from theorydb_py.isr._numbers import MAX_LEASE, clamp
from theorydb_py.isr._row import Item, key, lease_end_of, lenient_number, lenient_text, number, read, string

LINGER = 3600
"""How long a row outlives its lease before DynamoDB may expire it, in seconds: longer than any clock skew."""
_MAX_FAILURES = 1 << 20
"""The count only determines a backoff: larger values make no difference."""


def new_lock(pk: str, token: str, owner: str, expires_at: int) -> Item:
    """Return the row of a lease."""
    owned = {"lease_owner": string(owner)} if owner else {}
    return {**key(pk, SK_LOCK), "lease_token": string(token), **owned, **until(expires_at)}


def until(expires_at: int) -> dict[str, Attribute]:
    """Return the attributes for the end of a lease, and for the expiry of its row."""
    return {"lease_expires_at": number(expires_at), "ttl": number(expires_at + LINGER)}


def lock_of(item: Item) -> Lock:
    """Decode a LOCK row by the same rules as the condition of an acquisition; never fails."""
    return Lock(
        owner=read(item, "lease_owner", lenient_text, ""),
        lease_expires_at=read(item, "lease_expires_at", lease_end_of, 0),
        failures=clamp(read(item, "failures", lenient_number, 0), _MAX_FAILURES),
    )


def expiry(now: float, seconds: float) -> int:
    """Return the end of a lease, in epoch seconds, rounded up so that no holder gets less than requested."""
    return clamp(math.ceil(now + seconds), MAX_EPOCH)


def is_held(end: int, now: float) -> bool:
    """Return whether a lease, or a request in progress, that ends at ``end`` is held now.

    An end beyond the longest lease, such as one in milliseconds, is invalid: it counts
    as free.
    """
    return now < end <= math.floor(now) + MAX_LEASE


def describe_holder(lock: Lock) -> str:
    """Describe the holder for people."""
    end = format_time(lock.lease_expires_at)
    if lock.is_back_off:
        return f"it is in backoff after {lock.failures} failures until {end}"
    return f"it is held by {lock.owner or 'another holder'} until {end}"


def held_error(pk: str, lock: Lock) -> LeaseHeldError:
    """Return the error of an acquisition that found this row."""
    return LeaseHeldError(
        f"acquire the lease of {pk}: {describe_holder(lock)}; try again then",
        owner=lock.owner,
        expires_at=lock.lease_expires_at,
        failures=lock.failures,
    )


def holder_note(item: Item | None) -> str:
    """Describe the present holder in parentheses, from the row of a failed condition."""
    return f" ({describe_holder(lock_of(item))})" if item else " (there is no lease)"
