"""Group commit: the changes of the purge log that wait at the same time share one transaction.

Every change advances SEQ, so that two transactions at the same time refuse each
other. There is no thread for it: of the threads that wait, one leads at a time. It
commits what waits until its own change has its answer, and then makes the thread
that has waited longest the leader.
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
"""For how many settle timeouts a change waits for its turn at most."""
_SENT = 4
"""For how many a change waits that was sent: committing and settling take one each, and a call may hang in between."""


@dataclass(eq=False)
class _Ticket:
    """A change that waits, and the thread that waits with it. Fields from until on are guarded by the lock."""

    change: LogChange
    size: int
    """How many actions it has at most."""
    turn: threading.Condition
    """Notified when the change has its answer, or its thread is to lead."""
    until: float
    """When its thread gives up waiting, by the clock of threads."""
    answered: bool = False
    failure: Exception | None = None


class GroupCommit:
    """The queue of a store's changes of the log. Safe for concurrent use."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._queue: list[_Ticket] = []  # guarded by _lock: changes that were not sent yet
        self._leader: _Ticket | None = None  # guarded by _lock

    def commit(self, change: LogChange) -> None:
        """Commit a change, together with what others commit meanwhile, or raise what its own part has failed of.

        TransactionConflictError: it waited too long for its turn, or other processes
        were faster time and again; nothing was written. UnknownOutcomeError: it could
        not be settled. A thread that is interrupted while its change waits takes it
        back; one that leads has carried on until then what it had sent.
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
        """Wait until the change has its answer, or its thread is to lead."""
        while not ticket.answered and self._leader is not ticket:
            left = ticket.until - time.monotonic()
            if left > 0:
                ticket.turn.wait(left)
            elif ticket in self._queue:
                raise TransactionConflictError(
                    f"{ticket.change.name()}: other changes of the log were before it for too long; nothing was "
                    "written: try again"
                )
            else:
                raise UnknownOutcomeError(
                    f"{ticket.change.name()}: it was sent, and there is no answer yet: read the page"
                )

    def _leave_locked(self, ticket: _Ticket) -> None:
        """Take a change back, unless it was sent, and do not lead."""
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
        """Take what fits into one transaction, in the order of arrival.

        Two changes of one page touch the same rows: the second waits for the next
        transaction, in which it is told that the page has moved.
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
            # An interruption of this thread is not to leave the others without an answer.
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
