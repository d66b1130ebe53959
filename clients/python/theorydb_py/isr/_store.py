"""The store: metadata and leases of cached pages in one DynamoDB table."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from theorydb_py._classify import read_failure, write_failure
from theorydb_py._client import DynamoDB
from theorydb_py._retry import Retry
from theorydb_py._table_name import checked_table_name
from theorydb_py._wallclock import wall_clock
from theorydb_py.errors import (
    InvalidInputError,
    LeaseHeldError,
    MovedError,
    ResultGoneError,
)
from theorydb_py.isr import _acquire as acquire
from theorydb_py.isr import _claim as claim
from theorydb_py.isr import _leaseupdate as leasewrites
from theorydb_py.isr import _mark as mark
from theorydb_py.isr import _pages as pages
from theorydb_py.isr import _publish as publish
from theorydb_py.isr import _rollback as rollback
from theorydb_py.isr._assertion import pin_assertion, rollback_target, unpin_assertion
from theorydb_py.isr._backend import Connection, checked_tokens
from theorydb_py.isr._build import build_sequence
from theorydb_py.isr._commit import committed_entry, reference_entry
from theorydb_py.isr._entry import (
    Assertion,
    Change,
    CurrentEntry,
    Entry,
    Mark,
    PurgeState,
    Receipt,
    Record,
    ReloadTarget,
    RequestRecord,
    Sequence,
)
from theorydb_py.isr._freshness import expiry, freshness
from theorydb_py.isr._generationid import generation_id
from theorydb_py.isr._groupcommit import GroupCommit
from theorydb_py.isr._inputs import Json, hash_inputs
from theorydb_py.isr._keys import check_cache_key, check_partition, check_request_key, check_tenant
from theorydb_py.isr._lease import IsrLease, Snapshot
from theorydb_py.isr._leaseregistry import LeaseRegistry
from theorydb_py.isr._leasescope import finish, lease_scope
from theorydb_py.isr._normalize import check_text, normalize_entry, whole_seconds
from theorydb_py.isr._numbers import MAX_COUNT, check_count, check_interval, check_number, lease_seconds
from theorydb_py.isr._partition import PartitionScheme, partition_of
from theorydb_py.isr._publish import Publishing
from theorydb_py.isr._purge import Purge
from theorydb_py.isr._purgetarget import PurgeTarget, resolve
from theorydb_py.isr._request import end_request, read_request
from theorydb_py.isr._requestrow import COMPLETED, Attempt, Claim, check_claim, completed, failed
from theorydb_py.isr._row import HeaderValue

_MAX_ATTEMPTS = 5
"""How many times a rollback or a pin is attempted while other writers change the page."""
_MAX_KEPT = 10_000


class FaceTheoryIsrMetaStore:
    """The pages of a site, in a table that services in Go and TypeScript share.

    Many processes serve the same pages, and exactly one regenerates an expired page. A
    process may die or freeze at any point, and replies get lost. The guarantees:

    - At most one unexpired lease per page; only its holder publishes.
    - No lost updates: a publish fails if anything but what it read would be replaced.
    - A request with an idempotency key is executed once.
    - A rollback is never undone by a regeneration that began before it.
    - Results are definite: a lost reply is settled before the method returns.
    - Unknown attributes are preserved; errors name malformed rows.

    ``cache_key`` is any text of 1 to 4,096 bytes; canonical_key returns the key of a
    URL. Synchronous and safe for concurrent use. Methods list their own errors; all of
    them raise these:

    Raises:
        InvalidInputError, InvalidKeyError: an argument is invalid; nothing was sent.
        MalformedRowError: a row that the method depends on is unreadable.
        TableNotFoundError: the table does not exist, or is not active yet.
        ThrottledError, TransactionConflictError: transient; nothing was changed.
        UnknownOutcomeError: a write got no reply, and its outcome could not be settled.
        botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError: other
            failures, such as a refused permission, or a read without a reply.
    """

    def __init__(
        self,
        client: DynamoDB,
        table_name: str,
        *,
        tenant: str = "",
        pk_from_cache_key: Callable[[str], str] | None = None,
        pk_prefix: str | None = None,
        partition: PartitionScheme | None = None,
        meta_ttl_seconds: float | None = None,
        mark_lifetime_seconds: float | None = None,
        lease_owner: str | None = None,
        now: Callable[[], float] | None = None,
        new_token: Callable[[], str] | None = None,
        retry: Retry | None = None,
        settle_timeout_seconds: float = 15.0,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        """Create a store on an existing table.

        ``client`` is a boto3 client with its own timeouts. ``tenant`` is the tenant of
        all keys, 1 to 64 letters, digits, ``.``, ``_`` and ``-``. The partition key of a
        page is, by ``partition``, ``hashed`` (hashed_partition, as ``isr serve`` does) or
        ``raw`` (raw_partition, as TableTheory does); None: by the environment variable
        FACETHEORY_CACHE_PARTITION, or else hashed. In its place,
        ``pk_from_cache_key(cache_key)`` or, without a tenant, ``pk_prefix + cache_key``
        match other services. All writers of a table must agree: otherwise they have
        different rows, and different leases. ``meta_ttl_seconds`` is how long a
        page is kept at least after it was published, pinned or rolled back: its row
        gets a ttl a day after its last possible use; None: no ttl, unless a call passes
        one. ``mark_lifetime_seconds`` is how long purge marks are kept at least, from the
        first purge of this store on; at least, and by default, 90 days. The longest of
        all writers holds for the table. A page expires a day before marks that cover it
        may be gone, however long it is kept. Marks that exist keep their lifetime: purge
        the whole site once after raising it, hard, or softly if nothing was purged hard.

        ``lease_owner`` names this process to people (default: host and process id).
        ``now`` returns the wall time in epoch seconds (default: time.time), which is
        checked. ``new_token`` returns an unguessable text that never recurs (default: 128
        random bits in hex). ``settle_timeout_seconds`` (above 0) bounds how
        long an unanswered write is investigated. ``wait`` waits for an event, at most
        so many seconds, and returns whether it is set; heartbeats wait with it.

        Raises:
            InvalidInputError, InvalidKeyError: an argument is invalid.
        """
        self._tenant = check_tenant(tenant) if tenant != "" else ""
        self._partition = partition_of(self._tenant, partition, pk_from_cache_key, pk_prefix)
        self._retention = None if meta_ttl_seconds is None else check_interval("meta_ttl_seconds", meta_ttl_seconds)
        self._mark_lifetime = _mark_lifetime(mark_lifetime_seconds)
        owner = (
            f"{socket.gethostname()}:{os.getpid()}" if lease_owner is None else check_text("lease_owner", lease_owner)
        )
        if check_number("settle_timeout_seconds", settle_timeout_seconds) <= 0:
            raise InvalidInputError(
                f"settle_timeout_seconds is {settle_timeout_seconds!r}: expected more than 0 seconds"
            )
        self._connection = Connection(
            client=client,
            table=checked_table_name(table_name),
            owner=owner,
            clock=wall_clock(now),
            new_token=checked_tokens(new_token),
            retry=retry or Retry(),
            settle_timeout_seconds=settle_timeout_seconds,
            wait=wait,
            logger=logging.getLogger("theorydb_py.isr"),
        )
        self._leases = LeaseRegistry(self._connection)
        self._log = GroupCommit(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back all leases of this store, fail their requests, and refuse further acquisitions.

        Blocks that hold a lease find it lost. Failures are logged, and the rows left to
        expire. A store without leases holds no thread. May be called repeatedly, from
        any thread; other methods still work. The client stays open.
        """
        self._leases.close()

    # --- Reading -------------------------------------------------------------

    def get(self, cache_key: str) -> CurrentEntry | None:
        """Return the current entry with its freshness; None if there is no valid entry.

        Raises:
            InvalidKeyError, MalformedRowError, TableNotFoundError, ThrottledError: see
                the class.
        """
        record = self.read(cache_key)
        if record.entry is None:
            return None
        state = freshness(record.entry, record.purges, self._connection.now())
        return CurrentEntry(**vars(record.entry), state=state)

    def read(self, cache_key: str) -> Record:
        """Return the state of a page, in one strongly consistent read.

        Raises:
            InvalidKeyError, MalformedRowError, TableNotFoundError, ThrottledError: see
                the class.
        """
        return pages.read_page(self._connection, self.partition_key(cache_key))

    def partition_key(self, cache_key: str) -> str:
        """Return the partition key of a page.

        Raises:
            InvalidKeyError: the key has not 1 to 4,096 bytes, or the partition key more
                than 2,048.
        """
        return check_partition(self._partition(check_cache_key(cache_key)))

    # --- Leases -------------------------------------------------------------

    def try_acquire_lease(
        self,
        cache_key: str,
        *,
        lease_duration_ms: float = 30_000,
        lease_owner: str | None = None,
        idempotency_key: str | None = None,
        inputs: Json = None,
        request_hash: str | None = None,
        keep_seconds: float = 24 * 3600,
    ) -> IsrLease | None:
        """Acquire the lease of a page as acquire_lease does; None if another process holds it.

        Raises:
            RequestCompletedError, RequestInProgressError, RequestMismatchError,
                LeaseLostError, InvalidInputError, UnknownOutcomeError: see acquire_lease.
        """
        try:
            return self.acquire_lease(
                cache_key,
                lease_duration_ms=lease_duration_ms,
                lease_owner=lease_owner,
                idempotency_key=idempotency_key,
                inputs=inputs,
                request_hash=request_hash,
                keep_seconds=keep_seconds,
            )
        except LeaseHeldError:
            return None

    def acquire_lease(
        self,
        cache_key: str,
        *,
        lease_duration_ms: float = 30_000,
        lease_owner: str | None = None,
        idempotency_key: str | None = None,
        inputs: Json = None,
        request_hash: str | None = None,
        keep_seconds: float = 24 * 3600,
    ) -> IsrLease:
        """Acquire the lease of a page, for up to ten years, rounded up to whole seconds. Does not wait.

        Under the lease, the page and then the purge sequence are read into
        ``lease.record`` and ``lease.purge_seq``. With ``idempotency_key``, the request
        is recorded as started in the same transaction; ``inputs``, or their
        ``request_hash``, distinguish it from other requests with that key, and its
        record is kept for ``keep_seconds`` (0 to ten years).

        Raises:
            LeaseHeldError: another process holds it, or a failure backs off.
            RequestCompletedError, RequestInProgressError, RequestMismatchError: the
                idempotency key was used before.
            LeaseLostError: it was lost before the page was read.
            InvalidInputError: an argument is invalid, or the store was closed.
            UnknownOutcomeError: at worst an unused lease remains until it expires.
        """
        pk = self.partition_key(cache_key)
        self._leases.check_open()
        seconds = lease_seconds("lease_duration_ms", lease_duration_ms)
        owner = self._connection.owner if lease_owner is None else check_text("lease_owner", lease_owner)
        request = _claim(idempotency_key, inputs, request_hash, keep_seconds)
        now = self._connection.second()
        token = self._connection.new_token()
        attempt = Attempt.of(request, now, self._connection.new_token()) if request else None
        lease = IsrLease(
            self._connection, cache_key=cache_key, pk=pk, token=token, owner=owner, seconds=seconds, attempt=attempt
        )
        if request is None or attempt is None:
            acquire.acquire(self._connection, lease)
        else:
            claim.acquire_for(self._connection, lease, attempt, request)
        self._read_snapshot(lease)
        self._leases.add(lease)
        return lease

    def refresh_lease(self, lease: IsrLease) -> IsrLease:
        """Extend a held lease from now by its duration, and return it.

        Raises:
            LeaseLostError: it expired or was taken. Any other error leaves open whether
                it was extended; the call may be repeated.
        """
        leasewrites.refresh(self._connection, self._own(lease))
        return lease

    def release_lease(self, lease: IsrLease | None = None, *, cache_key: str = "", lease_token: str = "") -> None:
        """Release a lease, or the lease of a page with a token. A lost lease stays as it is: no error.

        Raises:
            InvalidInputError: neither is given, or the lease is another store's.
            UnknownOutcomeError: there was no reply; the lease expires.
        """
        if lease is None:
            pk = self.partition_key(cache_key)
            lease = self._leases.find(cache_key, pk, lease_token) or self._leases.foreign_lease(
                cache_key, pk, lease_token
            )
        leasewrites.release(self._connection, self._own(lease))
        self._leases.remove(lease)

    def back_off(self, lease: IsrLease, *, pause_ms: float) -> None:
        """Replace the lease by a backoff of ``pause_ms`` and count a failure. All processes respect it.

        A lost lease stays as it is: no error.

        Raises:
            InvalidInputError: the pause is negative, or the lease is another store's.
            UnknownOutcomeError: there was no reply; the call may be repeated.
        """
        leasewrites.back_off(self._connection, self._own(lease), pause_ms)
        self._leases.remove(lease)

    def break_lease(self, cache_key: str, *, record: Record | None = None) -> None:
        """Delete the lease in record (default: the present one), of any holder.

        Its holder cannot publish any more.

        Raises:
            MovedError: the lease was replaced since.
        """
        leasewrites.break_lease(self._connection, (record or self.read(cache_key)).fence)

    @contextlib.contextmanager
    def lease(
        self,
        cache_key: str,
        *,
        lease_duration_ms: float = 30_000,
        lease_owner: str | None = None,
        idempotency_key: str | None = None,
        inputs: Json = None,
        request_hash: str | None = None,
        keep_seconds: float = 24 * 3600,
    ) -> Iterator[IsrLease]:
        """Acquire a lease as acquire_lease does, refresh it while the block runs, and release it afterwards.

        It is refreshed after each third of its duration. Python cannot interrupt the
        block: check ``lease.lost``, or call ``lease.check()``, before each side effect.
        A request that is not completed by the end is recorded as failed. Failures at
        the end are logged, and the rows left to expire.

        Raises:
            LeaseLostError: the lease was lost before the block ended; the block's
                exception is its cause.
            LeaseHeldError, RequestCompletedError, RequestInProgressError,
                RequestMismatchError: see acquire_lease.
        """
        began = self._connection.monotonic()
        held = self.acquire_lease(
            cache_key,
            lease_duration_ms=lease_duration_ms,
            lease_owner=lease_owner,
            idempotency_key=idempotency_key,
            inputs=inputs,
            request_hash=request_hash,
            keep_seconds=keep_seconds,
        )
        try:
            with lease_scope(self._connection, held, began):
                yield held
        finally:
            self._leases.remove(held)

    # --- Publishing ---------------------------------------------------------

    def commit_generation(
        self,
        *,
        cache_key: str,
        lease_token: str,
        html_pointer: str,
        generated_at_ms: float,
        revalidate_seconds: float,
        etag: str | None = None,
        ttl_unix_seconds: float | None = None,
        lease_owner: str | None = None,  # noqa: ARG002 - of the reference's call: the lease has it
        content_sha256: str | None = None,
        content_length: int | None = None,
        status: int | None = None,
        headers: Mapping[str, tuple[HeaderValue, ...]] | None = None,
        tags: tuple[str, ...] | None = None,
        stale_seconds: float | None = None,
        purge_seq: int | None = None,
    ) -> Entry:
        """Publish a generation and release the lease: the call of the reference documents.

        It replaces the page as it was when the lease was acquired (by this store; with
        a token of another process: as it is now). ``generated_at_ms`` is when rendering
        began. ``ttl_unix_seconds`` sets Entry.ttl (default: computed from
        ``meta_ttl_seconds``). With ``content_sha256`` and ``content_length`` the entry
        is stored completely; ``purge_seq`` is then the sequence before rendering
        (default: the lease's). Without them only the attributes of the reference
        schema are stored, as by another service.

        Returns the entry as readers find it.

        Raises:
            LeaseLostError: the lease is lost, or its token is not the current one.
            MovedError, PinnedError, ConditionFailedError, UnknownOutcomeError: see publish.
        """
        pk = self.partition_key(cache_key)
        lease = self._leases.find(cache_key, pk, lease_token)
        known = lease.purge_seq if lease else None
        entry = committed_entry(
            html_pointer=html_pointer,
            generated_at_ms=generated_at_ms,
            revalidate_seconds=revalidate_seconds,
            etag=etag,
            generation_id=self.new_generation_id(),
            cache_key=cache_key,
            purge_seq=known if purge_seq is None else purge_seq,
            described={
                "content_sha256": content_sha256,
                "content_length": content_length,
                "status": status,
                "headers": headers,
                "tags": tags,
                "stale_seconds": stale_seconds,
            },
        )
        entry = replace(entry, ttl=whole_seconds("ttl_unix_seconds", ttl_unix_seconds))
        lease = lease or self._leases.adopt(cache_key, pk, lease_token)
        published = self._publish(lease, lease.record, entry, Publishing())
        return reference_entry(published) if published.foreign else published

    def publish(
        self,
        lease: IsrLease,
        record: Record,
        entry: Entry,
        *,
        history: bool = False,
        keep: int = 0,
        superseded_at: float | None = None,
        unchanged: bool = False,
        unpin: bool = False,
    ) -> Entry:
        """Make an entry current and release the lease, atomically; the lease's request record is completed.

        Requires that the lease is held and unexpired, and that the page still is what
        ``record`` shows; ``lease.record`` is the page when the lease was acquired.
        ``entry.purge_seq`` should be ``lease.purge_seq``. If ``entry.ttl`` is None, it
        is computed from ``meta_ttl_seconds``. Returns the entry as readers will find it.

        ``history`` also stores the entry as a version, of which the newest ``keep``
        remain (0 to 10,000; 0: all, until they expire); ``unchanged`` replaces the
        version of the current entry, whose content is the same. ``superseded_at`` is
        when the superseded version may expire, in epoch seconds; None: with the page,
        after 30 days at the latest. ``unpin`` publishes even if the page is pinned.

        Raises:
            LeaseLostError: the lease is lost.
            MovedError: the page is not what ``record`` shows.
            PinnedError: it is pinned, and ``unpin`` is false.
            ConditionFailedError: the version exists already: use each generation_id once.
            UnknownOutcomeError: the entry may be published. After all other errors it
                was not and will not be.
        """
        how = Publishing(
            history=history,
            keep=check_count("keep", keep, _MAX_KEPT),
            superseded_at=superseded_at,
            unchanged=unchanged,
            unpin=unpin,
        )
        return self._publish(self._own(lease), record, entry, how)

    def new_generation_id(self) -> str:
        """Return a unique id for the next generation. Ids of one page sort by time."""
        return generation_id(self._connection.now(), self._connection.new_token())

    # --- Rollbacks and pins -------------------------------------------------

    def versions(self, cache_key: str) -> list[Entry]:
        """Return the versions of a page, newest first, including the current one if it was published with history.

        Raises:
            MalformedRowError, TableNotFoundError, ThrottledError: see the class.
        """
        pk = self.partition_key(cache_key)
        try:
            return pages.read_versions(self._connection, pk)
        except Exception as error:
            raise read_failure(f"read the versions of {pk}", error) from error

    def rollback(
        self,
        cache_key: str,
        to: str | None = None,
        *,
        pin_seconds: float | None = None,
        record: Record | None = None,
        assertion: Assertion | None = None,
    ) -> Entry:
        """Make a version current again and pin it for so many seconds; None: without an end.

        ``to`` is a generation id; None: the version published last before the current
        one. The caller ensures that its stored body still exists. With ``record``, only
        that state is replaced (else MovedError); without it, the present one.
        ``assertion`` overrides the pin and the ttl that ``pin_seconds`` determines.
        Other nodes learn of it by the log; concurrent rollbacks and pins share its
        transactions. Returns the new entry.

        Raises:
            NoVersionError: the version is not kept.
            PurgedError: it was hard-purged, or may have been by a tag's mark that has
                expired.
            MovedError: the page is not ``record``, or others keep changing it.
            TransactionConflictError: others keep changing the log.
            UnknownOutcomeError: there was no reply.
        """
        target = self._target(cache_key, to, assertion)

        def change(read: Record) -> Entry:
            how = assertion or pin_assertion(target, pin_seconds, self._connection.now(), self._retention)
            return rollback.rollback(
                self._connection, self._log, read, target.generation_id, self._page(cache_key), how
            )

        return self._retry_moved(cache_key, record, change)

    def pin(
        self,
        cache_key: str,
        *,
        pin_seconds: float | None = None,
        record: Record | None = None,
        assertion: Assertion | None = None,
    ) -> Entry:
        """Keep the current entry from expiring by time; pin_seconds None: without an end. A purge overrides it.

        The arguments are rollback's.

        Raises:
            NoVersionError: there is no entry, or another service wrote it.
            PurgedError, MovedError, TransactionConflictError, UnknownOutcomeError: see
                rollback.
        """

        def change(read: Record) -> Entry:
            how = assertion or pin_assertion(read.entry, pin_seconds, self._connection.now(), self._retention)
            return rollback.pin(self._connection, self._log, read, self._page(cache_key), how)

        return self._retry_moved(cache_key, record, change)

    def unpin(self, cache_key: str, *, record: Record | None = None) -> Entry:
        """End the pin of the current entry: it ages and is replaced like any other.

        pinned_until becomes now and stays: until the entry is replaced, it may be
        served when rendering fails. All nodes are notified through the log even if the entry
        is not pinned: a node that holds an older copy drops it.

        Raises:
            NoVersionError, PurgedError, MovedError, TransactionConflictError,
                UnknownOutcomeError: see pin.
        """

        def change(read: Record) -> Entry:
            how = unpin_assertion(read.entry, self._connection.now(), self._retention)
            return rollback.pin(self._connection, self._log, read, self._page(cache_key), how)

        return self._retry_moved(cache_key, record, change)

    # --- Request records ------------------------------------------------------

    def request(self, cache_key: str, idempotency_key: str) -> RequestRecord | None:
        """Return a request record, read strongly consistently; None if it does not exist or has expired.

        It is only a snapshot: acquire_lease makes a claim.

        Raises:
            InvalidKeyError, MalformedRowError, TableNotFoundError, ThrottledError: see
                the class.
        """
        pk = self.partition_key(cache_key)
        check_request_key(idempotency_key)
        try:
            return read_request(self._connection, pk, idempotency_key)[1]
        except Exception as error:
            raise read_failure(f"read the request {idempotency_key} of {pk}", error) from error

    def request_result(self, cache_key: str, idempotency_key: str) -> Entry | None:
        """Return the entry that a completed request published; None if there is no completed one.

        Raises:
            ResultGoneError: that entry is no longer kept.
        """
        request = self.request(cache_key, idempotency_key)
        if request is None or request.status != COMPLETED:
            return None
        current = self.read(cache_key).entry
        kept = [entry for entry in (current, *self.versions(cache_key)) if entry is not None]
        # Prefer the generation itself to an unchanged one that has replaced it with the
        # same body. Other services record only the body.
        by_id = [e for e in kept if request.generation_id and e.generation_id == request.generation_id]
        for entry in by_id or [e for e in kept if e.s3_key == request.result_s3_key]:
            return entry
        raise ResultGoneError(f"request {idempotency_key!r} is completed, but what it published is no longer kept")

    def end_request(self, lease: IsrLease, *, result: Entry | None = None, failure: str = "") -> None:
        """End a lease's request record other than by a publish: with the entry that answers it, or a failure.

        Does nothing for a lease without a request, or if another process took the
        request over. The lease may be lost or released by then.

        Raises:
            UnknownOutcomeError: there was no reply.
        """
        self._own(lease)
        end = failed(failure) if result is None else completed(result.s3_key, result.generation_id)
        try:
            end_request(self._connection, lease, end)
        except Exception as error:
            raise write_failure(f"end the request of the lease of {lease.pk}", error) from error

    # --- Purges ---------------------------------------------------------------

    def purge(self, targets: Collection[PurgeTarget], *, hard: bool = False, confirm: bool = False) -> Receipt:
        """Purge all generations that 1 to 98 targets select and whose rendering began before.

        They are stale: served within their stale windows while they are regenerated; with
        ``hard`` they are never served again. ``confirm`` asks every ``isr serve`` to
        report when it has applied the purge. One transaction purges all targets or none,
        whatever the number of pages; concurrent purges, rollbacks and pins share it.

        Raises:
            TransactionConflictError: others keep changing the log.
            UnknownOutcomeError: there was no reply.
        """
        resolved = resolve(targets, self._tenant, self._partition)
        change = Purge(resolved, hard=bool(hard), confirm=bool(confirm), mark_lifetime=self._mark_lifetime)
        return Receipt(seq=self._log.commit(change))

    def marks(self) -> list[Mark]:
        """Return the purge marks of the table: the newest purge of each tag, prefix, tenant and site.

        Read strongly consistently. Purges of single pages have no mark.

        Raises:
            MalformedRowError: one is unreadable: it may be a purge of any page.
        """
        try:
            return mark.read_marks(self._connection)
        except Exception as error:
            raise read_failure("read the purge marks", error) from error

    def covering(self, cache_key: str, tags: Collection[str] = ()) -> PurgeState:
        """Return the combined purge marks that cover a page with these tags, read strongly consistently.

        The purge of the page itself is in its Record: ``record.purges.merge(covering)``
        is the purge state of its entry.

        Raises:
            MalformedRowError: a mark is unreadable: it may be a purge of the page.
        """
        page = self._page(check_cache_key(cache_key))
        mark_lifetime = self.sequence().mark_lifetime
        try:
            return replace(mark.covering(self._connection, page, tags), mark_lifetime=mark_lifetime)
        except Exception as error:
            raise read_failure(f"read the purge marks of {cache_key}", error) from error

    def build(self, build_id: str) -> int:
        """Return the sequence at which a build of the site was deployed, and make it the current one unless it is.

        A process that renders pages passes it as the ``build`` of the entries that it
        publishes, and of the PurgeState that it judges by: pages of older builds are
        stale. ``build_id`` has 1 to 256 printable ASCII characters.

        Raises:
            InvalidInputError: the id is invalid.
            TransactionConflictError: others keep changing the log.
        """
        try:
            return build_sequence(self._connection, self._log, build_id)
        except Exception as error:
            raise read_failure("read or deploy the build", error) from error

    # --- The purge log --------------------------------------------------------

    def sequence(self) -> Sequence:
        """Return the state of the purge log, read strongly consistently.

        Raises:
            MalformedRowError, TableNotFoundError, ThrottledError: see the class.
        """
        try:
            return pages.read_sequence(self._connection)[0]
        except Exception as error:
            raise read_failure("read the purge sequence", error) from error

    def changes(self, after: int) -> list[Change]:
        """Return at most 200 changes after a sequence, in order, strongly consistently. They are kept for an hour.

        An unreadable row becomes a malformed change.

        Raises:
            InvalidInputError, TableNotFoundError, ThrottledError: see the class.
        """
        after = check_count("after", max(after, 0), MAX_COUNT - 1)
        try:
            return pages.read_changes(self._connection, after)
        except Exception as error:
            raise read_failure(f"read the log after {after}", error) from error

    def recent(self, up_to: int) -> list[Change]:
        """Return the newest changes up to a sequence, newest first: 1,000 of them, or a megabyte.

        A process that has read the sequence, and then reads marks, adds the marks of these
        changes: a purge that is being committed may be in the sequence, and not yet in its
        mark. An unreadable row becomes a malformed change.

        Raises:
            InvalidInputError, TableNotFoundError, ThrottledError, TransactionConflictError: see the class.
        """
        up_to = check_count("up_to", max(up_to, 0), MAX_COUNT - 1)
        try:
            return pages.read_recent(self._connection, up_to)
        except Exception as error:
            raise read_failure(f"read the log up to {up_to}", error) from error

    # --- Internals ------------------------------------------------------------

    def _page(self, cache_key: str) -> ReloadTarget:
        return ReloadTarget(tenant=self._tenant, key=cache_key)

    def _read_snapshot(self, lease: IsrLease) -> None:
        """Read what a publish will replace, under the lease, and then the purge sequence.

        On failure the lease is released, or left to expire.
        """
        try:
            record = pages.read_page(self._connection, lease.pk)
            lease.set_snapshot(Snapshot(record, self.sequence().seq))
        except Exception as error:
            finish(self._connection, lease, f"reading the page failed: {error}")
            raise

    def _own(self, lease: object) -> IsrLease:
        if not isinstance(lease, IsrLease) or lease.connection is not self._connection:
            raise InvalidInputError(f"the lease is {lease!r}: expected a lease that this store has acquired")
        return lease

    def _publish(self, lease: IsrLease, record: Record, entry: Entry, how: Publishing) -> Entry:
        if entry.ttl is None and self._retention is not None:
            entry = replace(entry, ttl=expiry(normalize_entry(entry), self._connection.now(), self._retention))
        try:
            return publish.publish(self._connection, lease, record, entry, self._page(lease.cache_key), how)
        finally:
            if lease.over:
                self._leases.remove(lease)

    def _target(self, cache_key: str, to: str | None, assertion: Assertion | None) -> Entry:
        """Return the target of a rollback. With an assertion, only its id is needed."""
        if to is not None:
            check_text("to", to)
            if assertion is not None:
                return replace(_EMPTY, generation_id=to)
        kept = self.versions(cache_key)
        # Read after the versions: it is current now, whatever was published in between.
        return rollback_target(kept, self.read(cache_key).entry, to)

    def _retry_moved(self, cache_key: str, record: Record | None, change: Callable[[Record], Entry]) -> Entry:
        """Execute a rollback or a pin on record; without one, on the present state, reread after each MovedError."""
        if record is not None:
            return change(record)
        for _ in range(_MAX_ATTEMPTS - 1):
            with contextlib.suppress(MovedError):
                return change(self.read(cache_key))
        return change(self.read(cache_key))


_EMPTY = Entry(s3_key="", generated_at=0, revalidate_seconds=0)


_MIN_MARK_LIFETIME = 90 * 24 * 3600


def _mark_lifetime(seconds: float | None) -> int:
    if seconds is None:
        return _MIN_MARK_LIFETIME
    lifetime = check_interval("mark_lifetime_seconds", seconds)
    if lifetime < _MIN_MARK_LIFETIME:
        raise InvalidInputError(
            f"mark_lifetime_seconds is {seconds!r}: expected at least {_MIN_MARK_LIFETIME}, 90 days"
        )
    return lifetime


def _claim(key: str | None, inputs: Json, request_hash: str | None, keep_seconds: float) -> Claim | None:
    if key is None:
        return None
    if (inputs is None) == (request_hash is None):
        raise InvalidInputError("an idempotency_key requires inputs or request_hash: pass one of them")
    digest = request_hash if request_hash is not None else hash_inputs(inputs)
    claimed = Claim(key=key, request_hash=digest, keep_seconds=keep_seconds)
    check_claim(claimed)
    return claimed
