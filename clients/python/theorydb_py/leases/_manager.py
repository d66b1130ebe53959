"""Leases: mutual exclusion between processes, for a bounded time.

They are stored in the table of the pages, or in a table of their own, in the same
format and by the same code as the leases of pages:

    pk = JOB#<key>   sk = LOCK   lease_token, lease_expires_at, lease_owner, ttl
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from theorydb_py._client import DynamoDB
from theorydb_py._retry import Retry
from theorydb_py._table_name import checked_table_name
from theorydb_py._wallclock import wall_clock
from theorydb_py.errors import InvalidInputError, InvalidKeyError, LeaseLostError
from theorydb_py.isr import _leaseupdate as leasewrites
from theorydb_py.isr._acquire import acquire
from theorydb_py.isr._backend import Connection, checked_tokens
from theorydb_py.isr._keys import check_partition, job_partition
from theorydb_py.isr._lease import IsrLease
from theorydb_py.isr._leaseregistry import LeaseRegistry
from theorydb_py.isr._leasescope import lease_scope
from theorydb_py.isr._names import SK_LOCK
from theorydb_py.isr._normalize import check_text
from theorydb_py.isr._numbers import MAX_INTERVAL, check_count, check_number


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
    LeaseManager makes them. A process that was handed the token of another's lease may
    make one too, to refresh or release it.
    """

    def __init__(self, key: LeaseKey, token: str, expires_at: int = 0) -> None:
        """``expires_at`` is in epoch seconds, as last acknowledged; the lease counts as lost from then on.

        Raises:
            InvalidInputError: the token is empty, or an argument of another type.
        """
        if not isinstance(key, LeaseKey):
            raise InvalidInputError(f"the key of a lease is {key!r:.60}: expected a LeaseKey, as lock_key returns")
        if check_text("the token of a lease", token) == "":
            raise InvalidInputError(f"the token of the lease of {key.pk} is empty: expected an acquired lease's token")
        self.key = key
        self._token = token
        self._expires_at = check_count("expires_at", expires_at)
        self._held: IsrLease | None = None

    @classmethod
    def _acquired(cls, key: LeaseKey, held: IsrLease) -> Self:
        lease = cls(key, held.lease_token, held.lease_expires_at)
        lease._held = held
        return lease

    @property
    def token(self) -> str:
        """Proves that this process holds the lease."""
        return self._token

    @property
    def failures(self) -> int:
        """How many earlier attempts had failed in a row; also 0 if the reply to the acquisition was lost."""
        return self._held.failures if self._held else 0

    @property
    def seconds(self) -> int:
        """The duration, as granted last; 0 of another process's lease that was not refreshed here."""
        return self._held.duration_seconds if self._held else 0

    @property
    def expires_at(self) -> int:
        """When it expires unless it is refreshed, in epoch seconds, as last acknowledged."""
        return self._held.lease_expires_at if self._held else self._expires_at

    @property
    def lost(self) -> bool:
        """Whether it was released, was taken, or expired.

        It expires by the wall clock, by which others judge, or by the monotonic clock,
        whichever comes first.
        """
        if self._held is None:
            return self._expires_at <= time.time()
        return self._held.over or self._held.lost

    def check(self) -> None:
        """Raise an error if the lease is lost. Call it before each side effect.

        Raises:
            LeaseLostError: it was released, was taken, or expired.
        """
        if self._held is not None:
            self._held.check()
        if self.lost:
            raise LeaseLostError(f"the lease of {self.key.pk} was released, or has expired: acquire it again")


class LeaseManager:
    """Leases in one table, with the same rows and guarantees as Go's and TypeScript's.

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
        now: Callable[[], float] | None = None,
        token: Callable[[], str] | None = None,
        retry: Retry | None = None,
        logger: logging.Logger | None = None,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        """``owner`` names this process to people; ``now`` returns the wall time in epoch seconds.

        By default that is time.time. It is checked: by a clock in another unit, two
        processes would hold one lease. ``token`` returns an unguessable text that never
        recurs (default: 128 random bits in hex). ``logger`` logs lost
        replies, and refreshes and releases that failed. ``wait`` waits for an event, at
        most so many seconds, and returns whether it is set; heartbeats wait with it.

        Raises:
            InvalidInputError: the name of the table is invalid, or ``now`` returns no epoch
                seconds.
        """
        retry = retry or Retry()
        self._connection = Connection(
            client=client,
            table=checked_table_name(table_name),
            owner=owner,
            clock=wall_clock(now),
            new_token=checked_tokens(token),
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
        """Return the key of a partition's lease, such as a page's lease.

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
            TableNotFoundError, ThrottledError: see their docstrings.
        """
        return self._acquire(key, lease_seconds)[0]

    def _acquire(self, key: str | LeaseKey, lease_seconds: float) -> tuple[Lease, IsrLease]:
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
        return Lease._acquired(at, held), held

    def refresh(self, lease: Lease, *, lease_seconds: float | None = None) -> Lease:
        """Extend a held lease from now by so many seconds, and return it; None: by its present duration.

        Raises:
            LeaseLostError: it expired or was taken; it cannot be regained.
            InvalidInputError: the duration is invalid, or None and the lease another
                process's; nothing was sent.
            UnknownOutcomeError, ThrottledError, TableNotFoundError: it may have been
                extended; the call may be repeated.
        """
        seconds = None if lease_seconds is None else _whole_seconds(lease_seconds)
        if lease._held is None and seconds is None:
            raise InvalidInputError(
                f"refresh the lease of {lease.key.pk}: another process acquired it, with a duration that is unknown "
                "here; pass lease_seconds"
            )
        held = lease._held or self._foreign(lease)
        try:
            leasewrites.refresh(held.connection, held, seconds)
        except LeaseLostError:
            lease._held = held
            raise
        lease._held = held
        return lease

    def release(self, lease: Lease) -> None:
        """Release the lease. Releasing a lost lease does nothing and is no error.

        Raises:
            UnknownOutcomeError, ThrottledError, TableNotFoundError: it may have been
                released; the call may be repeated.
        """
        held = lease._held or self._foreign(lease)
        leasewrites.release(held.connection, held)
        self._registry.remove(held)
        lease._held = held

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
        lease, held = self._acquire(key, lease_seconds)
        try:
            with lease_scope(self._connection, held, began):
                yield lease
        finally:
            self._registry.remove(held)

    def _foreign(self, lease: Lease) -> IsrLease:
        return self._registry.foreign_lease(lease.key.pk, lease.key.pk, lease.token)


def _whole_seconds(lease_seconds: float) -> int:
    if not 0 < check_number("lease_seconds", lease_seconds) <= MAX_INTERVAL:
        raise InvalidInputError(f"lease_seconds is {lease_seconds!r}: expected more than 0, at most {MAX_INTERVAL}")
    return math.ceil(lease_seconds)
