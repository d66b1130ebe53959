"""The leases that a store has acquired, by their tokens."""

from __future__ import annotations

import threading

from theorydb_py.errors import InvalidInputError, LeaseLostError
from theorydb_py.isr import pages
from theorydb_py.isr.connection import Connection
from theorydb_py.isr.items import text
from theorydb_py.isr.lease import IsrLease, Reading
from theorydb_py.isr.lockrow import is_held
from theorydb_py.isr.storable import check_text


class HeldLeases:
    """For calls that have nothing but a token. Safe for concurrent use."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._leases: dict[str, IsrLease] = {}  # guarded by _lock

    def remember(self, lease: IsrLease) -> None:
        """Keep a lease until it is over, or has run out: it cannot be published by then."""
        with self._lock:
            self._leases = {token: held for token, held in self._leases.items() if not held.over and held.running()}
            self._leases[lease.lease_token] = lease

    def forget(self, lease: IsrLease) -> None:
        """Drop a lease that is over."""
        with self._lock:
            self._leases.pop(lease.lease_token, None)

    def find(self, cache_key: str, pk: str, token: str) -> IsrLease | None:
        """Return the lease of a token, None if it was acquired elsewhere."""
        if check_text("lease_token", token) == "":
            raise InvalidInputError(f"lease_token of {cache_key} is empty: expected that of the acquisition")
        with self._lock:
            found = self._leases.get(token)
        return found if found is not None and found.pk == pk else None

    def stranger(self, cache_key: str, pk: str, token: str) -> IsrLease:
        """Return a lease that another process has acquired, of which nothing but its token is known."""
        return IsrLease(self._connection, cache_key=cache_key, pk=pk, token=token, owner="", seconds=1, attempt=None)

    def adopt(self, cache_key: str, pk: str, token: str) -> IsrLease:
        """Return a lease that another process has acquired; the page is read now.

        LeaseLostError: it has run out, or is not the current one.
        """
        started = self._connection.monotonic()
        record = pages.read_page(self._connection, pk)
        lease = self.stranger(cache_key, pk, token)
        second = self._connection.second()
        end = record.lock.lease_expires_at if record.lock else 0
        if not is_held(end, second) or text(record.fence.lock, "lease_token") != token:
            raise LeaseLostError(f"the lease of {pk} is lost: it expired, or was taken or given up")
        lease.granted(end, started, end - second)
        lease.note(Reading(record, 0))
        return lease
