"""Transactions that move META, carried out until their outcome is known.

What a change demands does not come back once it is false: a version of META, a
lease's token, a purge sequence. So a request that was refused can never happen
later.
"""

from __future__ import annotations

import enum
from typing import Protocol

from theorydb_py.errors import UnknownOutcomeError
from theorydb_py.isr.connection import Connection
from theorydb_py.isr.transaction import Refusal, Transaction
from theorydb_py.outcome import Outcome, outcome_of

TOKEN_LIFE = 480.0
"""Seconds for which a request is repeated under one token: DynamoDB remembers tokens for ten minutes."""


class Verdict(enum.Enum):
    """What false conditions mean, where they are no error."""

    AGAIN = "another request may get through"
    LANDED = "an earlier request is what made them false"


class Change(Protocol):
    """A transaction that moves META, and what its answers mean."""

    def name(self) -> str:
        """Return what it is, for people."""

    def transaction(self) -> Transaction:
        """State it anew."""

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
    begun, sent, attempt = connection.monotonic(), [change.transaction()], 0
    while True:
        attempt += 1
        error = _send(sent[-1])
        if error is None:
            return None  # crashing here loses nothing: all rows are as they should be
        outcome = outcome_of(error)
        if outcome is Outcome.CONDITION_FAILED:
            if not _try_again(connection, change, sent, error, first=attempt == 1):
                return None
        elif outcome is Outcome.REFUSED and attempt == 1:
            raise sent[-1].failure(change.name(), error) from error
        elif outcome is Outcome.REFUSED:
            return _settle(connection, change, sent, error)
        if not connection.retry.pause(attempt, begun + TOKEN_LIFE) or not change.running():
            return _settle(connection, change, sent, error)
        if outcome is not Outcome.UNKNOWN:
            sent.append(change.transaction())


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
