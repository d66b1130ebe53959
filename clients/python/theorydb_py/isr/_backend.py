"""The store's access to its table: calls, retries and strongly consistent reads."""

from __future__ import annotations

import logging
import math
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from theorydb_py._client import DynamoDB
from theorydb_py._retry import Retry
from theorydb_py.errors import InvalidInputError
from theorydb_py.isr._row import Item, key, string


@dataclass(frozen=True)
class Connection:
    """A table and what the store needs to use it. Safe for concurrent use, as boto3's clients are."""

    client: DynamoDB
    table: str
    owner: str
    clock: Callable[[], float]
    """Wall time in epoch seconds; see wall_clock, which checks it."""
    new_token: Callable[[], str]
    """Returns an unguessable text; see checked_tokens."""
    retry: Retry
    settle_timeout_seconds: float
    """How long an unanswered write is investigated, in seconds."""
    wait: Callable[[threading.Event, float], bool]
    """Waits for an event, at most so many seconds, and returns whether it is set. Heartbeats wait with it."""
    logger: logging.Logger
    """Logs lost replies, and extensions and releases that failed."""

    def now(self) -> float:
        """Return the wall time in epoch seconds. Raises InvalidInputError if the clock returns anything else."""
        return self.clock()

    def second(self) -> int:
        """Return the wall time in whole epoch seconds, rounded down."""
        return math.floor(self.now())

    def monotonic(self) -> float:
        """Return the monotonic clock in seconds."""
        return self.retry.monotonic()

    def settle_deadline(self) -> float:
        """Return the deadline of a settlement that begins now."""
        return self.monotonic() + self.settle_timeout_seconds

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Call an operation of the client once."""
        response: dict[str, Any] = getattr(self.client, operation)(TableName=self.table, **arguments)
        return response

    def repeat(self, deadline: float | None, operation: str, **arguments: Any) -> dict[str, Any]:
        """Call an idempotent operation until its answer is definite.

        deadline is a monotonic time; None limits the call to a few attempts instead.
        """
        if deadline is None:
            return self.retry.bounded(lambda: self.call(operation, **arguments))
        return self.retry.until(deadline, lambda: self.call(operation, **arguments))

    def read_row(self, pk: str, sk: str, deadline: float | None = None) -> Item | None:
        """Read one row strongly consistently; None if it does not exist. deadline: see repeat."""
        response = self.repeat(deadline, "get_item", ConsistentRead=True, Key=key(pk, sk))
        item: Item | None = response.get("Item")
        return item or None

    def read_serializable(self, pk: str, sort_keys: Sequence[str], deadline: float | None = None) -> dict[str, Item]:
        """Read rows of a partition by their sort keys, in one transaction; those that do not exist are absent.

        It is repeated until the deadline (by default for the timeout of a call) while
        another transaction is about to write one of the rows. Other reads of several rows
        may show a transaction that is being committed in part (spec/schema.md).
        """
        gets = [{"Get": {"TableName": self.table, "Key": key(pk, sk)}} for sk in sort_keys]
        until = self.monotonic() + self.retry.timeout_seconds if deadline is None else deadline
        answer = self.retry.until(until, lambda: self.client.transact_get_items(TransactItems=gets))
        found = zip(sort_keys, answer["Responses"], strict=True)
        return {sk: response["Item"] for sk, response in found if response.get("Item")}

    def query(self, pk: str, sort_keys: str, **arguments: Any) -> list[Item]:
        """Return the rows of a partition, strongly consistently, following pagination.

        sort_keys is the key condition of the sort key, with the values ``:first`` and
        ``:last``.
        """
        rows: list[Item] = []
        question = query_arguments(pk, sort_keys, **arguments)
        while True:
            page = self.repeat(None, "query", ConsistentRead=True, **question)
            rows += page["Items"]
            if not page.get("LastEvaluatedKey"):
                return rows
            question["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def checked_tokens(new_token: Callable[[], str] | None) -> Callable[[], str]:
    """Return a source of tokens, each of which is a text; None: 128 random bits in hex.

    The returned function raises InvalidInputError for anything else: by an empty token,
    two processes could take the same lease for theirs.
    """

    def draw() -> str:
        token = secrets.token_hex(16) if new_token is None else new_token()
        if not isinstance(token, str) or not token:
            raise InvalidInputError(f"the token of a lease is {token!r:.60}: expected a unique str that is not empty")
        return token

    return draw


def query_arguments(pk: str, sort_keys: str, *, first: str, last: str | None = None, **more: Any) -> dict[str, Any]:
    """Return the arguments of a query of one partition."""
    values = {":pk": string(pk), ":first": string(first)}
    if last is not None:
        values[":last"] = string(last)
    return {
        "KeyConditionExpression": f"pk = :pk AND {sort_keys}",
        "ExpressionAttributeValues": values,
        **more,
    }
