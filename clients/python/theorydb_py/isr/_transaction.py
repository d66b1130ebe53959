"""Write transactions and their cancellations."""

from __future__ import annotations

import enum
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from theorydb_py._classify import cancellation, read_failure, reason_of
from theorydb_py._outcome import CONDITION_FAILED, cancellation_reasons
from theorydb_py._token import TokenAge
from theorydb_py.errors import CancellationReason, UnknownOutcomeError
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._row import Item, key, text


class Purpose(enum.Enum):
    """What an action does. It determines what the failure of its condition means."""

    META = "update META to the next entry"
    LOCK = "acquire, refresh or release the lease"
    VERSION = "create the version row of the generation"
    SUPERSEDED = "let the superseded version expire"
    RESTORED = "keep the restored version from expiring"
    SEQUENCE = "advance the purge sequence"
    LOG = "write the log row of the sequence"
    BUILD = "make a build the current one"
    PURGE = "update a purge mark, or the purge row of a page"
    REQUEST = "update the request record"


@dataclass(frozen=True)
class Action:
    """One write of a transaction."""

    purpose: Purpose
    kind: str
    """Put, Update or Delete."""
    arguments: Mapping[str, Any]


Refusal = Mapping[Purpose, Item | None]
"""The rows whose conditions failed, by purpose; None for a row that does not exist."""


class Transaction:
    """An immutable transaction with a client token, so that it can be repeated."""

    def __init__(self, connection: Connection, actions: Sequence[Action]) -> None:
        self._client = connection.client
        self._actions = actions
        self._age = TokenAge(connection.clock, connection.monotonic)
        self._token = secrets.token_hex(16)  # DynamoDB allows at most 36 characters
        self._items = [{a.kind: {"TableName": connection.table, **a.arguments}} for a in actions]

    def send(self) -> None:
        """Send it once. Raises boto3's errors.

        Raises UnknownOutcomeError, without sending, if it was first sent so long ago
        that DynamoDB may have forgotten its token: a repetition might be applied as
        another request.
        """
        if not self.is_repeatable:
            raise UnknownOutcomeError(
                "an unanswered transaction cannot be repeated any more: DynamoDB may have forgotten its token"
            )
        self._age.note_sent()
        self._client.transact_write_items(TransactItems=self._items, ClientRequestToken=self._token)

    @property
    def is_repeatable(self) -> bool:
        """Whether DynamoDB certainly remembers the token."""
        return self._age.is_repeatable

    def refused(self, error: BaseException | None) -> dict[int, Item | None]:
        """Return the rows whose conditions failed, by action index; None for a row that does not exist."""
        reasons = enumerate(cancellation_reasons(error)[: len(self._actions)])
        return {i: r.get("Item") or None for i, r in reasons if r.get("Code") == CONDITION_FAILED}

    def refusal(self, error: BaseException | None) -> Refusal:
        """Return the rows whose conditions failed, by purpose. Each purpose occurs at most once."""
        return {self._actions[i].purpose: row for i, row in self.refused(error).items()}

    def failure(self, what: str, error: Exception) -> Exception:
        """Return the error to raise when the transaction is known not to have been applied."""
        reasons = cancellation_reasons(error)
        if not reasons:
            return read_failure(what, error)
        return cancellation(what, tuple(self._reason(i, r) for i, r in enumerate(reasons)))

    def cancelled(self, what: str, error: Exception) -> Exception:
        """Return the error to raise for a cancellation; any other error is returned as it is."""
        return self.failure(what, error) if cancellation_reasons(error) else error

    def _reason(self, index: int, reason: Mapping[str, Any]) -> CancellationReason:
        action = self._actions[index]
        row = action.arguments.get("Item") or action.arguments["Key"]
        return reason_of(index, action.kind.lower(), key(text(row, "pk"), text(row, "sk")), reason)
