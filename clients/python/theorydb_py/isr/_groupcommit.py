"""Group commit: concurrent changes of the purge log share one transaction.

Every change advances SEQ, so that concurrent transactions would conflict. There is no
background thread: one of the waiting threads is the leader. It commits what is queued
until its own change is answered, and then hands over to the thread that has waited
longest.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass

from theorydb_py.errors import TransactionConflictError, UnknownOutcomeError
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._logcommit import MAX_ACTIONS, LogChange, commit_together

_QUEUE_TIMEOUTS = 4
"""How long a change may be queued, in settle timeouts."""
_COMMIT_TIMEOUTS = 4
"""How long a sent change may take, in settle timeouts: one to commit, one to settle, the rest for hanging calls."""


@dataclass(eq=False)
class _Waiter:
    """A queued change and its thread. until and result are guarded by the lock."""

    change: LogChange
    size: int
    """The most actions it needs, beside its purges."""
    wakeup: threading.Condition
    """Notified when the change is answered, or its thread becomes the leader."""
    until: float
    """When its thread stops waiting, by time.monotonic()."""
    result: int | Exception | None = None
    """The sequence of the change, or its error; None: not answered yet."""


class GroupCommit:
    """The queue of a store's changes of the log. Safe for concurrent use."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._queue: list[_Waiter] = []  # guarded by _lock: not sent yet
        self._leader: _Waiter | None = None  # guarded by _lock

    def commit(self, change: LogChange) -> int:
        """Commit a change together with concurrent ones; return its sequence, or raise the error of this change.

        Raises TransactionConflictError if the change was queued for too long or other
        processes kept winning (nothing was written), and UnknownOutcomeError if it
        could not be settled. Interrupting a waiting thread withdraws its change, unless
        it was sent. An interrupted leader hands over; the changes that it was
        committing get UnknownOutcomeError.
        """
        waiter = _Waiter(
            change, len(change.actions(0)), threading.Condition(self._lock), self._deadline(_QUEUE_TIMEOUTS)
        )
        with self._lock:
            self._queue.append(waiter)
            self._leader = self._leader or waiter
            try:
                self._wait_locked(waiter)
            except BaseException:
                self._leave_locked(waiter)
                raise
        if waiter.result is None:
            self._lead(waiter)
        if not isinstance(waiter.result, int):
            raise waiter.result or AssertionError("a change of the log was not answered")
        return waiter.result

    def _wait_locked(self, waiter: _Waiter) -> None:
        """Wait until the change is answered or its thread becomes the leader."""
        while waiter.result is None and self._leader is not waiter:
            left = waiter.until - time.monotonic()
            if left > 0:
                waiter.wakeup.wait(left)
            elif waiter in self._queue:
                raise TransactionConflictError(
                    f"{waiter.change.name()}: queued for too long behind other changes of the log; nothing was "
                    "written: try again"
                )
            else:
                raise UnknownOutcomeError(
                    f"{waiter.change.name()}: it was sent and there is no reply yet: read the page"
                )

    def _leave_locked(self, waiter: _Waiter) -> None:
        """Remove a change from the queue, unless it was sent, and give up the lead."""
        with contextlib.suppress(ValueError):
            self._queue.remove(waiter)
        if self._leader is waiter:
            self._hand_over_locked()

    def _lead(self, waiter: _Waiter) -> None:
        try:
            while waiter.result is None:
                self._commit(self._take())
        finally:
            with self._lock:
                self._leave_locked(waiter)

    def _take(self) -> list[_Waiter]:
        """Dequeue what fits into one transaction, in the order of arrival.

        Two changes of one page have conditions on the same rows, so the second waits for
        the next transaction, which reports that the page has moved. Purges have none, and
        are merged.
        """
        with self._lock:
            taken: list[_Waiter] = []
            pages: set[str] = set()
            purged: set[tuple[str, str]] = set()
            actions = 0
            for waiter in self._queue:
                rows = {purge.row for purge in waiter.change.purges}
                size = waiter.size + len(rows - purged)
                if actions + size > MAX_ACTIONS:
                    break
                if waiter.change.pk is not None:
                    if waiter.change.pk in pages:
                        continue
                    pages.add(waiter.change.pk)
                actions += size
                purged |= rows
                taken.append(waiter)
            self._queue = [waiter for waiter in self._queue if waiter not in taken]
            for waiter in taken:
                waiter.until = self._deadline(_COMMIT_TIMEOUTS)
            return taken

    def _commit(self, taken: list[_Waiter]) -> None:
        waiters = {id(waiter.change): waiter for waiter in taken}

        def report(change: LogChange, result: int | Exception) -> None:
            waiter = waiters.pop(id(change))
            with self._lock:
                waiter.result = result
                waiter.wakeup.notify()

        try:
            commit_together(self._connection, [waiter.change for waiter in taken], report)
        finally:
            # If this thread is interrupted, the others must still get an answer.
            for waiter in list(waiters.values()):
                report(
                    waiter.change,
                    UnknownOutcomeError(
                        f"{waiter.change.name()}: the thread that wrote it was interrupted: read the page"
                    ),
                )

    def _hand_over_locked(self) -> None:
        self._leader = self._queue[0] if self._queue else None
        if self._leader is not None:
            self._leader.wakeup.notify()

    def _deadline(self, timeouts: int) -> float:
        return time.monotonic() + timeouts * self._connection.settle_timeout_seconds
