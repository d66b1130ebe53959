"""Transactions, as they are sent and as they are answered."""

from __future__ import annotations

import enum
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from theorydb_py.answers import cancellation, read_failure, reason_of
from theorydb_py.errors import CancellationReason, UnknownOutcomeError
from theorydb_py.isr.connection import Connection
from theorydb_py.isr.items import Item, key, text
from theorydb_py.outcome import CONDITION_FAILED, cancellation_reasons
from theorydb_py.token_age import TokenAge


class Purpose(enum.Enum):
    """What an action is there for: it tells what it means if its condition is false."""

    META = "META becomes the next entry"
    LOCK = "the lease begins, goes on, or ends, and was held"
    VERSION = "the generation gets a version row"
    SUPERSEDED = "that of the generation before may be collected some day"
    RESTORED = "that of the generation that returns may not"
    SEQUENCE = "the purge sequence is one more"
    LOG = "what happened at that sequence"
    REQUEST = "a request with an idempotency key has come further"


@dataclass(frozen=True)
class Action:
    """One write of a transaction."""

    purpose: Purpose
    kind: str
    """Put, Update or Delete."""
    arguments: Mapping[str, Any]


Refusal = Mapping[Purpose, Item | None]
"""Why a transaction was cancelled: the rows, None if there was none, whose conditions were false."""


class Transaction:
    """A transaction, never altered, so that it can be repeated under its token."""

    def __init__(self, connection: Connection, actions: Sequence[Action]) -> None:
        self._client = connection.client
        self._actions = actions
        self._age = TokenAge(connection.clock, connection.monotonic)
        self._token = secrets.token_hex(16)  # at most 36 characters are allowed
        self._items = [{a.kind: {"TableName": connection.table, **a.arguments}} for a in actions]

    def send(self) -> None:
        """Send it once. Errors are boto3's.

        UnknownOutcomeError: it was sent before, so long ago that its token may be
        forgotten. It was not sent again: that might be carried out as another request.
        """
        if not self.is_repeatable:
            raise UnknownOutcomeError(
                "a transaction that was not answered in time cannot be repeated: its token may be forgotten"
            )
        self._age.note_sent()
        self._client.transact_write_items(TransactItems=self._items, ClientRequestToken=self._token)

    @property
    def is_repeatable(self) -> bool:
        """Whether DynamoDB is sure to remember the token."""
        return self._age.is_repeatable

    def refused(self, error: BaseException | None) -> dict[int, Item | None]:
        """Return the rows, None if there was none, whose conditions were false, by the indices of their actions."""
        reasons = enumerate(cancellation_reasons(error)[: len(self._actions)])
        return {i: r.get("Item") or None for i, r in reasons if r.get("Code") == CONDITION_FAILED}

    def refusal(self, error: BaseException | None) -> Refusal:
        """Return them by the purposes of their actions, each of which it has once."""
        return {self._actions[i].purpose: row for i, row in self.refused(error).items()}

    def failure(self, what: str, error: Exception) -> Exception:
        """Return what to raise where an answer, or its absence, is known to mean that it did not happen."""
        reasons = cancellation_reasons(error)
        if not reasons:
            return read_failure(what, error)
        return cancellation(what, tuple(self._reason(i, r) for i, r in enumerate(reasons)))

    def cancelled(self, what: str, error: Exception) -> Exception:
        """Return what to raise for a cancellation; any other error stays as it is."""
        return self.failure(what, error) if cancellation_reasons(error) else error

    def _reason(self, index: int, said: Mapping[str, Any]) -> CancellationReason:
        action = self._actions[index]
        row = action.arguments.get("Item") or action.arguments["Key"]
        return reason_of(index, action.kind.lower(), key(text(row, "pk"), text(row, "sk")), said)
