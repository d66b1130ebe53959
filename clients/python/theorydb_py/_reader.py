"""Queries and scans: iteration over items and pages."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from theorydb_py._classify import read_failure
from theorydb_py._filter import Filter
from theorydb_py._filterable import Filterable
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

    def start(self, cursor: str | None) -> Mapping[str, Attribute] | None:
        """Return the key after which a page starts; None: it is the first one. Raises InvalidQueryError."""
        if self.segments > 1:
            raise InvalidQueryError(f"{self.what}: a scan in segments has no single page; iterate over it")
        return None if cursor is None else {**decode_cursor(self.scope, self.key, cursor), **self.partition}


class Reader(Generic[T]):
    """The results of a query or a scan. Iterate over it to read its items, page after page.

    Each iteration reads the table again, on demand. Immutable and safe for
    concurrent use.

    Raises:
        MalformedRowError: a stored item does not fit the model.
        NotEncryptedError, TamperedError, UnknownKeyError, KeyProviderError: an encrypted
            field cannot be decrypted.
        InvalidQueryError: DynamoDB rejected the request.
        TableNotFoundError, ThrottledError: see their docstrings.
        botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError: other
            failures, such as a reply that did not come.
    """

    def __init__(
        self,
        request: Request,
        decode: Callable[[Mapping[str, Attribute]], T],
        counted: Request | None = None,
    ) -> None:
        """Table.query and Table.scan make it. ``counted`` is the request without a projection; None: it has none."""
        self._request = request
        self._decode = decode
        self._counted = counted or request

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
            for response in _segments(self._request):
                yield Page(self._items(response), None)
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
        response = request.read(request.start(cursor))
        last = response.get("LastEvaluatedKey")
        return Page(self._items(response), encode_cursor(request.scope, last) if last else None)

    def all(self) -> list[T]:
        """Read all items into memory.

        Raises:
            MalformedRowError, InvalidQueryError, TableNotFoundError, ThrottledError: see
                the class.
        """
        return list(self)

    def count(self, cursor: str | None = None) -> int:
        """Count the items, after filters, on all pages, or on those after the page that returned the cursor.

        DynamoDB counts them and returns none; it charges as for reading them. A limit,
        and selected fields, make no difference. An error is raised unless the count is
        complete.

        Raises:
            InvalidQueryError: see page.
            TableNotFoundError, ThrottledError: see the class.
        """
        arguments = {name: value for name, value in self._counted.arguments.items() if name != "Limit"}
        request = replace(self._counted, arguments={**arguments, "Select": "COUNT"})
        start = None if cursor is None else request.start(cursor)
        responses = _segments(request) if request.segments > 1 else _pages(request, start)
        return sum(response["Count"] for response in responses)

    def _items(self, response: Any) -> list[T]:
        return [self._decode(item) for item in response["Items"]]


@dataclass(frozen=True)
class Plan:
    """A query or a scan with its filters."""

    request: Request
    project: Callable[[tuple[str, ...]], Reader[dict[str, Any]]]
    """Returns it with some fields only."""


class Query(Reader[T], Filterable):
    """The results of a query or a scan as objects of the model; see Reader.

    Adding filters returns another Query, with the same errors as Table.query.
    """

    def __init__(
        self,
        plan: Callable[[Filter | None], Plan],
        condition: Filter | None,
        decode: Callable[[Mapping[str, Attribute]], T],
    ) -> None:
        """Table.query and Table.scan make it.

        Raises:
            InvalidQueryError, InvalidInputError: the filter is invalid.
        """
        self._plan, self._condition, self._planned = plan, condition, plan(condition)
        super().__init__(self._planned.request, decode)

    def _refilter(self, condition: Filter) -> Self:
        return type(self)(self._plan, condition, self._decode)

    def select(self, *fields: str) -> Reader[dict[str, Any]]:
        """Read some fields only, as dicts of fields and values; absent attributes are left out.

        DynamoDB charges for whole items all the same.

        Raises:
            InvalidQueryError: there are no fields.
            InvalidInputError: a field is unknown.
        """
        if not fields:
            raise InvalidQueryError(f"{self._request.what}: select: expected at least one field")
        return self._planned.project(fields)

    def projection(self, fields: Iterable[str]) -> Reader[dict[str, Any]]:
        """Read some fields only, as select does: TableTheory's name of it.

        Raises:
            InvalidQueryError: there are no fields, or a text instead of a list of them.
            InvalidInputError: a field is unknown.
        """
        if isinstance(fields, str):
            raise InvalidQueryError(
                f"{self._request.what}: projection: expected a list of fields, found {fields!r:.60}"
            )
        return self.select(*fields)


def _pages(request: Request, start: Mapping[str, Attribute] | None) -> Iterator[Any]:
    """Read page after page, from a key."""
    while True:
        response = request.read(start)
        yield response
        start = response.get("LastEvaluatedKey")
        if not start:
            return


def _segments(request: Request) -> Iterator[Any]:
    """Read the pages of all segments, at most 16 at the same time, each a page ahead at most."""
    waiting: Iterator[int] = iter(range(request.segments))
    started: deque[tuple[int, Mapping[str, Attribute]]] = deque()
    pending: dict[Future[Any], int] = {}
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="scan") as pool:
        try:
            while True:
                while started and len(pending) < _WORKERS:
                    segment, start = started.popleft()
                    pending[pool.submit(request.read, start, segment)] = segment
                for segment in itertools.islice(waiting, _WORKERS - len(pending)):
                    pending[pool.submit(request.read, None, segment)] = segment
                if not pending:
                    return
                done, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    segment, response = pending.pop(future), future.result()
                    if last := response.get("LastEvaluatedKey"):
                        started.append((segment, last))
                    yield response
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
