"""Batch reads and writes, with retries of unprocessed items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from theorydb_py._classify import read_failure, write_failure
from theorydb_py._client import DynamoDB
from theorydb_py._retry import Retry
from theorydb_py.errors import ThrottledError

T = TypeVar("T")

MAX_GET = 100  # items per request
MAX_WRITE = 25


class Batches:
    """Reads and writes batches of one table. Safe for concurrent use.

    Unprocessed items are retried with exponential backoff and jitter, until there has
    been no progress for the retry's ``timeout``.
    """

    def __init__(self, client: DynamoDB, table: str, retry: Retry) -> None:
        self._client = client
        self._table = table
        self._retry = retry

    def read(self, keys: Sequence[Any], *, consistent: bool) -> Iterator[tuple[list[Any], list[dict[str, Any]]]]:
        """Read items by distinct keys. Yields keys that were read, with their items in no particular order."""
        done = 0

        def what() -> str:
            return (
                f"read a batch from table {self._table}: {done} of {len(keys)} were read, the others are in unprocessed"
            )

        def send(part: list[Any]) -> tuple[list[tuple[list[Any], list[dict[str, Any]]]], list[Any]]:
            nonlocal done
            request = {"Keys": part, "ConsistentRead": consistent}
            try:
                response = self._retry.bounded(lambda: self._client.batch_get_item(RequestItems={self._table: request}))
            except Exception as error:
                raise read_failure(what(), error) from error
            unprocessed = response.get("UnprocessedKeys", {}).get(self._table, {}).get("Keys", [])
            done += len(part) - len(unprocessed)
            read = [key for key in part if key not in unprocessed]
            return [(read, response.get("Responses", {}).get(self._table, []))], unprocessed

        for part in _parts(keys, MAX_GET):
            yield from self._until_done(what, part, send)

    def write(self, requests: Mapping[str, Any], identify: Callable[[Any], str]) -> Iterator[str]:
        """Put and delete distinct items, by their identities. Yields those that are known to be written.

        ``identify`` returns the identity of a request.
        """
        done = 0

        def what() -> str:
            progress = f"{done} of {len(requests)} are written, the others are in unprocessed"
            return f"write a batch to table {self._table}: {progress}"

        def send(part: list[Any]) -> tuple[list[str], list[Any]]:
            nonlocal done
            try:
                response = self._retry.bounded(lambda: self._client.batch_write_item(RequestItems={self._table: part}))
            except Exception as error:
                raise write_failure(what(), error) from error
            unprocessed = response.get("UnprocessedItems", {}).get(self._table, [])
            done += len(part) - len(unprocessed)
            left = {identify(request) for request in unprocessed}
            return [name for name in map(identify, part) if name not in left], unprocessed

        for part in _parts(requests.values(), MAX_WRITE):
            yield from self._until_done(what, part, send)

    def _until_done(
        self, what: Callable[[], str], part: list[Any], send: Callable[[list[Any]], tuple[list[T], list[Any]]]
    ) -> Iterator[T]:
        """Send requests until nothing is unprocessed."""
        attempt, deadline = 0, self._retry.monotonic() + self._retry.timeout_seconds
        while part:
            done, unprocessed = send(part)
            yield from done
            attempt += 1
            if len(unprocessed) < len(part):
                attempt, deadline = 1, self._retry.monotonic() + self._retry.timeout_seconds
            if unprocessed and not self._retry.pause(attempt, deadline):
                raise ThrottledError(
                    f"{what()}: {len(unprocessed)} items are unprocessed; raise the capacity or send fewer requests"
                )
            part = unprocessed


def _parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
