"""Asynchronous tables and leases, for asyncio.

They have the calls of Table, LeaseManager and FaceTheoryIsrMetaStore, with await, and
run them in a pool of threads: boto3 has no asynchronous client, and botocore's retries,
credentials and errors are the same this way. A cancelled call is left to its thread:
whether it was executed is unknown.

    async with AsyncLeases(LeaseManager(client, table_name="jobs")) as leases:
        async with leases.lease("nightly", lease_seconds=30) as lease:
            await work()  # is cancelled if the lease is lost
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from theorydb_py._filter import Filter
from theorydb_py._filterable import Filterable
from theorydb_py._query import Page
from theorydb_py._reader import Query, Reader
from theorydb_py._table import Table
from theorydb_py._transact import TransactWriteAction
from theorydb_py._update import Update
from theorydb_py.errors import InvalidInputError, LeaseLostError, TheorydbError
from theorydb_py.leases import Lease, LeaseKey, LeaseManager
from theorydb_py.streams import StreamItems

T = TypeVar("T")
P = ParamSpec("P")


class _Threads:
    """A pool of threads for calls that block. Used from one event loop."""

    def __init__(self, threads: int) -> None:
        if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
            raise InvalidInputError(f"threads: expected an int of at least 1, found {threads!r:.60}")
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="theorydb_py.aio")

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, functools.partial(call, *args, **kwargs))

    async def close(self) -> None:
        """Wait for running calls and end the threads."""
        await asyncio.to_thread(self._pool.shutdown)


class _Closing(abc.ABC):
    """What ``async with`` closes."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @abc.abstractmethod
    async def close(self) -> None:
        """Wait for what runs, and leave no thread."""


class AsyncReader(Generic[T]):
    """The results of a query or a scan: ``async for item in …``; see Reader, also for the errors."""

    def __init__(self, threads: _Threads, reader: Reader[T]) -> None:
        """AsyncTable makes it."""
        self._threads = threads
        self._reader = reader

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for item in page.items:
                yield item

    async def pages(self) -> AsyncIterator[Page[T]]:
        """Read page after page, each on demand."""
        pages = self._reader.pages()
        try:
            while (page := await self._threads.run(_next, pages)) is not None:
                yield page
        finally:
            close = getattr(pages, "close", None)
            if close is not None:
                await self._threads.run(close)

    async def page(self, cursor: str | None = None) -> Page[T]:
        """Read one page; see Reader.page."""
        return await self._threads.run(self._reader.page, cursor)

    async def all(self) -> list[T]:
        """Read all items into memory."""
        return await self._threads.run(self._reader.all)

    async def count(self, cursor: str | None = None) -> int:
        """See Reader.count."""
        return await self._threads.run(self._reader.count, cursor)


class AsyncQuery(AsyncReader[T], Filterable):
    """The results of a query or a scan as objects of the model. Adding filters returns another one; see Query."""

    def __init__(self, threads: _Threads, query: Query[T]) -> None:
        """AsyncTable makes it."""
        super().__init__(threads, query)
        self._query = query
        self._condition = query._condition

    def _refilter(self, condition: Filter) -> Self:
        return type(self)(self._threads, self._query._refilter(condition))

    def select(self, *fields: str) -> AsyncReader[dict[str, Any]]:
        """Read some fields only; see Query.select."""
        return AsyncReader(self._threads, self._query.select(*fields))

    def projection(self, fields: Iterable[str]) -> AsyncReader[dict[str, Any]]:
        """See Query.projection."""
        return AsyncReader(self._threads, self._query.projection(fields))


class AsyncTable(_Closing, Generic[T]):
    """A Table whose calls are awaited. Arguments, results and errors are Table's.

    Used from one event loop; close it, or use it in ``async with``, so that no thread
    is left.
    """

    def __init__(self, table: Table[T], *, threads: int = 8) -> None:
        """Up to ``threads`` calls run at the same time; further ones wait.

        Raises:
            InvalidInputError: ``threads`` is less than 1.
        """
        self.table = table
        self._threads = _Threads(threads)

    async def close(self) -> None:
        """Wait for running calls and end the threads. The client stays open."""
        await self._threads.close()

    async def get(self, pk: Any, sk: Any = None, *, consistent_read: bool = True) -> T:
        """See Table.get."""
        return await self._threads.run(self.table.get, pk, sk, consistent_read=consistent_read)

    async def get_or_none(self, pk: Any, sk: Any = None, *, consistent_read: bool = True) -> T | None:
        """See Table.get_or_none."""
        return await self._threads.run(self.table.get_or_none, pk, sk, consistent_read=consistent_read)

    async def put(self, item: T, **options: Any) -> T:
        """See Table.put."""
        return await self._threads.run(self.table.put, item, **options)

    async def create(self, item: T) -> T:
        """See Table.create."""
        return await self._threads.run(self.table.create, item)

    async def update(self, pk: Any, sk: Any, updates: Mapping[str, Any] | Update, **options: Any) -> T:
        """See Table.update."""
        return await self._threads.run(self.table.update, pk, sk, updates, **options)

    async def upsert(self, pk: Any, sk: Any, updates: Mapping[str, Any] | Update, **options: Any) -> T:
        """See Table.upsert."""
        return await self._threads.run(self.table.upsert, pk, sk, updates, **options)

    async def delete(self, pk: Any, sk: Any = None, **options: Any) -> None:
        """See Table.delete."""
        await self._threads.run(self.table.delete, pk, sk, **options)

    def query(self, partition: Any, **options: Any) -> AsyncQuery[T]:
        """See Table.query."""
        return AsyncQuery(self._threads, self.table.query(partition, **options))

    def scan(self, **options: Any) -> AsyncQuery[T]:
        """See Table.scan."""
        return AsyncQuery(self._threads, self.table.scan(**options))

    async def batch_get(self, keys: Iterable[Any], *, consistent_read: bool = True) -> list[T | None]:
        """See Table.batch_get."""
        return await self._threads.run(self.table.batch_get, keys, consistent_read=consistent_read)

    async def batch_write(self, *, puts: Iterable[T] = (), deletes: Iterable[Any] = ()) -> None:
        """See Table.batch_write."""
        await self._threads.run(self.table.batch_write, puts=puts, deletes=deletes)

    async def unmarshal(self, item: Mapping[str, Any]) -> T:
        """See Table.unmarshal."""
        return await self._threads.run(self.table.unmarshal, item)

    async def unmarshal_stream_image(self, image: Mapping[str, Any]) -> T:
        """See Table.unmarshal_stream_image."""
        return await self._threads.run(self.table.unmarshal_stream_image, image)

    async def unmarshal_stream_record(self, record: Mapping[str, Any]) -> StreamItems[T]:
        """See Table.unmarshal_stream_record; of one image, see unmarshal_stream_image."""
        return await self._threads.run(self.table.unmarshal_stream_record, record)

    async def transact_write(
        self, actions: Sequence[TransactWriteAction[T]], *, client_request_token: str | None = None
    ) -> None:
        """See Table.transact_write."""
        await self._threads.run(self.table.transact_write, actions, client_request_token=client_request_token)

    async def ensure_table(self, *, timeout_seconds: float = 300) -> None:
        """See Table.ensure_table."""
        await self._threads.run(self.table.ensure_table, timeout_seconds=timeout_seconds)


class AsyncLeases(_Closing):
    """Leases whose loss cancels the block that they protect. Used from one event loop.

    Use it in ``async with``, or close it, so that leases are given back and no thread
    is left.
    """

    def __init__(self, manager: LeaseManager, *, threads: int = 8) -> None:
        """Up to ``threads`` calls run at the same time: leases need one each to be refreshed promptly.

        Raises:
            InvalidInputError: ``threads`` is less than 1.
        """
        self._manager = manager
        self._threads = _Threads(threads)
        self._holders: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        """Cancel the blocks that hold leases, wait until these are given back, and end the threads."""
        holders = self._holders - {asyncio.current_task()}
        for task in holders:
            task.cancel()
        if holders:
            await asyncio.wait(holders)
        await self._threads.close()

    @contextlib.asynccontextmanager
    async def lease(self, key: str | LeaseKey, *, lease_seconds: float = 30) -> AsyncIterator[Lease]:
        """Acquire the lease, refresh it after each third of its duration, and release it at the end.

        If the lease is lost, the task is cancelled at its next await, and the block
        ends with LeaseLostError.

        Raises:
            LeaseHeldError: another process holds it.
            LeaseLostError: it was lost before the block ended.
            UnknownOutcomeError, InvalidKeyError, InvalidInputError: see LeaseManager.acquire.
        """
        task = asyncio.current_task()
        if task is None:
            raise InvalidInputError("a lease belongs to a task: use it in a coroutine that runs in one")
        lease = await self._acquire(key, lease_seconds)
        cancelling, lost = task.cancelling(), asyncio.Event()
        keeper = asyncio.create_task(self._keep(lease, task, lost))
        self._holders.add(task)
        try:
            yield lease
        except asyncio.CancelledError:
            # Like asyncio.timeout: a cancellation by another is passed on.
            if lost.is_set() and task.uncancel() <= cancelling:
                raise _lost(lease) from None
            raise
        else:
            if lost.is_set():
                task.uncancel()  # the block ended without another await
                raise _lost(lease)
        finally:
            keeper.cancel()
            await asyncio.wait([keeper])
            self._holders.discard(task)
            await self._release(lease)

    def leased(
        self, key: str | LeaseKey, *, lease_seconds: float = 30
    ) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Coroutine[Any, Any, T]]]:
        """Decorate a coroutine function, so that each call holds the lease; see lease."""

        def decorate(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
            @functools.wraps(function)
            async def call(*args: P.args, **kwargs: P.kwargs) -> T:
                async with self.lease(key, lease_seconds=lease_seconds):
                    return await function(*args, **kwargs)

            return call

        return decorate

    async def _acquire(self, key: str | LeaseKey, lease_seconds: float) -> Lease:
        """Acquire a lease; release it if the task is cancelled before the reply."""
        acquiring = asyncio.ensure_future(self._threads.run(self._manager.acquire, key, lease_seconds=lease_seconds))
        try:
            return await asyncio.shield(acquiring)
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                await self._release(await acquiring)
            raise

    async def _keep(self, lease: Lease, holder: asyncio.Task[Any], lost: asyncio.Event) -> None:
        """Refresh the lease until it is lost; then cancel its holder."""
        delay = lease.seconds / 3
        while not lease.lost:
            await asyncio.sleep(delay)
            try:
                # A refresh that hangs is abandoned to its thread. asyncio.wait_for of Python 3.11 would ignore the
                # cancellation by a block that ends when the refresh does.
                async with asyncio.timeout(lease.seconds / 3):
                    await self._threads.run(self._manager.refresh, lease)
                delay = lease.seconds / 3
            except LeaseLostError:
                break
            except Exception:  # the table is out of reach: the lease is held until it expires
                delay = lease.seconds / 10
        lost.set()
        holder.cancel()

    async def _release(self, lease: Lease) -> None:
        """Release the lease even if the task is cancelled; a failed release leaves it to expire."""
        releasing = asyncio.ensure_future(self._threads.run(self._manager.release, lease))
        with contextlib.suppress(TheorydbError, BotoCoreError, ClientError):
            await asyncio.shield(releasing)


def _lost(lease: Lease) -> LeaseLostError:
    return LeaseLostError(
        f"the lease of {lease.key.pk} was lost before the block ended: another process may have done the same work"
    )


def _next(pages: Iterator[Page[T]]) -> Page[T] | None:
    return next(pages, None)
