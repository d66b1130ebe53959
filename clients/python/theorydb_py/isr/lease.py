"""A lease of a page: the right to regenerate it, proven by its token."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from theorydb_py.errors import LeaseLostError
from theorydb_py.heartbeat import Heartbeat
from theorydb_py.isr.connection import Connection
from theorydb_py.isr.entry import Record
from theorydb_py.isr.requestrow import Attempt


@dataclass(frozen=True)
class Reading:
    """What was read under a lease, before rendering begins."""

    record: Record
    """What a publish replaces."""
    purge_seq: int
    """SEQ, read after the record: a purge that lands from then on makes what is rendered stale at birth."""


class IsrLease:
    """A lease that a store has acquired. Safe for concurrent use.

    The token stays the same for the life of the lease, so that a refresh whose
    reply was lost can be repeated.
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
        """Be made by a store."""
        self.cache_key = cache_key
        self.pk = pk
        self.lease_token = token
        self.lease_owner = owner
        self.failures = 0
        """How many regenerations in a row had failed before; 0 too if the reply to the acquisition was lost."""
        self._connection = connection
        self._lock = threading.Lock()
        self._seconds = seconds  # guarded by _lock, as all below
        self._expires_at = 0  # as last acknowledged
        self._deadline = 0.0  # the same on the monotonic clock
        self._over = False  # lost, released, backed off or published
        self._lost = False
        self._attempt = attempt  # at a request; None without one, and once it is ended
        self._reading: Reading | None = None
        self._heartbeat: Heartbeat | None = None

    # --- For holders --------------------------------------------------------

    @property
    def duration_seconds(self) -> int:
        """The lifetime that the acquisition or the last refresh granted."""
        with self._lock:
            return self._seconds

    @property
    def lease_expires_at(self) -> int:
        """When it ends unless it is extended, in epoch seconds, as last acknowledged."""
        with self._lock:
            return self._expires_at

    @property
    def lease_expires_at_ms(self) -> int:
        """lease_expires_at in epoch milliseconds."""
        return self.lease_expires_at * 1000

    @property
    def record(self) -> Record:
        """What the page was when the lease was taken. If it is fresh, somebody else was faster: release."""
        return self._read().record

    @property
    def purge_seq(self) -> int:
        """The purge sequence when the lease was taken, for the entry that is rendered under it."""
        return self._read().purge_seq

    @property
    def lost(self) -> bool:
        """Whether the lease expired or was taken. One that was released or published is not lost."""
        with self._lock:
            heartbeat, over, lost = self._heartbeat, self._over, self._lost
        if lost:
            return True
        return not over and (not self.running() or (heartbeat is not None and heartbeat.lost))

    def check(self) -> None:
        """Raise LeaseLostError if the lease is lost. Call it before each effect that only the holder may have."""
        if self.lost:
            raise LeaseLostError(f"the lease of {self.pk} is lost: stop, and leave the rest to its next holder")

    # --- For the store ------------------------------------------------------

    @property
    def connection(self) -> Connection:
        """The store's: a lease is no other store's."""
        return self._connection

    @property
    def attempt(self) -> Attempt | None:
        """The attempt that the lease was acquired for, None without one, and once it is ended."""
        with self._lock:
            return self._attempt

    @property
    def over(self) -> bool:
        """Whether it is gone for good."""
        with self._lock:
            return self._over

    def granted(self, expires_at: int, started: float, seconds: int | None = None) -> None:
        """Note an acknowledged acquisition or refresh, by so long; None: by the lifetime it has.

        started is the monotonic time before the request left, so that time on the
        way counts against us.
        """
        with self._lock:
            self._seconds = self._seconds if seconds is None else seconds
            self._expires_at, self._deadline = expires_at, started + self._seconds

    def running(self) -> bool:
        """Whether neither clock has seen the end: the wall clock, by which others judge, and the monotonic one."""
        second, monotonic = self._connection.second(), self._connection.monotonic()
        with self._lock:
            return self._expires_at > second and self._deadline > monotonic

    def end(self, *, lost: bool = False) -> None:
        """Note that it is gone. A clock that is set back, or a row from a backup, does not revive it here."""
        with self._lock:
            self._lost = self._lost or (lost and not self._over)
            self._over = True

    def end_request(self) -> None:
        """Note that the request is not this lease's concern any more."""
        with self._lock:
            self._attempt = None

    def note(self, reading: Reading) -> None:
        """Remember what was read under the lease."""
        with self._lock:
            self._reading = reading

    def keep_by(self, heartbeat: Heartbeat) -> None:
        """Have it kept from now on."""
        with self._lock:
            self._heartbeat = heartbeat

    def stop_heartbeat(self) -> None:
        """End its keeping, before it is given up: a refresh would contend with a publish.

        One that hangs is not waited for without bound; see Heartbeat.stop.
        """
        with self._lock:
            heartbeat = self._heartbeat
        if heartbeat is not None and heartbeat.stop():
            self.end(lost=True)

    def _read(self) -> Reading:
        with self._lock:
            if self._reading is None:
                raise LeaseLostError(f"the lease of {self.pk} was never held")
            return self._reading
