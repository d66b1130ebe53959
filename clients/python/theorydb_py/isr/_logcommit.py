"""Commits several changes of the purge log in one transaction, and settles lost replies."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Protocol

from theorydb_py._classify import read_failure
from theorydb_py._outcome import Outcome, condition_held, outcome_of, was_retried
from theorydb_py.errors import TransactionConflictError, UnknownOutcomeError
from theorydb_py.isr._advance import advance
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._entry import ReloadTarget
from theorydb_py.isr._logrow import CONFIRM_TARGET, log_key, reload_target
from theorydb_py.isr._names import PK_LOG
from theorydb_py.isr._pages import SeenSequence, read_sequence
from theorydb_py.isr._purge import RowPurge, merge_rows, moment_of
from theorydb_py.isr._row import Item, text
from theorydb_py.isr._transaction import Action, Purpose, Refusal, Transaction

MAX_ACTIONS = 98
"""How many actions the changes of one transaction may have: SEQ and LOG# come on top."""


class LogChange(Protocol):
    """A change that every node must learn of: a rollback, a pin, a purge."""

    @property
    def pk(self) -> str | None:
        """The partition that its actions touch, and no other; None: it has no actions."""

    @property
    def reload(self) -> tuple[ReloadTarget, ...]:
        """The pages that nodes must reload because of its actions."""

    @property
    def purges(self) -> tuple[RowPurge, ...]:
        """The rows that it purges. Purges of the same row are merged."""

    @property
    def confirm(self) -> bool:
        """Whether every process is asked to report when it has applied the change."""

    @property
    def mark_lifetime(self) -> int:
        """How long purge marks are kept at least from now on, in seconds."""

    def name(self) -> str:
        """Describe the change for people."""

    def actions(self, seq: int) -> list[Action]:
        """Return its actions of the transaction with this sequence. They have conditions."""

    def classify(self, why: Refusal) -> Exception | None:
        """Return the error that its failed conditions mean; None: send it again.

        Called once no earlier request of the change can have been applied.
        """


OnResult = Callable[[LogChange, int | Exception], None]
"""Called with the result of each change: the sequence at which it was committed, or its error."""


def commit_together(connection: Connection, changes: Sequence[LogChange], on_result: OnResult) -> None:
    """Commit changes, those with actions of different pages, and report each result as soon as it is known.

    A change whose own condition fails gets its error, and the others are sent again at
    once. If another process advanced SEQ first, all of them back off, and SEQ is read
    again afterwards. Takes at most one settle timeout, and another one if replies are
    missing.
    """
    _Batch(connection, changes, connection.settle_deadline(), on_result).run()


class _Request:
    """One transaction of changes, based on one value of SEQ. If it was applied, its id is in the log."""

    def __init__(self, connection: Connection, seen: SeenSequence, changes: Sequence[LogChange]) -> None:
        self.seen = seen
        self.changes = tuple(changes)
        self.id = secrets.token_hex(16)
        parts = [(change, action) for change in self.changes for action in change.actions(self.seq)]
        self._parts = parts
        mark_lifetime = max((change.mark_lifetime for change in self.changes), default=0)
        purges = merge_rows(purge for change in self.changes for purge in change.purges)
        moment = moment_of(self.seq, connection.now(), max(mark_lifetime, seen.sequence.mark_lifetime))
        targets = [reload_target(page) for change in self.changes for page in change.reload]
        targets += [target for purge in purges for target in purge.log_targets(moment)]
        if any(change.confirm for change in self.changes):
            targets.append(CONFIRM_TARGET)
        log = advance(seen, self.id, targets, connection.now(), mark_lifetime=mark_lifetime)
        purged = [purge.action(moment) for purge in purges]
        self.transaction = Transaction(connection, [*(action for _, action in parts), *log, *purged])

    @property
    def seq(self) -> int:
        """The sequence of its changes, if it is applied."""
        return self.seen.sequence.seq + 1

    def refusals(self, error: Exception) -> tuple[dict[LogChange, dict[Purpose, Item | None]], bool]:
        """Return the failed conditions of each change, and whether SEQ had moved."""
        refusals: dict[LogChange, dict[Purpose, Item | None]] = {}
        refused = self.transaction.refused(error)
        for index, row in refused.items():
            if index < len(self._parts):
                change, action = self._parts[index]
                refusals.setdefault(change, {})[action.purpose] = row
        return refusals, len(self._parts) in refused


class _Batch:
    """Changes that are being committed."""

    def __init__(self, connection: Connection, changes: Sequence[LogChange], until: float, on_result: OnResult) -> None:
        self._connection = connection
        self._waiting = list(changes)
        self._until = until
        self._on_result = on_result

    def run(self) -> None:
        attempt = 0
        while self._waiting:
            attempt += 1
            try:
                # Read SEQ after the backoff: an earlier value is stale.
                request = _Request(self._connection, read_sequence(self._connection), self._waiting)
            except Exception as failure:
                return self._fail(failure)
            error, unanswered = self._send(request)
            if error is None:
                # Crashing here loses nothing: all rows are committed.
                return self._committed(request)
            if not self._handle(request, error, unanswered) and self._waiting:
                self._pause(attempt, request, error)
        return None

    def _send(self, request: _Request) -> tuple[Exception | None, bool]:
        """Send a request, unchanged while a reply is missing; return the last error and whether a reply is missing.

        Once a reply is missing, only the same request may be sent: it may be applied
        until one of its conditions fails.
        """
        attempt, unanswered = 0, False
        while True:
            attempt += 1
            try:
                request.transaction.send()
            except Exception as error:
                outcome = outcome_of(error)
                unanswered = unanswered or outcome is Outcome.UNKNOWN
                if outcome in _DECIDED or not unanswered:
                    return error, unanswered
                again = self._connection.retry.pause(attempt, self._until)
                if not again or not request.transaction.is_repeatable:
                    return error, unanswered
            else:
                return None, False

    def _handle(self, request: _Request, error: Exception, unanswered: bool) -> bool:
        """Handle an error; return whether the remaining changes may be sent without a backoff."""
        match outcome_of(error):
            case Outcome.CONDITION_FAILED:
                return self._classify(request, error, unanswered)
            case Outcome.CANCELLED if not unanswered:
                return False
            case Outcome.REFUSED if not unanswered:
                self._send_alone(request, error)
            case _:
                self._settle(request, error)
        return True

    def _classify(self, request: _Request, error: Exception, unanswered: bool) -> bool:
        if unanswered or was_retried(error):
            # The request itself may have been applied, and so have falsified its
            # conditions.
            try:
                committed = self._was_committed(request, self._connection.settle_deadline())
            except Exception as failure:
                self._unknown(error, failure)
                return True
            if committed:
                self._committed(request)
                return True
        refusals, moved = request.refusals(error)
        before = len(self._waiting)
        for change, why in refusals.items():
            verdict = change.classify(why)
            if verdict is not None:
                self._report(change, verdict)
        return not moved and len(self._waiting) < before

    def _pause(self, attempt: int, request: _Request, error: Exception) -> None:
        """Back off before the next request. If time is up, no request was applied or will be."""
        if self._connection.retry.pause(attempt, self._until):
            return
        for change in tuple(self._waiting):
            if outcome_of(error) is Outcome.CONDITION_FAILED:
                failure: Exception = TransactionConflictError(
                    f"{change.name()}: other processes kept changing the log; nothing was written: try again"
                )
            else:
                failure = request.transaction.failure(change.name(), error)
            self._report(change, failure)

    def _send_alone(self, request: _Request, error: Exception) -> None:
        """Send the changes of an invalid or oversized request one by one, so that one bad change fails no others."""
        for change in request.changes:
            if len(request.changes) == 1 or self._connection.monotonic() >= self._until:
                self._report(change, request.transaction.failure(change.name(), error))
            else:
                _Batch(self._connection, [change], self._until, self._report).run()

    def _settle(self, request: _Request, cause: Exception) -> None:
        """Settle a request without a reply.

        SEQ is advanced by one, without a target, until that gets a reply: from then on
        the request cannot be applied, as it requires the previous SEQ. Then the log row
        shows which request owns the sequence.
        """
        deadline = self._connection.settle_deadline()
        try:
            void = _Request(self._connection, request.seen, ())
            condition_held(lambda: self._connection.retry.until(deadline, void.transaction.send))
            committed = self._was_committed(request, deadline)
        except Exception as failure:
            return self._unknown(cause, failure)
        names = ", ".join(change.name() for change in request.changes)
        self._connection.logger.warning(
            "settled an unanswered write: %s: committed: %s, after %s", names, committed, cause
        )
        if committed:
            return self._committed(request)
        for change in request.changes:
            self._report(change, request.transaction.failure(change.name(), cause))
        return None

    def _was_committed(self, request: _Request, deadline: float) -> bool:
        """Return whether the log row of the requested sequence carries the id of the request."""
        # The transaction may still be committing the row, although SEQ has moved.
        sk = log_key(request.seq)
        found = self._connection.read_serializable(PK_LOG, [sk], deadline).get(sk)
        return text(found, "id") == request.id

    def _committed(self, request: _Request) -> None:
        for change in request.changes:
            self._report(change, request.seq)

    def _fail(self, failure: Exception) -> None:
        for change in tuple(self._waiting):
            self._report(change, read_failure(change.name(), failure))

    def _unknown(self, cause: Exception, failure: Exception) -> None:
        for change in tuple(self._waiting):
            what = f"{change.name()}: the outcome is unknown ({cause}), and reading the table failed: {failure}"
            self._connection.logger.warning("could not settle an unanswered write: %s", what)
            self._report(change, UnknownOutcomeError(what))

    def _report(self, change: LogChange, result: int | Exception) -> None:
        self._waiting.remove(change)
        self._on_result(change, result)


_DECIDED = (Outcome.CONDITION_FAILED, Outcome.REFUSED)
