"""The leases that a store or a manager has acquired, by token."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from theorydb_py.errors import InvalidInputError, LeaseLostError
from theorydb_py.isr import _pages as pages
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._lease import IsrLease, Snapshot
from theorydb_py.isr._leasescope import finish
from theorydb_py.isr._lockrow import is_held
from theorydb_py.isr._normalize import check_text
from theorydb_py.isr._row import text

_EXAMINED = 2
"""How many old leases each new one examines. Two suffice to forget leases faster than they come."""

_RELEASED_TOGETHER = 16
"""How many leases ``close`` releases at the same time."""


class LeaseRegistry:
    """The leases that may still be held, until ``close`` gives them back. Safe for concurrent use."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        # Ordered by the last examination. An OrderedDict finds its first entry in
        # constant time even after deletions; a plain dict would search for it.
        self._leases: OrderedDict[str, IsrLease] = OrderedDict()  # guarded by _lock
        self._closed = False  # guarded by _lock

    def check_open(self) -> None:
        """Raise InvalidInputError after ``close``."""
        with self._lock:
            closed = self._closed
        if closed:
            raise InvalidInputError("acquire a lease: leases were given back by close; create another object")

    def add(self, lease: IsrLease) -> None:
        """Add a lease, and forget some that are over or expired: a fixed amount of work, however many are held.

        If ``close`` was called since ``check_open``, the lease is released instead, and
        InvalidInputError raised.
        """
        with self._lock:
            closed = self._closed
            if not closed:
                self._forget_locked()
                self._leases[lease.lease_token] = lease
        if closed:
            self._give_back(lease)
            self.check_open()

    def remove(self, lease: IsrLease) -> None:
        """Remove a lease that is over."""
        with self._lock:
            self._leases.pop(lease.lease_token, None)

    def close(self) -> None:
        """Stop the heartbeats of all leases, which are lost from now on, and release them. May be called repeatedly.

        Failures are logged, and the rows left to expire.
        """
        with self._lock:
            self._closed = True
            held = [lease for lease in self._leases.values() if not lease.over]
            self._leases.clear()
        if held:
            with ThreadPoolExecutor(min(len(held), _RELEASED_TOGETHER)) as threads:
                list(threads.map(self._give_back, held))

    def _give_back(self, lease: IsrLease) -> None:
        lease.end(lost=True)  # a block that holds it is to stop
        finish(self._connection, lease, "the lease was given back by close")

    def _forget_locked(self) -> None:
        for token in list(itertools.islice(self._leases, _EXAMINED)):
            if self._leases[token].over or not self._leases[token].running():
                del self._leases[token]
            else:
                self._leases.move_to_end(token)  # to be examined again after all others

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
