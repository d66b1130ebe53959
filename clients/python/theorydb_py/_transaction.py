"""Sends a transaction until its outcome is known."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from theorydb_py._classify import format_key, reason_of, transaction_failure
from theorydb_py._client import DynamoDB
from theorydb_py._outcome import Outcome, cancellation_reasons, is_retryable, outcome_of
from theorydb_py._retry import Retry
from theorydb_py._token import TokenAge
from theorydb_py._write import Write
from theorydb_py.errors import (
    CancellationReason,
    ConditionFailedError,
    InvalidQueryError,
    TheorydbError,
    UnknownOutcomeError,
)

MAX_ACTIONS = 100
_MAX_TOKEN = 36

_NAMES = {
    "create": "Put",
    "put": "Put",
    "update": "Update",
    "upsert": "Update",
    "delete": "Delete",
    "condition check": "ConditionCheck",
}


def check_token(token: object) -> str:
    """Return the client token. Raises InvalidQueryError if it is invalid."""
    if not isinstance(token, str) or not 1 <= len(token) <= _MAX_TOKEN:
        raise InvalidQueryError(f"the client token: expected 1 to {_MAX_TOKEN} characters, found {token!r:.60}")
    return token


class Transaction:
    """Atomic writes under one client token."""

    def __init__(
        self,
        table: str,
        writes: Sequence[Write],
        token: str,
        *,
        now: Callable[[], float],
    ) -> None:
        if not 1 <= len(writes) <= MAX_ACTIONS:
            raise InvalidQueryError(f"a transaction: expected 1 to {MAX_ACTIONS} actions, found {len(writes)}")
        seen: set[str] = set()
        for write in writes:
            if (name := format_key(write.key)) in seen:
                raise InvalidQueryError(f"a transaction: two actions on {name}; DynamoDB allows one per item")
            seen.add(name)
        self._what = f"write a transaction of {len(writes)} to table {table}"
        self._table = table
        self._writes = writes
        self._token = token
        self._now = now

    def send(
        self,
        client: DynamoDB,
        retry: Retry,
        classify: Callable[[ConditionFailedError, Write], TheorydbError],
    ) -> None:
        """Send it, and retry after transient errors.

        It keeps its client token, and so is applied once, however many requests arrive:
        after a conflict with an earlier attempt of our own it must not be applied a
        second time. ``classify`` classifies the failed condition of one action. It is not
        repeated once DynamoDB may have forgotten the token.
        """
        age, deadline = TokenAge(self._now, retry.monotonic), retry.monotonic() + retry.timeout_seconds
        attempt, unanswered = 0, False
        while True:
            attempt += 1
            age.note_sent()
            try:
                client.transact_write_items(TransactItems=self._items(), ClientRequestToken=self._token)
            except Exception as error:
                again = is_retryable(error) and attempt < retry.attempts and retry.pause(attempt, deadline)
                if not again or not age.is_repeatable:
                    raise self._failure(error, classify, unanswered) from error
                unanswered = unanswered or outcome_of(error) is Outcome.UNKNOWN
            else:
                return

    def _items(self) -> list[dict[str, Any]]:
        return [
            {
                _NAMES[write.kind]: {
                    "TableName": self._table,
                    **write.arguments,
                    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                }
            }
            for write in self._writes
        ]

    def _failure(
        self,
        error: Exception,
        classify: Callable[[ConditionFailedError, Write], TheorydbError],
        unanswered: bool,
    ) -> Exception:
        if unanswered and not cancellation_reasons(error) and outcome_of(error) is Outcome.REFUSED:
            return UnknownOutcomeError(
                f"{self._what}: an earlier attempt got no reply; it may have been applied, read the items: {error}"
            )
        failure = transaction_failure(self._what, self._reasons(error), error)
        if isinstance(failure, ConditionFailedError) and failure.reasons:
            for reason, write in zip(failure.reasons, self._writes, strict=True):
                if reason.code == "ConditionalCheckFailed":
                    one = ConditionFailedError(str(failure), item=reason.item, reasons=failure.reasons)
                    if (specific := classify(one, write)) is not one:
                        return specific
        return failure

    def _reasons(self, error: Exception) -> tuple[CancellationReason, ...]:
        given = itertools.chain(cancellation_reasons(error), itertools.repeat({}))  # may be shorter
        pairs = zip(self._writes, given, strict=False)
        return tuple(reason_of(i, write.kind, write.key, said) for i, (write, said) in enumerate(pairs))
