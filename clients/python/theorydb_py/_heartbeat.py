"""Refreshes a lease in a background thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from theorydb_py.errors import LeaseLostError

STOP_TIMEOUT = 2.0
"""How long ``stop`` waits for a refresh in progress, in seconds."""


class Heartbeat:
    """Refreshes a lease after each third of its duration, until it is stopped or the lease is lost.

    The lease is lost once ``refresh`` raises LeaseLostError, or once it expired by our
    clock before a refresh was acknowledged. Other errors, such as an unreachable table,
    are logged, and ``refresh`` is retried after a tenth of the duration. Methods may be
    called from any thread.
    """

    def __init__(
        self,
        refresh: Callable[[], None],
        *,
        name: str,
        seconds: float,
        acquired_at: float,
        logger: logging.Logger,
        monotonic: Callable[[], float] = time.monotonic,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        """Start the thread.

        ``refresh`` extends the lease by ``seconds`` and raises LeaseLostError if it is
        lost. ``acquired_at`` is the monotonic time before its acquisition, so that
        latency shortens the lease. ``name`` is used in logs. ``wait`` waits for an
        event, at most so many seconds, and returns whether it is set.
        """
        self._refresh = refresh
        self._name = name
        self._seconds = seconds
        self._logger = logger
        self._monotonic = monotonic
        self._wait = wait
        self._quit = threading.Event()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._over = False  # guarded by _lock; never cleared
        self._deadline = acquired_at + seconds  # guarded by _lock
        first = acquired_at + seconds / 3
        # A daemon: a hanging refresh must not keep the process from exiting.
        self._thread = threading.Thread(target=self._run, args=(first,), name=f"lease {name}", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Whether the lease is lost, even while a refresh hangs. It never becomes False again."""
        with self._lock:
            return self._lost_locked()

    def stop(self) -> bool:
        """Start no further refresh, and return whether the lease was lost before.

        Waits at most STOP_TIMEOUT seconds for a refresh in progress. One that hangs for
        longer is abandoned: its daemon thread ends with the client's own timeouts, and
        its result is ignored. It requires the lease's token, so it only extends a lease
        that was not released before. May be called repeatedly, but not by
        ``refresh``.
        """
        lost = self.lost
        self._quit.set()
        if self._wait(self._ended, STOP_TIMEOUT):
            self._thread.join()  # nothing left to do
        else:
            self._logger.warning("a refresh of the lease of %s hangs; it is left to time out", self._name)
        with self._lock:
            return lost or self._over

    def _run(self, due: float) -> None:
        try:
            self._beat(due)
        finally:
            self._ended.set()

    def _beat(self, due: float) -> None:
        while not self._wait(self._quit, max(due - self._monotonic(), 0)):
            began = self._monotonic()
            try:
                self._refresh()
            except LeaseLostError:
                self._end()
                return
            except Exception as error:
                if self.lost:  # another process may hold it by now
                    return
                self._logger.warning("could not refresh the lease of %s, trying again: %s", self._name, error)
                due = min(self._monotonic() + self._seconds / 10, self._deadline)
            else:
                if not self._extend(began):
                    return
                due = began + self._seconds / 3

    def _end(self) -> None:
        """Mark the lease as lost, unless it is being released.

        In that case the release or the publish made the refresh fail, and determines
        the fate of the lease.
        """
        with self._lock:
            self._over = self._over or not self._quit.is_set()

    def _extend(self, began: float) -> bool:
        """Restart the duration after an acknowledged refresh, unless the lease may have been reported as lost."""
        with self._lock:
            if self._lost_locked():
                return False
            self._deadline = began + self._seconds
            return True

    def _lost_locked(self) -> bool:
        if self._monotonic() >= self._deadline:
            self._over = True
        return self._over
