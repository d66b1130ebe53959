"""A lease: the right to regenerate a page, proven by its token."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from theorydb_py._heartbeat import Heartbeat
from theorydb_py.errors import LeaseLostError
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._entry import Record
from theorydb_py.isr._requestrow import Attempt


@dataclass(frozen=True)
class Snapshot:
    """What was read under the lease before rendering."""

    record: Record
    """The state that a publish replaces."""
    purge_seq: int
    """SEQ, read after the record: a later purge covers what is rendered."""


class IsrLease:
    """A lease that a store has acquired. Safe for concurrent use.

    Its token never changes, so that a refresh whose reply was lost can be repeated.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        cache_key: str,
        pk: str,
        token: str,
        owner: str,
        seconds: int,
        attempt: Attempt | None,
    ) -> None:
        """Create an unacquired lease; stores do."""
        self.cache_key = cache_key
        self.pk = pk
        self.lease_token = token
        self.lease_owner = owner
        self.failures = 0
        """How many regenerations in a row had failed; also 0 if the reply to the acquisition was lost."""
        self._connection = connection
        self._lock = threading.Lock()
        self._seconds = seconds  # guarded by _lock, like all fields below
        self._expires_at = 0  # as last acknowledged
        self._deadline = 0.0  # the same, in monotonic time
        self._over = False  # lost, released, backed off or published
        self._lost = False
        self._attempt = attempt  # None if there is no request record, and once it has ended
        self._snapshot: Snapshot | None = None
        self._heartbeat: Heartbeat | None = None

    # --- For holders --------------------------------------------------------

    @property
    def duration_seconds(self) -> int:
        """The lease's duration, as granted by the acquisition or the last refresh."""
        with self._lock:
            return self._seconds

    @property
    def lease_expires_at(self) -> int:
        """When it expires unless it is refreshed, in epoch seconds, as last acknowledged."""
        with self._lock:
            return self._expires_at

    @property
    def lease_expires_at_ms(self) -> int:
        """lease_expires_at in epoch milliseconds."""
        return self.lease_expires_at * 1000

    @property
    def record(self) -> Record:
        """The page when the lease was acquired. If it is fresh, another process was faster: release.

        Raises:
            LeaseLostError: it was never acquired.
        """
        return self._require_snapshot().record

    @property
    def purge_seq(self) -> int:
        """The purge sequence when the lease was acquired, for the entry that is rendered under it.

        Raises:
            LeaseLostError: it was never acquired.
        """
        return self._require_snapshot().purge_seq

    @property
    def lost(self) -> bool:
        """Whether the lease expired or was taken. A released or published lease is not lost."""
        with self._lock:
            heartbeat, over, lost = self._heartbeat, self._over, self._lost
        if lost:
            return True
        return not over and (not self.running() or (heartbeat is not None and heartbeat.lost))

    def check(self) -> None:
        """Raise an error if the lease is lost. Call it before each side effect.

        Raises:
            LeaseLostError: it expired, was taken, or was given back by close.
        """
        if self.lost:
            raise LeaseLostError(f"the lease of {self.pk} is lost: stop; its next holder does the work")

    # --- For the store ------------------------------------------------------

    @property
    def connection(self) -> Connection:
        """The connection of the store that acquired it."""
        return self._connection

    @property
    def attempt(self) -> Attempt | None:
        """The attempt that it was acquired for; None if there is no request record, and once it has ended."""
        with self._lock:
            return self._attempt

    @property
    def over(self) -> bool:
        """Whether it was lost, released, backed off or published."""
        with self._lock:
            return self._over

    def granted(self, expires_at: int, started: float, seconds: int | None = None) -> None:
        """Record an acknowledged acquisition or refresh; seconds None: the duration is unchanged.

        started is the monotonic time before the request was sent, so that latency
        shortens the lease.
        """
        with self._lock:
            self._seconds = self._seconds if seconds is None else seconds
            self._expires_at, self._deadline = expires_at, started + self._seconds

    def running(self) -> bool:
        """Return whether it is unexpired by the wall clock, by which others judge, and by the monotonic clock."""
        second, monotonic = self._connection.second(), self._connection.monotonic()
        with self._lock:
            return self._expires_at > second and self._deadline > monotonic

    def end(self, *, lost: bool = False) -> None:
        """Mark it as over. A clock that is set back, or a row from a backup, does not revive it."""
        with self._lock:
            self._lost = self._lost or (lost and not self._over)
            self._over = True

    def end_request(self) -> None:
        """Mark its request record as ended."""
        with self._lock:
            self._attempt = None

    def set_snapshot(self, snapshot: Snapshot) -> None:
        """Store what was read under the lease."""
        with self._lock:
            self._snapshot = snapshot

    def set_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Set the heartbeat that refreshes it."""
        with self._lock:
            self._heartbeat = heartbeat

    def stop_heartbeat(self) -> None:
        """Stop its heartbeat before it is released: a refresh would conflict with a publish.

        The wait for a hanging refresh is bounded; see Heartbeat.stop.
        """
        with self._lock:
            heartbeat = self._heartbeat
        if heartbeat is not None and heartbeat.stop():
            self.end(lost=True)

    def _require_snapshot(self) -> Snapshot:
        with self._lock:
            if self._snapshot is None:
                raise LeaseLostError(f"the lease of {self.pk} was never acquired")
            return self._snapshot
