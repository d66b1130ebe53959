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
from theorydb_py.isr.connection import Connection
from theorydb_py.isr.logcommit import MOST_ACTIONS, LogChange, commit_together

_QUEUED = 4
"""How long a change may be queued, in settle timeouts."""
_SENT = 4
"""How long a sent change may take, in settle timeouts: one to commit, one to settle, the rest for hanging calls."""


@dataclass(eq=False)
class _Ticket:
    """A queued change and its thread. until, answered and failure are guarded by the lock."""

    change: LogChange
    size: int
    """The most actions it needs."""
    turn: threading.Condition
    """Notified when the change is answered, or its thread becomes the leader."""
    until: float
    """When its thread stops waiting, by time.monotonic()."""
    answered: bool = False
    failure: Exception | None = None


class GroupCommit:
    """The queue of a store's changes of the log. Safe for concurrent use."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._queue: list[_Ticket] = []  # guarded by _lock: not sent yet
        self._leader: _Ticket | None = None  # guarded by _lock

    def commit(self, change: LogChange) -> None:
        """Commit a change together with concurrent ones, or raise the error of this change.

        Raises TransactionConflictError if the change was queued for too long or other
        processes kept winning (nothing was written), and UnknownOutcomeError if it
        could not be settled. Interrupting a waiting thread withdraws its change, unless
        it was sent. An interrupted leader hands over; the changes that it was
        committing get UnknownOutcomeError.
        """
        ticket = _Ticket(change, len(change.actions()), threading.Condition(self._lock), self._deadline(_QUEUED))
        with self._lock:
            self._queue.append(ticket)
            self._leader = self._leader or ticket
            try:
                self._wait_locked(ticket)
            except BaseException:
                self._leave_locked(ticket)
                raise
        if not ticket.answered:
            self._lead(ticket)
        if ticket.failure is not None:
            raise ticket.failure

    def _wait_locked(self, ticket: _Ticket) -> None:
        """Wait until the change is answered or its thread becomes the leader."""
        while not ticket.answered and self._leader is not ticket:
            left = ticket.until - time.monotonic()
            if left > 0:
                ticket.turn.wait(left)
            elif ticket in self._queue:
                raise TransactionConflictError(
                    f"{ticket.change.name()}: queued for too long behind other changes of the log; nothing was "
                    "written: try again"
                )
            else:
                raise UnknownOutcomeError(
                    f"{ticket.change.name()}: it was sent and there is no reply yet: read the page"
                )

    def _leave_locked(self, ticket: _Ticket) -> None:
        """Remove a change from the queue, unless it was sent, and give up the lead."""
        with contextlib.suppress(ValueError):
            self._queue.remove(ticket)
        if self._leader is ticket:
            self._hand_over_locked()

    def _lead(self, ticket: _Ticket) -> None:
        try:
            while not ticket.answered:
                self._commit(self._take())
        finally:
            with self._lock:
                self._leave_locked(ticket)

    def _take(self) -> list[_Ticket]:
        """Dequeue what fits into one transaction, in the order of arrival.

        Two changes of one page touch the same rows, so the second waits for the next
        transaction, which reports that the page has moved.
        """
        with self._lock:
            taken: list[_Ticket] = []
            pages: set[str] = set()
            actions = 0
            for ticket in self._queue:
                actions += ticket.size
                if actions > MOST_ACTIONS:
                    break
                if ticket.change.pk in pages:
                    actions -= ticket.size
                else:
                    pages.add(ticket.change.pk)
                    taken.append(ticket)
            self._queue = [ticket for ticket in self._queue if ticket not in taken]
            for ticket in taken:
                ticket.until = self._deadline(_SENT)
            return taken

    def _commit(self, taken: list[_Ticket]) -> None:
        tickets = {id(ticket.change): ticket for ticket in taken}

        def tell(change: LogChange, failure: Exception | None) -> None:
            ticket = tickets.pop(id(change))
            with self._lock:
                ticket.answered, ticket.failure = True, failure
                ticket.turn.notify()

        try:
            commit_together(self._connection, [ticket.change for ticket in taken], tell)
        finally:
            # If this thread is interrupted, the others must still get an answer.
            for ticket in list(tickets.values()):
                tell(
                    ticket.change,
                    UnknownOutcomeError(
                        f"{ticket.change.name()}: the thread that wrote it was interrupted: read the page"
                    ),
                )

    def _hand_over_locked(self) -> None:
        self._leader = self._queue[0] if self._queue else None
        if self._leader is not None:
            self._leader.turn.notify()

    def _deadline(self, timeouts: int) -> float:
        return time.monotonic() + timeouts * self._connection.settle_timeout
