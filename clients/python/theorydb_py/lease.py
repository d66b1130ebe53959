"""Leases: the right to do something that only one process is to do at a time.

They are kept in the table of the pages, or in one of their own, as the leases of
pages are, and by the same code:

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

from theorydb_py.api import DynamoDB
from theorydb_py.errors import InvalidInputError, InvalidKeyError, LeaseLostError
from theorydb_py.isr import hold
from theorydb_py.isr.acquire import acquire
from theorydb_py.isr.amounts import MAX_INTERVAL, check_number
from theorydb_py.isr.connection import Connection
from theorydb_py.isr.items import SK_LOCK
from theorydb_py.isr.keep import kept
from theorydb_py.isr.keys import check_partition, job_partition
from theorydb_py.isr.lease import IsrLease
from theorydb_py.retry import Retry
from theorydb_py.table_name import checked_table_name


@dataclass(frozen=True)
class LeaseKey:
    """Where a lease is in the table: the row LOCK of a partition, whose key has 1 to 2,048 bytes."""

    pk: str
    sk: str = SK_LOCK

    def __post_init__(self) -> None:
        check_partition(self.pk)
        if self.sk != SK_LOCK:
            # A row of another kind has no lease that could be held: it would be
            # taken for free, and overwritten.
            raise InvalidKeyError(f"a lease is in the row {SK_LOCK} of its partition, not in {self.sk!r:.60}")


class Lease:
    """A lease that was acquired, proven by its token.

    The token stays the same for the life of the lease, so that a refresh whose
    reply was lost can be repeated. Safe for concurrent use.
    """

    def __init__(self, key: LeaseKey, held: IsrLease) -> None:
        """Be made by a LeaseManager."""
        self.key = key
        self._held = held

    @property
    def token(self) -> str:
        """What proves who holds it."""
        return self._held.lease_token

    @property
    def failures(self) -> int:
        """How many attempts had failed in a row before this one; 0 too if the reply to the acquisition was lost."""
        return self._held.failures

    @property
    def seconds(self) -> int:
        """The lifetime that it was last given."""
        return self._held.duration_seconds

    @property
    def expires_at(self) -> int:
        """When it ends unless it is extended, in epoch seconds, as last acknowledged."""
        return self._held.lease_expires_at

    @property
    def lost(self) -> bool:
        """Whether it is over: released, taken by somebody else, or expired.

        By the wall clock that others judge it by, and by the monotonic one, which
        nobody sets.
        """
        return self._held.over or self._held.lost

    def check(self) -> None:
        """Raise LeaseLostError if it is lost. Call it before each effect that only the holder may have."""
        self._held.check()
        if self._held.over:
            raise LeaseLostError(f"the lease of {self.key.pk} was released: acquire it anew")


class LeaseManager:
    """Leases in one table, with the same rows and guarantees as in Go and TypeScript.

    At most one unexpired lease per key, whose holder finds out when it has lost
    it. A lease does not stop a holder that was frozen from writing elsewhere
    after it has expired: what it writes should be made conditional as well.

    A key that is text names a job, such as a nightly import that one of many
    processes is to run: 1 to 1,024 bytes, kept in the partition ``JOB#`` + key,
    apart from pages. A LeaseKey names any partition. Safe for concurrent use.
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
        """``owner`` is for people who look who has a lease; ``now`` is the wall clock in epoch seconds.

        ``token`` makes a text that nobody can guess and that never returns.
        ``logger`` hears of lost replies, and of extensions and releases that
        failed. ``wait`` is how a heartbeat waits for its event, at most so many
        seconds; it says whether the event has come.
        """
        retry = retry or Retry()
        self._connection = Connection(
            client=client,
            table=checked_table_name(table_name),
            owner=owner,
            clock=now,
            new_token=token,
            retry=retry,
            settle_timeout=retry.timeout,
            wait=wait,
            logger=logger or logging.getLogger("theorydb_py"),
        )

    def lock_key(self, pk: str, sk: str = SK_LOCK) -> LeaseKey:
        """Return the key of the lease of a partition, such as that of a page."""
        return LeaseKey(pk, sk)

    def acquire(self, key: str | LeaseKey, *, lease_seconds: float = 30) -> Lease:
        """Take the lease for so long, rounded up to whole seconds; it does not wait.

        LeaseHeldError: somebody else has it. InvalidKeyError, InvalidInputError:
        nothing was asked. Other errors: it was not taken, or given back, unless
        it is an UnknownOutcomeError: then at worst a lease remains that nobody
        uses until it expires.
        """
        at = key if isinstance(key, LeaseKey) else LeaseKey(job_partition(key))
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
        return Lease(at, held)

    def refresh(self, lease: Lease, *, lease_seconds: float | None = None) -> None:
        """Extend a held lease from now by so long; None: by the lifetime it has.

        LeaseLostError: it expired or was taken, and cannot come back. Other
        errors leave open whether it was extended; it may be called again.
        """
        seconds = None if lease_seconds is None else _whole_seconds(lease_seconds)
        hold.refresh(lease._held.connection, lease._held, seconds)

    def release(self, lease: Lease) -> None:
        """Give the lease up. Releasing one that is already lost does nothing and is no error."""
        hold.release(lease._held.connection, lease._held)

    @contextlib.contextmanager
    def lease(self, key: str | LeaseKey, *, lease_seconds: float = 30) -> Iterator[Lease]:
        """Acquire the lease, extend it at a third of its lifetime meanwhile, and release it at the end.

        Python cannot interrupt the work: ask ``lease.lost``, or call
        ``lease.check()``, before each effect. If the lease was lost before the
        end, LeaseLostError is raised there, with the work's own exception as its
        cause. A release that fails is logged, and the lease left to expire.
        """
        began = self._connection.monotonic()
        lease = self.acquire(key, lease_seconds=lease_seconds)
        with kept(self._connection, lease._held, began):
            yield lease


def _whole_seconds(lease_seconds: float) -> int:
    if not 0 < check_number("lease_seconds", lease_seconds) <= MAX_INTERVAL:
        raise InvalidInputError(f"lease_seconds is {lease_seconds!r}: expected more than 0, at most {MAX_INTERVAL}")
    return math.ceil(lease_seconds)
