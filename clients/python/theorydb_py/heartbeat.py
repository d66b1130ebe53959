"""Keeping a lease from a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from theorydb_py.errors import LeaseLostError

PATIENCE = 2.0
"""How many seconds ``stop`` waits for an extension that is under way."""


class Heartbeat:
    """Extends one lease at a third of its lifetime, until it is stopped or the lease is lost.

    The lease is lost by the word of ``refresh``, or because our own clock says
    that it ran out before an extension was confirmed. Unreachable is not lost:
    other errors are logged, and ``refresh`` is called again after a tenth of the
    lifetime. Its methods may be called from any thread.
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
        """Begin.

        ``refresh`` extends the lease by ``seconds`` and raises LeaseLostError if
        there is none to extend; ``acquired_at`` is the monotonic time at which
        the acquisition was begun, so that time on the way counts against us;
        ``name`` is for the log; ``wait`` waits for an event, at most so many
        seconds, and says whether it has come.
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
        self._over = False  # guarded by _lock; once it is set it stays
        self._deadline = acquired_at + seconds  # guarded by _lock
        first = acquired_at + seconds / 3
        # A daemon: a refresh that hangs keeps no process from ending.
        self._thread = threading.Thread(target=self._run, args=(first,), name=f"lease {name}", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Whether the lease is lost, even while a refresh hangs. Once it is, it stays so."""
        with self._lock:
            return self._lost_locked()

    def stop(self) -> bool:
        """Begin no further extension, and return whether the lease was lost before.

        It waits at most PATIENCE seconds for an extension that is under way. One that
        hangs for longer is left to its thread, a daemon, which ends as soon as the
        client's own time limits end the call. What becomes of that call is not looked
        at: it extends the lease only if the lease was not given up meanwhile, as it
        demands the lease's token. It may be called again, but not by ``refresh``.
        """
        lost = self.lost
        self._quit.set()
        if self._wait(self._ended, PATIENCE):
            self._thread.join()  # it has nothing left to do
        else:
            self._logger.warning("an extension of the lease of %s hangs; it is left to time out", self._name)
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
                if self.lost:  # somebody else may have it by now
                    return
                self._logger.warning("the lease of %s could not be extended, trying again: %s", self._name, error)
                due = min(self._monotonic() + self._seconds / 10, self._deadline)
            else:
                if not self._extend(began):
                    return
                due = began + self._seconds / 3

    def _end(self) -> None:
        """Note that the lease is lost, unless it is being given up.

        Then it is the release or the publish that made the extension fail, and its own
        answer says what became of the lease.
        """
        with self._lock:
            self._over = self._over or not self._quit.is_set()

    def _extend(self, began: float) -> bool:
        """Count from an acknowledged extension, unless the holder may have been told that the lease is lost."""
        with self._lock:
            if self._lost_locked():
                return False
            self._deadline = began + self._seconds
            return True

    def _lost_locked(self) -> bool:
        if self._monotonic() >= self._deadline:
            self._over = True
        return self._over
