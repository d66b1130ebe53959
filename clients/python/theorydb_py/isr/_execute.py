"""Executes transactions that update META until their outcome is known.

The conditions of a change never become true again once they are false: a version of
META, a lease token, a purge sequence. So a refused request cannot be applied later.
"""

from __future__ import annotations

import enum
from typing import Protocol

from theorydb_py._classify import read_failure
from theorydb_py._outcome import Outcome, outcome_of
from theorydb_py._token import TOKEN_LIFE
from theorydb_py.errors import UnknownOutcomeError
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._transaction import Refusal, Transaction


class Verdict(enum.Enum):
    """The meaning of failed conditions that are not an error."""

    AGAIN = "send another request"
    COMMITTED = "an earlier request was applied"


class Change(Protocol):
    """A transaction that updates META, and the meaning of its errors."""

    def name(self) -> str:
        """Describe the change for people."""

    def transaction(self) -> Transaction:
        """Build the transaction, after reading what it depends on. Raises the errors of reading."""

    def running(self) -> bool:
        """Return whether another request may be sent."""

    def classify(self, why: Refusal) -> Verdict | Exception:
        """Classify failed conditions."""

    def revoke(self, cause: Exception, deadline: float) -> Exception:
        """Ensure that no request that was sent can be applied any more.

        Returns the error to raise, made from cause, if none was applied.
        """

    def committed(self, sent: list[Transaction], deadline: float) -> bool:
        """Return whether a request was applied. Called once none can be applied any more."""


def execute(connection: Connection, change: Change) -> None:
    """Send a change until its outcome is known.

    Without a reply, the same request is repeated under its token; after a definite
    cancellation, a new one is built. Raises UnknownOutcomeError if it cannot be
    settled.
    """
    started, sent, attempt, rebuild = connection.monotonic(), [_first(change)], 0, False
    while True:
        attempt += 1
        error = _rebuild(change, sent) if rebuild else None
        if error is None:
            error = _send(sent[-1])
            if error is None or _handle_error(connection, change, sent, error, first=attempt == 1):
                return None  # crashing here loses nothing: all rows are committed
            rebuild = outcome_of(error) is not Outcome.UNKNOWN
        elif outcome_of(error) is Outcome.REFUSED:
            return _settle(connection, change, sent, error)
        patient = connection.retry.pause(attempt, started + TOKEN_LIFE) and change.running()
        if not patient or not (rebuild or sent[-1].is_repeatable):
            return _settle(connection, change, sent, error)


def _handle_error(
    connection: Connection, change: Change, sent: list[Transaction], error: Exception, *, first: bool
) -> bool:
    """Return whether the change is committed. Raises its error if that is definite."""
    outcome = outcome_of(error)
    if outcome is Outcome.CONDITION_FAILED:
        return not _resend_refused(connection, change, sent, error, first=first)
    if outcome is not Outcome.REFUSED:
        return False
    if first:
        raise sent[-1].failure(change.name(), error) from error
    _settle(connection, change, sent, error)
    return True


def _rebuild(change: Change, sent: list[Transaction]) -> Exception | None:
    """Build a new request; return the error if reading what it depends on fails."""
    try:
        sent.append(change.transaction())
    except Exception as failure:
        return failure
    return None


def _first(change: Change) -> Transaction:
    try:
        return change.transaction()
    except Exception as error:
        raise read_failure(change.name(), error) from error


def _send(transaction: Transaction) -> Exception | None:
    try:
        transaction.send()
    except Exception as error:  # classified by the caller
        return error
    return None


def _resend_refused(
    connection: Connection, change: Change, sent: list[Transaction], error: Exception, *, first: bool
) -> bool:
    """Return whether to send a change again whose conditions failed; False: it is committed. Raises its error."""
    why = sent[-1].refusal(error)
    if not why:
        raise sent[-1].failure(change.name(), error) from error
    verdict = change.classify(why)
    if isinstance(verdict, Verdict):
        return verdict is Verdict.AGAIN
    if first:
        raise verdict
    # An earlier request may have falsified the conditions.
    try:
        committed = change.committed(sent, connection.settle_deadline())
    except Exception as failure:
        raise _unknown(change, verdict, failure) from failure
    if not committed:
        raise verdict
    return False


def _settle(connection: Connection, change: Change, sent: list[Transaction], cause: Exception) -> None:
    """Settle requests without a reply.

    They are revoked, and then the rows show whether one of them was applied. After a
    crash before that, the transaction is applied entirely or not.
    """
    deadline = connection.settle_deadline()
    try:
        verdict = change.revoke(sent[-1].failure(change.name(), cause), deadline)
        committed = change.committed(sent, deadline)
    except Exception as failure:
        connection.logger.warning("could not settle an unanswered write: %s: %s", change.name(), failure)
        raise _unknown(change, cause, failure) from failure
    connection.logger.warning(
        "settled an unanswered write: %s: committed: %s, after %s", change.name(), committed, cause
    )
    if not committed:
        raise verdict from cause


def _unknown(change: Change, cause: Exception, failure: Exception) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"{change.name()}: the outcome is unknown ({cause}), and reading the table failed: {failure}"
    )
