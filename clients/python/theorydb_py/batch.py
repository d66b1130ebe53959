"""Batches: many reads or writes by few requests, and what DynamoDB leaves of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from theorydb_py.answers import read_failure, write_failure
from theorydb_py.api import DynamoDB
from theorydb_py.errors import ThrottledError
from theorydb_py.retry import Retry

T = TypeVar("T")

MAX_GET = 100  # items of one request
MAX_WRITE = 25


class Batches:
    """Carries out batches on one table. Safe for concurrent use.

    What is left unprocessed is asked for again, with jittered pauses, until
    nothing has come of it for the retry's ``timeout``.
    """

    def __init__(self, client: DynamoDB, table: str, retry: Retry) -> None:
        self._client = client
        self._table = table
        self._retry = retry

    def read(self, keys: Sequence[Any], *, consistent: bool) -> Iterator[dict[str, Any]]:
        """Read items by their keys, which are different ones, in no order."""

        def what() -> str:
            return f"read a batch of {len(keys)} from table {self._table}"

        def ask(part: list[Any]) -> tuple[list[dict[str, Any]], list[Any]]:
            request = {"Keys": part, "ConsistentRead": consistent}
            try:
                answer = self._retry.bounded(lambda: self._client.batch_get_item(RequestItems={self._table: request}))
            except Exception as error:
                raise read_failure(what(), error) from error
            left = answer.get("UnprocessedKeys", {}).get(self._table, {}).get("Keys", [])
            return answer.get("Responses", {}).get(self._table, []), left

        for part in _parts(keys, MAX_GET):
            yield from self._until_done(what, part, ask)

    def write(self, requests: Sequence[Any]) -> None:
        """Carry out puts and deletes of different items. An error says how many are known to be written."""
        done = 0

        def what() -> str:
            return f"write a batch to table {self._table}: {done} of {len(requests)} are written; repeat it whole"

        def ask(part: list[Any]) -> tuple[list[None], list[Any]]:
            nonlocal done
            try:
                answer = self._retry.bounded(lambda: self._client.batch_write_item(RequestItems={self._table: part}))
            except Exception as error:
                raise write_failure(what(), error) from error
            left = answer.get("UnprocessedItems", {}).get(self._table, [])
            done += len(part) - len(left)
            return [None] * (len(part) - len(left)), left

        for part in _parts(requests, MAX_WRITE):
            for _ in self._until_done(what, part, ask):
                pass

    def _until_done(
        self, what: Callable[[], str], part: list[Any], ask: Callable[[list[Any]], tuple[list[T], list[Any]]]
    ) -> Iterator[T]:
        """Ask until nothing is left."""
        attempt, deadline = 0, self._retry.monotonic() + self._retry.timeout
        while part:
            done, left = ask(part)
            yield from done
            attempt += 1
            if len(left) < len(part):
                attempt, deadline = 1, self._retry.monotonic() + self._retry.timeout
            if left and not self._retry.pause(attempt, deadline):
                raise ThrottledError(
                    f"{what()}: {len(left)} are left unprocessed; raise the capacity or ask less often"
                )
            part = left


def _parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
