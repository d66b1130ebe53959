"""Transactions that move META, carried out until their outcome is known.

What a change demands does not come back once it is false: a version of META, a
lease's token, a purge sequence. So a request that was refused can never happen
later.
"""

from __future__ import annotations

import enum
from typing import Protocol

from theorydb_py.answers import read_failure
from theorydb_py.errors import UnknownOutcomeError
from theorydb_py.isr.connection import Connection
from theorydb_py.isr.transaction import Refusal, Transaction
from theorydb_py.outcome import Outcome, outcome_of
from theorydb_py.token_age import TOKEN_LIFE


class Verdict(enum.Enum):
    """What false conditions mean, where they are no error."""

    AGAIN = "another request may get through"
    LANDED = "an earlier request is what made them false"


class Change(Protocol):
    """A transaction that moves META, and what its answers mean."""

    def name(self) -> str:
        """Return what it is, for people."""

    def transaction(self) -> Transaction:
        """State it anew, by what it has to read now. Errors: of reading."""

    def running(self) -> bool:
        """Return whether it may be sent once more."""

    def judge(self, why: Refusal) -> Verdict | Exception:
        """Say what the false conditions mean."""

    def preclude(self, cause: Exception, deadline: float) -> Exception:
        """See to it that no request which was sent can happen any more.

        Returns what to tell the caller, made of cause, if none has.
        """

    def landed(self, sent: list[Transaction], deadline: float) -> bool:
        """Return whether a request was carried out. It is asked once none can be any more."""


def carry_out(connection: Connection, change: Change) -> None:
    """Send a change until it has an answer.

    Without one the request is repeated as it is, under its token; after a definite
    cancellation there is a new one. UnknownOutcomeError: it could not be settled.
    """
    begun, sent, attempt, renew = connection.monotonic(), [_first(change)], 0, False
    while True:
        attempt += 1
        error = _renew(change, sent) if renew else None
        if error is None:
            error = _send(sent[-1])
            if error is None or _is_over(connection, change, sent, error, first=attempt == 1):
                return None  # crashing here loses nothing: all rows are as they should be
            renew = outcome_of(error) is not Outcome.UNKNOWN
        elif outcome_of(error) is Outcome.REFUSED:
            return _settle(connection, change, sent, error)
        patient = connection.retry.pause(attempt, begun + TOKEN_LIFE) and change.running()
        if not patient or not (renew or sent[-1].is_repeatable):
            return _settle(connection, change, sent, error)


def _is_over(connection: Connection, change: Change, sent: list[Transaction], error: Exception, *, first: bool) -> bool:
    """Say whether an answer is the last, and no error of the change: that is raised."""
    outcome = outcome_of(error)
    if outcome is Outcome.CONDITION_FAILED:
        return not _try_again(connection, change, sent, error, first=first)
    if outcome is not Outcome.REFUSED:
        return False
    if first:
        raise sent[-1].failure(change.name(), error) from error
    _settle(connection, change, sent, error)
    return True


def _renew(change: Change, sent: list[Transaction]) -> Exception | None:
    """Make a new request of a change, or return why that fails: what it depends on could not be read."""
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
    except Exception as error:  # judged by the caller: none is dropped
        return error
    return None


def _try_again(
    connection: Connection, change: Change, sent: list[Transaction], error: Exception, *, first: bool
) -> bool:
    """Say whether a change whose conditions were false is to be sent again; if not, it had landed, or this raises."""
    why = sent[-1].refusal(error)
    if not why:
        raise sent[-1].failure(change.name(), error) from error
    verdict = change.judge(why)
    if isinstance(verdict, Verdict):
        return verdict is Verdict.AGAIN
    if first:
        raise verdict
    # An earlier request may be what made the conditions false.
    try:
        landed = change.landed(sent, connection.settling())
    except Exception as failure:
        raise _unknown(change, verdict, failure) from failure
    if not landed:
        raise verdict
    return False


def _settle(connection: Connection, change: Change, sent: list[Transaction], cause: Exception) -> None:
    """Find out what became of requests that were not answered.

    They are made impossible, and then the rows tell whether one of them had
    happened. If we crash before that, the transaction lands whole or not at all.
    """
    deadline = connection.settling()
    try:
        answer = change.preclude(sent[-1].failure(change.name(), cause), deadline)
        landed = change.landed(sent, deadline)
    except Exception as failure:
        connection.logger.warning("an unanswered write could not be settled: %s: %s", change.name(), failure)
        raise _unknown(change, cause, failure) from failure
    connection.logger.warning("settled an unanswered write: %s: landed: %s, after %s", change.name(), landed, cause)
    if not landed:
        raise answer from cause


def _unknown(change: Change, cause: Exception, failure: Exception) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"{change.name()}: it may have happened or not ({cause}), and the table does not tell: {failure}"
    )
