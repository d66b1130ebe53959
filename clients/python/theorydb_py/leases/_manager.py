"""Leases: mutual exclusion between processes, for a bounded time.

They are stored in the table of the pages, or in a table of their own, in the same
format and by the same code as the leases of pages:

    pk = JOB#<key>   sk = LOCK   lease_token, lease_expires_at, lease_owner, ttl
"""

from __future__ import annotations

import contextlib
import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from theorydb_py._client import DynamoDB
from theorydb_py._retry import Retry
from theorydb_py._table_name import checked_table_name
from theorydb_py.errors import InvalidInputError, InvalidKeyError, LeaseLostError
from theorydb_py.isr import _leaseupdate as leasewrites
from theorydb_py.isr._acquire import acquire
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._keys import check_partition, job_partition
from theorydb_py.isr._lease import IsrLease
from theorydb_py.isr._leaseregistry import LeaseRegistry
from theorydb_py.isr._leasescope import lease_scope
from theorydb_py.isr._names import SK_LOCK
from theorydb_py.isr._numbers import MAX_INTERVAL, check_number


@dataclass(frozen=True)
class LeaseKey:
    """The location of a lease: the LOCK row of a partition, whose key has 1 to 2,048 bytes.

    Raises:
        InvalidKeyError: the partition key has another length, or ``sk`` is not LOCK.
        InvalidInputError: the partition key is no str.
    """

    pk: str
    sk: str = SK_LOCK

    def __post_init__(self) -> None:
        check_partition(self.pk)
        if self.sk != SK_LOCK:
            # Any other row would be taken for a free lease and overwritten.
            raise InvalidKeyError(f"a lease is stored in the row {SK_LOCK} of its partition, not in {self.sk!r:.60}")


class Lease:
    """An acquired lease, proven by its token. Safe for concurrent use.

    Its token never changes, so that a refresh whose reply was lost can be repeated.
    """

    def __init__(self, key: LeaseKey, held: IsrLease) -> None:
        """Create an acquired lease; LeaseManager does."""
        self.key = key
        self._held = held

    @property
    def token(self) -> str:
        """Proves that this process holds the lease."""
        return self._held.lease_token

    @property
    def failures(self) -> int:
        """How many earlier attempts had failed in a row; also 0 if the reply to the acquisition was lost."""
        return self._held.failures

    @property
    def seconds(self) -> int:
        """The duration, as granted last."""
        return self._held.duration_seconds

    @property
    def expires_at(self) -> int:
        """When it expires unless it is refreshed, in epoch seconds, as last acknowledged."""
        return self._held.lease_expires_at

    @property
    def lost(self) -> bool:
        """Whether it was released, was taken, or expired.

        It expires by the wall clock, by which others judge, or by the monotonic clock,
        whichever comes first.
        """
        return self._held.over or self._held.lost

    def check(self) -> None:
        """Raise an error if the lease is lost. Call it before each side effect.

        Raises:
            LeaseLostError: it was released, was taken, or expired.
        """
        self._held.check()
        if self._held.over:
            raise LeaseLostError(f"the lease of {self.key.pk} was released: acquire it again")


class LeaseManager:
    """Leases in one table, with the same rows and guarantees as in Go and TypeScript.

    At most one unexpired lease per key, whose holder learns when it is lost. A lease
    does not keep a frozen holder from writing elsewhere after it has expired: make such
    writes conditional as well.

    A text key names a job, such as a nightly import that one of many processes runs: 1
    to 1,024 bytes, stored in the partition ``JOB#`` + key, apart from pages. A LeaseKey
    names any partition. Safe for concurrent use.

    ``close``, or the end of ``with``, gives back all leases. A manager without leases
    holds no thread and no connection of its own.
    """

    def __init__(
        self,
        client: DynamoDB,
        *,
        table_name: str,
        owner: str = "",
        now: Callable[[], float] = time.time,
        token: Callable[[], str] = lambda: secrets.token_hex(16),
        retry: Retry | None = None,
        logger: logging.Logger | None = None,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        """``owner`` names this process to people; ``now`` returns the wall time in epoch seconds.

        ``token`` returns an unguessable text that never recurs. ``logger`` logs lost
        replies, and refreshes and releases that failed. ``wait`` waits for an event, at
        most so many seconds, and returns whether it is set; heartbeats wait with it.

        Raises:
            InvalidInputError: the name of the table is invalid.
        """
        retry = retry or Retry()
        self._connection = Connection(
            client=client,
            table=checked_table_name(table_name),
            owner=owner,
            clock=now,
            new_token=token,
            retry=retry,
            settle_timeout_seconds=retry.timeout_seconds,
            wait=wait,
            logger=logger or logging.getLogger("theorydb_py"),
        )
        self._registry = LeaseRegistry(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back all leases of this manager, stop their heartbeats, and refuse further acquisitions.

        Blocks that hold a lease find it lost. Failed releases are logged, and those
        leases left to expire. May be called repeatedly, from any thread. The client
        stays open.
        """
        self._registry.close()

    def lock_key(self, pk: str, sk: str = SK_LOCK) -> LeaseKey:
        """Return the key of a partition's lease, such as that of a page.

        Raises:
            InvalidKeyError, InvalidInputError: see LeaseKey.
        """
        return LeaseKey(pk, sk)

    def acquire(self, key: str | LeaseKey, *, lease_seconds: float = 30) -> Lease:
        """Acquire the lease for a duration of up to 315,360,000 s, rounded up to whole seconds. Does not wait.

        Raises:
            LeaseHeldError: another process holds it.
            InvalidKeyError: the key is invalid; nothing was sent.
            InvalidInputError: an argument is invalid, or the manager was closed.
            UnknownOutcomeError: at worst an unused lease remains until it expires. After
                all other errors it was not acquired, or was released.
            TableNotFoundError, ThrottledError: as they say.
        """
        at = key if isinstance(key, LeaseKey) else LeaseKey(job_partition(key))
        self._registry.check_open()
        held = IsrLease(
            self._connection,
            cache_key=at.pk,
            pk=at.pk,
            token=self._connection.new_token(),
            owner=self._connection.owner,
            seconds=_whole_seconds(lease_seconds),
            attempt=None,
        )
        acquire(self._connection, held)
        self._registry.add(held)
        return Lease(at, held)

    def refresh(self, lease: Lease, *, lease_seconds: float | None = None) -> None:
        """Extend a held lease from now by so many seconds; None: by its present duration.

        Raises:
            LeaseLostError: it expired or was taken; it cannot be regained.
            InvalidInputError: the duration is invalid; nothing was sent.
            UnknownOutcomeError, ThrottledError, TableNotFoundError: it may have been
                extended; the call may be repeated.
        """
        seconds = None if lease_seconds is None else _whole_seconds(lease_seconds)
        leasewrites.refresh(lease._held.connection, lease._held, seconds)

    def release(self, lease: Lease) -> None:
        """Release the lease. Releasing a lost lease does nothing and is no error.

        Raises:
            UnknownOutcomeError, ThrottledError, TableNotFoundError: it may have been
                released; the call may be repeated.
        """
        leasewrites.release(lease._held.connection, lease._held)
        self._registry.remove(lease._held)

    @contextlib.contextmanager
    def lease(self, key: str | LeaseKey, *, lease_seconds: float = 30) -> Iterator[Lease]:
        """Acquire the lease, refresh it after each third of its duration, and release it at the end.

        Python cannot interrupt the block: check ``lease.lost``, or call
        ``lease.check()``, before each side effect. A failed release is logged, and the
        lease left to expire.

        Raises:
            LeaseLostError: it was lost before the block ended; the block's exception is
                its cause.
            LeaseHeldError, InvalidKeyError, InvalidInputError, UnknownOutcomeError: see
                acquire; the block did not run.
        """
        began = self._connection.monotonic()
        lease = self.acquire(key, lease_seconds=lease_seconds)
        try:
            with lease_scope(self._connection, lease._held, began):
                yield lease
        finally:
            self._registry.remove(lease._held)


def _whole_seconds(lease_seconds: float) -> int:
    if not 0 < check_number("lease_seconds", lease_seconds) <= MAX_INTERVAL:
        raise InvalidInputError(f"lease_seconds is {lease_seconds!r}: expected more than 0, at most {MAX_INTERVAL}")
    return math.ceil(lease_seconds)
