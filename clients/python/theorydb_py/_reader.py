"""Queries and scans: iteration over items and pages."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from theorydb_py._classify import read_failure
from theorydb_py._query import Page, decode_cursor, encode_cursor
from theorydb_py._values import Attribute
from theorydb_py.errors import InvalidQueryError

T = TypeVar("T")

MAX_SEGMENTS = 1_000_000
"""DynamoDB's limit of the segments of a scan."""
_WORKERS = 16  # requests at the same time of a scan in segments


@dataclass(frozen=True)
class Request:
    """The request of a query or a scan, without its start."""

    call: Callable[..., Any]
    what: str
    """What is read, for people, in the infinitive."""
    arguments: Mapping[str, Any]
    scope: str
    """What a cursor is bound to."""
    key: frozenset[str]
    """The attributes of a cursor's key."""
    partition: Mapping[str, Attribute]
    """The partition that is read, which a cursor cannot change; empty for a scan."""
    segments: int = 1

    def read(self, start: Mapping[str, Attribute] | None, segment: int | None = None) -> Any:
        """Read one page after a key; None: the first."""
        arguments = dict(self.arguments)
        if start is not None:
            arguments["ExclusiveStartKey"] = start
        if segment is not None:
            arguments |= {"Segment": segment, "TotalSegments": self.segments}
        try:
            return self.call(**arguments)
        except Exception as error:
            raise read_failure(self.what, error) from error


class Reader(Generic[T]):
    """The results of a query or a scan. Iterate over it to read its items, page after page.

    Each iteration reads the table again, on demand. Immutable and safe for
    concurrent use.

    Raises:
        MalformedRowError: a stored item does not fit the model.
        NotEncryptedError, TamperedError, UnknownKeyError, KeyProviderError: an encrypted
            field cannot be decrypted.
        InvalidQueryError: DynamoDB rejected the request.
        TableNotFoundError, ThrottledError: as they say.
        botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError: other
            failures, such as a reply that did not come.
    """

    def __init__(self, request: Request, decode: Callable[[Mapping[str, Attribute]], T]) -> None:
        """Table.query and Table.scan make it."""
        self._request = request
        self._decode = decode

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page.items

    def pages(self) -> Iterator[Page[T]]:
        """Read page after page, each on demand.

        Raises:
            MalformedRowError, InvalidQueryError, TableNotFoundError, ThrottledError: see
                the class.
        """
        if self._request.segments > 1:
            yield from self._segments()
            return
        cursor: str | None = None
        while True:
            page = self.page(cursor)
            yield page
            cursor = page.next_cursor
            if cursor is None:
                return

    def page(self, cursor: str | None = None) -> Page[T]:
        """Read one page: the first, or the one after the page that returned the cursor.

        Raises:
            InvalidQueryError: the cursor is damaged or from another query, or this is a
                scan in segments, which has no single page.
        """
        request = self._request
        if request.segments > 1:
            raise InvalidQueryError(f"{request.what}: a scan in segments has no single page; iterate over it")
        start = None if cursor is None else decode_cursor(request.scope, request.key, cursor)
        response = request.read(None if start is None else {**start, **request.partition})
        last = response.get("LastEvaluatedKey")
        return Page(self._items(response), encode_cursor(request.scope, last) if last else None)

    def all(self) -> list[T]:
        """Read all items into memory.

        Raises:
            MalformedRowError, InvalidQueryError, TableNotFoundError, ThrottledError: see
                the class.
        """
        return list(self)

    def _items(self, response: Any) -> list[T]:
        return [self._decode(item) for item in response["Items"]]

    def _segments(self) -> Iterator[Page[T]]:
        """Read all segments, at most 16 at the same time, each a page ahead at most."""
        waiting: Iterator[int] = iter(range(self._request.segments))
        started: deque[tuple[int, Mapping[str, Attribute]]] = deque()
        pending: dict[Future[Any], int] = {}
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="scan") as pool:
            try:
                while True:
                    while started and len(pending) < _WORKERS:
                        segment, start = started.popleft()
                        pending[pool.submit(self._request.read, start, segment)] = segment
                    for segment in itertools.islice(waiting, _WORKERS - len(pending)):
                        pending[pool.submit(self._request.read, None, segment)] = segment
                    if not pending:
                        return
                    done, _ = wait(pending, return_when=FIRST_COMPLETED)
                    for future in done:
                        segment, response = pending.pop(future), future.result()
                        if last := response.get("LastEvaluatedKey"):
                            started.append((segment, last))
                        yield Page(self._items(response), None)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


class Query(Reader[T]):
    """The results of a query or a scan as objects of the model; see Reader."""

    def __init__(
        self,
        request: Request,
        decode: Callable[[Mapping[str, Attribute]], T],
        project: Callable[[Request, tuple[str, ...]], Reader[dict[str, Any]]],
    ) -> None:
        """Table.query and Table.scan make it."""
        super().__init__(request, decode)
        self._project = project

    def select(self, *fields: str) -> Reader[dict[str, Any]]:
        """Read some fields only, as dicts of fields and values; absent attributes are left out.

        DynamoDB charges for whole items all the same.

        Raises:
            InvalidQueryError: there are no fields.
            InvalidInputError: a field is unknown.
        """
        if not fields:
            raise InvalidQueryError(f"{self._request.what}: select: expected at least one field")
        return self._project(self._request, fields)


def with_arguments(request: Request, arguments: Mapping[str, Any]) -> Request:
    """Return the request with other arguments."""
    return replace(request, arguments=arguments)
