"""The leases that a store has acquired, by token."""

from __future__ import annotations

import threading

from theorydb_py.errors import InvalidInputError, LeaseLostError
from theorydb_py.isr import _pages as pages
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._lease import IsrLease, Snapshot
from theorydb_py.isr._lockrow import is_held
from theorydb_py.isr._normalize import check_text
from theorydb_py.isr._row import text


class LeaseRegistry:
    """Finds leases for calls that only pass a token. Safe for concurrent use."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._leases: dict[str, IsrLease] = {}  # guarded by _lock

    def add(self, lease: IsrLease) -> None:
        """Add a lease, and drop those that are over or expired, as they cannot be published."""
        with self._lock:
            self._leases = {token: held for token, held in self._leases.items() if not held.over and held.running()}
            self._leases[lease.lease_token] = lease

    def remove(self, lease: IsrLease) -> None:
        """Remove a lease that is over."""
        with self._lock:
            self._leases.pop(lease.lease_token, None)

    def find(self, cache_key: str, pk: str, token: str) -> IsrLease | None:
        """Return the lease of a token; None if this store did not acquire it."""
        if check_text("lease_token", token) == "":
            raise InvalidInputError(f"lease_token of {cache_key} is empty: expected the token of an acquired lease")
        with self._lock:
            found = self._leases.get(token)
        return found if found is not None and found.pk == pk else None

    def foreign_lease(self, cache_key: str, pk: str, token: str) -> IsrLease:
        """Return a lease that another process acquired; only its token is known."""
        return IsrLease(self._connection, cache_key=cache_key, pk=pk, token=token, owner="", seconds=1, attempt=None)

    def adopt(self, cache_key: str, pk: str, token: str) -> IsrLease:
        """Return a lease that another process acquired, and read the page now.

        Raises LeaseLostError if it expired or is not the current lease.
        """
        started = self._connection.monotonic()
        record = pages.read_page(self._connection, pk)
        lease = self.foreign_lease(cache_key, pk, token)
        second = self._connection.second()
        end = record.lock.lease_expires_at if record.lock else 0
        if not is_held(end, second) or text(record.fence.lock, "lease_token") != token:
            raise LeaseLostError(f"the lease of {pk} is lost: it expired, was taken or was released")
        lease.granted(end, started, end - second)
        lease.set_snapshot(Snapshot(record, 0))
        return lease
