"""The metadata and leases of cached pages in one DynamoDB table."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from theorydb_py.answers import read_failure, write_failure
from theorydb_py.api import DynamoDB
from theorydb_py.errors import (
    InvalidInputError,
    LeaseHeldError,
    MovedError,
    ResultGoneError,
)
from theorydb_py.isr import acquire, claim, hold, pages, publish, reassert
from theorydb_py.isr.amounts import MAX_COUNT, check_count, check_interval, check_number, lease_seconds
from theorydb_py.isr.commit import bare, committed
from theorydb_py.isr.connection import Connection
from theorydb_py.isr.entry import (
    Assertion,
    Change,
    CurrentEntry,
    Entry,
    Record,
    ReloadTarget,
    Request,
    Sequence,
)
from theorydb_py.isr.freshness import expiry, freshness
from theorydb_py.isr.generation import generation_id
from theorydb_py.isr.groupcommit import GroupCommit
from theorydb_py.isr.held import HeldLeases
from theorydb_py.isr.history import pinning, target_of, unpinning
from theorydb_py.isr.inputs import Json, hash_inputs
from theorydb_py.isr.keep import finish, kept
from theorydb_py.isr.keys import check_cache_key, check_partition, check_request_key, check_tenant, hashed_partition
from theorydb_py.isr.lease import IsrLease, Reading
from theorydb_py.isr.publish import Publishing
from theorydb_py.isr.readers import HeaderValue
from theorydb_py.isr.request import end_request, find_request
from theorydb_py.isr.requestrow import COMPLETED, Attempt, Claim, check_claim, completed, failed
from theorydb_py.isr.storable import check_text, storable, whole_moment
from theorydb_py.retry import Retry
from theorydb_py.table_name import checked_table_name

_MOST_MOVES = 5
"""How often a rollback or a pin is repeated because another writer was there first."""
_MOST_KEPT = 10_000


class FaceTheoryIsrMetaStore:
    """The pages of a site, as the services in Go and TypeScript keep them in the same table.

    Many processes serve the same pages. Exactly one of them is to regenerate a
    page when it has expired; a process may die or freeze at any point while it does
    so, and replies get lost. The guarantees:

    - At most one unexpired lease per page, and a publish only by its holder.
    - No write is lost: a publish names what it replaces, and fails if anything else
      was written in between.
    - A request with an idempotency key is carried out once.
    - A rollback is never undone by a regeneration that began before it.
    - Answers are definite: a lost reply is settled before a method returns.
    - Attributes that this package does not know survive; malformed rows are named.

    ``cache_key`` is any text of 1 to 4,096 bytes; ``canonical_key`` makes that of a
    URL. Methods raise InvalidInputError and InvalidKeyError before they ask the
    table, MalformedRowError where a row that decides cannot be read, and what the
    table says of itself (TableNotFoundError, ThrottledError,
    TransactionConflictError). Synchronous and safe for concurrent use.
    """

    def __init__(
        self,
        client: DynamoDB,
        table_name: str,
        *,
        tenant: str = "",
        pk_from_cache_key: Callable[[str], str] | None = None,
        pk_prefix: str | None = None,
        meta_ttl_seconds: float | None = None,
        lease_owner: str | None = None,
        now: Callable[[], float] = time.time,
        new_token: Callable[[], str] = lambda: secrets.token_hex(16),
        retry: Retry | None = None,
        settle_timeout: float = 15.0,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        """Make a store on a table, which must be there.

        ``client`` is boto3's, with time limits of its own. ``tenant`` is the tenant
        of all keys. The partition key is that of hashed_partition, or
        ``pk_from_cache_key(cache_key)``, or ``pk_prefix + cache_key``, where other
        services write so: all writers of a table must agree. ``meta_ttl_seconds``
        is how long a page is kept at least after it was published, pinned or rolled
        back to: its row gets a ttl a day beyond all that could need it; None: no
        ttl, unless a call gives one. ``lease_owner``
        names this process to people (default: host and process id). ``now`` is the
        wall clock in epoch seconds; ``new_token`` makes a text that nobody can
        guess and that never returns. ``settle_timeout`` bounds the seconds in which
        the outcome of an unanswered write is looked for. ``wait`` is how a
        heartbeat waits for its event, at most so many seconds; it says whether the
        event has come.
        """
        if pk_from_cache_key is not None and pk_prefix is not None:
            raise InvalidInputError("pk_from_cache_key and pk_prefix are both given: expected one of them")
        self._tenant = check_tenant(tenant) if tenant != "" else ""
        self._partition = pk_from_cache_key or self._preset(pk_prefix)
        self._retention = None if meta_ttl_seconds is None else check_interval("meta_ttl_seconds", meta_ttl_seconds)
        owner = (
            f"{socket.gethostname()}:{os.getpid()}" if lease_owner is None else check_text("lease_owner", lease_owner)
        )
        if check_number("settle_timeout", settle_timeout) <= 0:
            raise InvalidInputError(f"settle_timeout is {settle_timeout!r}: expected more than 0 seconds")
        self._connection = Connection(
            client=client,
            table=checked_table_name(table_name),
            owner=owner,
            clock=now,
            new_token=new_token,
            retry=retry or Retry(),
            settle_timeout=settle_timeout,
            wait=wait,
            logger=logging.getLogger("theorydb_py.isr"),
        )
        self._held = HeldLeases(self._connection)
        self._log = GroupCommit(self._connection)

    # --- Reading ------------------------------------------------------------

    def get(self, cache_key: str) -> CurrentEntry | None:
        """Return the current entry and what it is worth now; None if there is none that is valid."""
        record = self.read(cache_key)
        if record.entry is None:
            return None
        state = freshness(record.entry, record.cover, self._connection.now())
        return CurrentEntry(**vars(record.entry), state=state)

    def read(self, cache_key: str) -> Record:
        """Return all that the table knows of a page, in one strongly consistent read."""
        return pages.read_page(self._connection, self.partition_key(cache_key))

    def partition_key(self, cache_key: str) -> str:
        """Return the partition key of a page."""
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
        """Take the lease of a page as acquire_lease does; None if somebody else holds it."""
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
        """Take the lease of a page, for so long, rounded up to whole seconds. It does not wait.

        Under the lease the page and then the purge sequence are read:
        ``lease.record`` and ``lease.purge_seq``. With ``idempotency_key`` the
        request is recorded as started in the same step; ``inputs``, or their
        ``request_hash``, tell it from others of that key, and its record is kept
        for ``keep_seconds``.

        Errors: LeaseHeldError; RequestCompletedError, RequestInProgressError and
        RequestMismatchError of a request that was made before; UnknownOutcomeError,
        after which at worst a lease remains that nobody uses until it expires.
        """
        pk = self.partition_key(cache_key)
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
        self._look(lease)
        self._held.remember(lease)
        return lease

    def refresh_lease(self, lease: IsrLease) -> None:
        """Extend a held lease from now by its lifetime. LeaseLostError: it expired or was taken.

        Other errors leave open whether it was extended; it may be called again.
        """
        hold.refresh(self._connection, self._own(lease))

    def release_lease(self, lease: IsrLease | None = None, *, cache_key: str = "", lease_token: str = "") -> None:
        """Give a lease up, by itself or by its page and token. One that is lost is left as it is: no error."""
        if lease is None:
            pk = self.partition_key(cache_key)
            lease = self._held.find(cache_key, pk, lease_token) or self._held.stranger(cache_key, pk, lease_token)
        hold.release(self._connection, self._own(lease))
        self._held.forget(lease)

    def back_off(self, lease: IsrLease, *, pause_ms: float) -> None:
        """Leave the page alone for so long, and count a failure: the whole fleet respects it."""
        hold.back_off(self._connection, self._own(lease), pause_ms)
        self._held.forget(lease)

    def break_lease(self, cache_key: str, *, record: Record | None = None) -> None:
        """Free the lease that record saw (default: that which is there now), whoever holds it.

        Its holder cannot publish any more. MovedError: it is another one by now.
        """
        hold.break_lease(self._connection, (record or self.read(cache_key)).fence)

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
        """Acquire a lease as acquire_lease does, keep it while the block runs, and release it at its end.

        It is extended at a third of its lifetime. Python cannot interrupt the
        block: ask ``lease.lost``, or call ``lease.check()``, before each effect. If
        the lease was lost before the end, LeaseLostError is raised there, with the
        block's own exception as its cause. A request that was not completed by then
        is recorded as failed. What fails at the end is logged, and left to expire.
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
            with kept(self._connection, held, began):
                yield held
        finally:
            self._held.forget(held)

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
        """Publish what was rendered, and give up the lease: the call of the reference documents.

        It replaces what the page was when the lease was taken (by this store; of a
        token from elsewhere: what it is now). ``generated_at_ms`` is when rendering
        began. ``ttl_unix_seconds``: see Entry.ttl; default: by
        ``meta_ttl_seconds``. With ``content_sha256`` and ``content_length`` the row
        says all that an entry can say, and ``purge_seq`` is the sequence before
        rendering, by default that of the lease. Without them it says what the
        reference's rows say: to readers it is another service's.

        Returns the entry as readers find it. Errors: those of publish.
        """
        pk = self.partition_key(cache_key)
        lease = self._held.find(cache_key, pk, lease_token)
        known = lease.purge_seq if lease else None
        entry = committed(
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
        entry = replace(entry, ttl=whole_moment("ttl_unix_seconds", ttl_unix_seconds))
        lease = lease or self._held.adopt(cache_key, pk, lease_token)
        published = self._publish(lease, lease.record, entry, Publishing())
        return bare(published) if published.foreign else published

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
        """Make an entry current and give up the lease, in one step; a request of the lease is completed.

        Only if the lease is still held and unexpired, and the page is still exactly
        what ``record`` shows; ``lease.record`` is what it was when the lease was
        taken. ``entry.purge_seq`` is to be ``lease.purge_seq``; an ``entry.ttl`` that
        is None is computed by ``meta_ttl_seconds``. The other arguments are those of
        Publishing. Returns the entry as a reader will find it.

        Errors: LeaseLostError, MovedError, PinnedError, ConditionFailedError (the
        version is there already: a generation_id is used once), after which it did
        not and will not happen, as after all others but UnknownOutcomeError.
        """
        how = Publishing(
            history=history,
            keep=check_count("keep", keep, _MOST_KEPT),
            superseded_at=superseded_at,
            unchanged=unchanged,
            unpin=unpin,
        )
        return self._publish(self._own(lease), record, entry, how)

    def new_generation_id(self) -> str:
        """Return an id for a generation that is published next: unique, and later ones of a page sort after it."""
        return generation_id(self._connection.now(), self._connection.new_token())

    # --- History ------------------------------------------------------------

    def versions(self, cache_key: str) -> list[Entry]:
        """Return the generations that are kept, the newest first; the current one if it was published with history."""
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
        """Make a kept generation current again, and pin it: for ever, or for so many seconds.

        ``to`` is its id; None: the one that was published last before the current.
        The caller sees to it that its body is still there. With ``record`` only
        what that shows is replaced (MovedError otherwise), else whatever is there.
        ``assertion`` says all about the pin and the ttl in place of
        ``pin_seconds``. Other nodes follow by the log; rollbacks and pins that are made
        at the same time share its transactions. Returns the new entry.

        Errors: NoVersionError: it is not kept; PurgedError: it was purged hard, itself
        or by a tag, or that cannot be known any more; MovedError: others change the page
        again and again; TransactionConflictError: others change the log again and again;
        UnknownOutcomeError.
        """
        target = self._target(cache_key, to, assertion)

        def declare(read: Record) -> Entry:
            how = assertion or pinning(target, pin_seconds, self._connection.now(), self._retention)
            return reassert.rollback(
                self._connection, self._log, read, target.generation_id, self._page(cache_key), how
            )

        return self._assert(cache_key, record, declare)

    def pin(
        self,
        cache_key: str,
        *,
        pin_seconds: float | None = None,
        record: Record | None = None,
        assertion: Assertion | None = None,
    ) -> Entry:
        """Keep the current entry from expiring by time, for ever or for so many seconds. A purge is stronger.

        The arguments and the errors are those of rollback; NoVersionError: there is
        no entry, or another service wrote it.
        """

        def declare(read: Record) -> Entry:
            how = assertion or pinning(read.entry, pin_seconds, self._connection.now(), self._retention)
            return reassert.pin(self._connection, self._log, read, self._page(cache_key), how)

        return self._assert(cache_key, record, declare)

    def unpin(self, cache_key: str, *, record: Record | None = None) -> Entry:
        """Let the current entry age, and be replaced, as others do.

        It keeps the end of its pin, which is now: until it is replaced, it may be served
        in place of a failure. If it is not pinned, all nodes are told the same: one that
        holds an older copy drops it.
        """

        def declare(read: Record) -> Entry:
            how = unpinning(read.entry, self._connection.now(), self._retention)
            return reassert.pin(self._connection, self._log, read, self._page(cache_key), how)

        return self._assert(cache_key, record, declare)

    # --- Requests with an idempotency key -------------------------------------

    def request(self, cache_key: str, idempotency_key: str) -> Request | None:
        """Return the record of a request, read strongly; None if there is none, or its time is over.

        It decides nothing: only an acquisition makes a claim.
        """
        pk = self.partition_key(cache_key)
        check_request_key(idempotency_key)
        try:
            return find_request(self._connection, pk, idempotency_key)[1]
        except Exception as error:
            raise read_failure(f"read the request {idempotency_key} of {pk}", error) from error

    def request_result(self, cache_key: str, idempotency_key: str) -> Entry | None:
        """Return the entry that answers a completed request; None if there is no completed one.

        ResultGoneError: what it published is not kept any more.
        """
        request = self.request(cache_key, idempotency_key)
        if request is None or request.status != COMPLETED:
            return None
        current = self.read(cache_key).entry
        kept = [entry for entry in (current, *self.versions(cache_key)) if entry is not None]
        # Unless the generation is there itself: an unchanged one that has taken its
        # place, with the same body. Other services record that alone.
        by_id = [e for e in kept if request.generation_id and e.generation_id == request.generation_id]
        for entry in by_id or [e for e in kept if e.s3_key == request.result_s3_key]:
            return entry
        raise ResultGoneError(f"request {idempotency_key!r} was completed, and what it published is not kept any more")

    def end_request(self, lease: IsrLease, *, result: Entry | None = None, failure: str = "") -> None:
        """Record what became of a lease's request other than by a publish: the entry that answers it, or a failure.

        Of a lease without a request, and of one that somebody else has taken over,
        it does nothing. The lease may be lost or released by then.
        """
        self._own(lease)
        end = failed(failure) if result is None else completed(result.s3_key, result.generation_id)
        try:
            end_request(self._connection, lease, end)
        except Exception as error:
            raise write_failure(f"end the request of the lease of {lease.pk}", error) from error

    # --- The log --------------------------------------------------------------

    def sequence(self) -> Sequence:
        """Return the state of the purge log, read strongly."""
        try:
            return pages.read_sequence(self._connection)[0]
        except Exception as error:
            raise read_failure("read the purge sequence", error) from error

    def changes(self, after: int) -> list[Change]:
        """Return at most 200 changes after a sequence, in order, read strongly. They are kept for an hour.

        A row that cannot be read is a change that is malformed.
        """
        after = check_count("after", max(after, 0), MAX_COUNT - 1)
        try:
            return pages.read_changes(self._connection, after)
        except Exception as error:
            raise read_failure(f"read the log after {after}", error) from error

    # --- Within ---------------------------------------------------------------

    def _preset(self, prefix: str | None) -> Callable[[str], str]:
        if prefix is None:
            return lambda cache_key: hashed_partition(cache_key, self._tenant)
        check_text("pk_prefix", prefix)
        return lambda cache_key: prefix + cache_key

    def _page(self, cache_key: str) -> ReloadTarget:
        return ReloadTarget(tenant=self._tenant, key=cache_key)

    def _look(self, lease: IsrLease) -> None:
        """Read, under the lease, what a publish will replace, and then the purge sequence.

        If that fails, the lease is given back, or left to expire.
        """
        try:
            record = pages.read_page(self._connection, lease.pk)
            lease.note(Reading(record, self.sequence().seq))
        except Exception as error:
            finish(self._connection, lease, f"it was not begun: {error}")
            raise

    def _own(self, lease: object) -> IsrLease:
        if not isinstance(lease, IsrLease) or lease.connection is not self._connection:
            raise InvalidInputError(f"the lease is {lease!r}: expected one that this store has acquired")
        return lease

    def _publish(self, lease: IsrLease, record: Record, entry: Entry, how: Publishing) -> Entry:
        if entry.ttl is None and self._retention is not None:
            entry = replace(entry, ttl=expiry(storable(entry), self._connection.now(), self._retention))
        try:
            return publish.publish(self._connection, lease, record, entry, self._page(lease.cache_key), how)
        finally:
            if lease.over:
                self._held.forget(lease)

    def _target(self, cache_key: str, to: str | None, assertion: Assertion | None) -> Entry:
        """Return the generation to roll back to. With an assertion nothing of it is needed but its id."""
        if to is not None:
            check_text("to", to)
            if assertion is not None:
                return replace(_NOTHING, generation_id=to)
        kept = self.versions(cache_key)
        # Read afterwards, it is current now, whatever was published in between.
        return target_of(kept, self.read(cache_key).entry, to)

    def _assert(self, cache_key: str, record: Record | None, declare: Callable[[Record], Entry]) -> Entry:
        """Carry out what somebody declares of a page: of record alone, or of the entry as it is then."""
        if record is not None:
            return declare(record)
        for _ in range(_MOST_MOVES - 1):
            with contextlib.suppress(MovedError):
                return declare(self.read(cache_key))
        return declare(self.read(cache_key))


_NOTHING = Entry(s3_key="", generated_at=0, revalidate_seconds=0)


def _claim(key: str | None, inputs: Json, request_hash: str | None, keep_seconds: float) -> Claim | None:
    if key is None:
        return None
    if (inputs is None) == (request_hash is None):
        raise InvalidInputError(
            "a request has an idempotency_key and either inputs or request_hash: expected one of these"
        )
    digest = request_hash if request_hash is not None else hash_inputs(inputs)
    claimed = Claim(key=key, request_hash=digest, keep_seconds=keep_seconds)
    check_claim(claimed)
    return claimed
