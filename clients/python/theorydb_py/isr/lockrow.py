"""The LOCK row of a page: a lease, or the pause after a failure."""

from __future__ import annotations

from theorydb_py.errors import LeaseHeldError
from theorydb_py.isr.entry import Lock
from theorydb_py.isr.items import SK_LOCK, Attribute, Item, key, number, string
from theorydb_py.lockrow import LINGER, read_lock
from theorydb_py.times import readable_moment


def new_lock(pk: str, token: str, owner: str, expires_at: int) -> Item:
    """Return the row of a lease."""
    owned = {"lease_owner": string(owner)} if owner else {}
    return {**key(pk, SK_LOCK), "lease_token": string(token), **owned, **until(expires_at)}


def until(expires_at: int) -> dict[str, Attribute]:
    """Return the attributes that say when a lease ends, and when its row may be collected."""
    return {"lease_expires_at": number(expires_at), "ttl": number(expires_at + LINGER)}


def lock_of(item: Item) -> Lock:
    """Read a LOCK row, as the condition of an acquisition judges it: never an error."""
    found = read_lock(item)
    return Lock(owner=found.owner, lease_expires_at=found.expires_at, failures=found.failures)


def held_by(lock: Lock) -> str:
    """Say for people who has a lease."""
    end = readable_moment(lock.lease_expires_at)
    if lock.is_back_off:
        return f"the page is in back-off after {lock.failures} failures until {end}"
    return f"the lease is held by {lock.owner or 'another holder'} until {end}"


def held_error(pk: str, lock: Lock) -> LeaseHeldError:
    """Return the error of an acquisition that found this row."""
    return LeaseHeldError(
        f"acquire the lease of {pk}: {held_by(lock)}; serve what there is, or try again then",
        owner=lock.owner,
        expires_at=lock.lease_expires_at,
        failures=lock.failures,
    )


def whose(item: Item | None) -> str:
    """Name the present holder in brackets, for the error of a condition that brought the row along."""
    return f" ({held_by(lock_of(item))})" if item else " (there is no lease)"
