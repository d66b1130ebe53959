"""Publishes a generation, by the recipes of the reference documents.

One transaction updates META, if it still is what was read, and deletes LOCK, if the
lease is ours and unexpired. With history it also creates the generation's version row
and lets the superseded version expire. It completes the lease's request, if any.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from theorydb_py._outcome import condition_held
from theorydb_py._times import format_time
from theorydb_py.errors import ConditionFailedError, InvalidInputError, LeaseLostError, MovedError, PinnedError
from theorydb_py.isr._acquire import delete_lock
from theorydb_py.isr._advance import advance
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._entry import Entry, Record, ReloadTarget
from theorydb_py.isr._execute import Verdict, execute
from theorydb_py.isr._expression import absent, delete, is_held, put, update
from theorydb_py.isr._fence import version_of
from theorydb_py.isr._lease import IsrLease
from theorydb_py.isr._lockrow import holder_note
from theorydb_py.isr._logrow import reload_target
from theorydb_py.isr._metarow import version_item
from theorydb_py.isr._names import SK_LOCK, SK_META
from theorydb_py.isr._pages import prune, read_sequence
from theorydb_py.isr._requestrow import completed
from theorydb_py.isr._row import Item, child, key, text
from theorydb_py.isr._swap import Swap
from theorydb_py.isr._transaction import Action, Purpose, Refusal, Transaction


@dataclass(frozen=True, kw_only=True)
class Publishing:
    """Options of a publish."""

    history: bool = False
    """Also store the entry as a version."""
    keep: int = 0
    """With history: how many versions to keep, including the new one. Older versions are deleted now.

    0: all, until they expire.
    """
    superseded_at: float | None = None
    """When the superseded version may expire; None: with META, after 30 days at the latest."""
    unchanged: bool = False
    """With history: the content equals the current entry's; replace its version instead of adding one."""
    unpin: bool = False
    """Publish even if the current entry is pinned."""


def publish(
    connection: Connection, lease: IsrLease, record: Record, entry: Entry, page: ReloadTarget, how: Publishing
) -> Entry:
    """Make an entry current and release the lease, atomically. If that ends a pin, append the page to the log.

    Returns the entry as readers will find it. Raises LeaseLostError, MovedError (the
    page no longer is what record shows), PinnedError or InvalidInputError if it was not
    and will not be published, and UnknownOutcomeError if that could not be determined.
    """
    _require_lease(lease)
    publication = _publication(connection, lease, record, entry, page, how)
    lease.stop_heartbeat()
    _require_lease(lease)  # the heartbeat may have lost it
    try:
        execute(connection, publication)
    except LeaseLostError:
        lease.end(lost=True)
        raise
    lease.end()
    lease.end_request()
    # After a crash from here on, superseded versions expire by their ttl.
    if how.history and how.keep > 0:
        prune(connection, lease.pk, how.keep)
    return publication.swap.next


def _require_lease(lease: IsrLease) -> None:
    if lease.over:
        raise LeaseLostError(f"publish {lease.pk}: the lease is over; acquire it again")


def _publication(
    connection: Connection, lease: IsrLease, record: Record, entry: Entry, page: ReloadTarget, how: Publishing
) -> _Publication:
    if record.fence.pk != lease.pk:
        raise InvalidInputError(
            f"publish {lease.pk}: the record is one of {record.fence.pk}: read the page of the lease"
        )
    now = connection.now()
    # Judged by what was read: if the page was pinned or unpinned since, the fence refuses
    # the publish.
    pinned_until = (record.entry.pinned_until if record.entry else None) or 0
    pinned = pinned_until > now
    if pinned and not how.unpin:
        raise PinnedError(f"publish {lease.pk}: the page is pinned until {format_time(pinned_until)}: unpin it first")
    if how.history and entry.foreign:
        raise InvalidInputError(f"publish {lease.pk}: an entry without status and content cannot be kept as a version")
    swap = Swap.of(record.fence, entry, now, kept=how.history, superseded_at=how.superseded_at)
    swap.replaced = how.history and how.unchanged
    return _Publication(connection, lease, swap, unpinned=page if pinned else None)


class _Publication:
    """One call of publish; implements execute.Change. unpinned is the page if the publish ends a pin."""

    def __init__(self, connection: Connection, lease: IsrLease, swap: Swap, *, unpinned: ReloadTarget | None) -> None:
        self._connection = connection
        self._lease = lease
        self.swap = swap
        self._unpinned = unpinned

    def name(self) -> str:
        return f"publish {self._lease.pk}, generation {self.swap.next.generation_id}"

    def transaction(self) -> Transaction:
        """Return the transaction with a new token and the present time.

        Deleting LOCK releases the lease and also proves that it was held: DynamoDB
        allows one operation per item, so there is no separate check.
        """
        held = is_held(self._lease.lease_token, self._connection.second())
        lock = Action(Purpose.LOCK, "Delete", delete(key(self._lease.pk, SK_LOCK), held))
        actions = [self.swap.update_meta(), lock, *self._keep_version(), *self.swap.expire_superseded()]
        return Transaction(self._connection, [*actions, *self._complete(), *self._append_log()])

    def _keep_version(self) -> list[Action]:
        if not self.swap.current:
            return []
        return [Action(Purpose.VERSION, "Put", put(version_item(self._lease.pk, self.swap.next), absent()))]

    def _complete(self) -> list[Action]:
        attempt, entry = self._lease.attempt, self.swap.next
        if attempt is None:
            return []
        end = completed(entry.s3_key, entry.generation_id)
        return [Action(Purpose.REQUEST, "Update", update(key(self._lease.pk, attempt.sk), end, attempt.is_ours()))]

    def _append_log(self) -> list[Action]:
        """Append the page to the log if the publish ends a pin.

        A node with the pinned generation in memory would serve it until the end of the
        pin. SEQ is read for each new transaction: a value from before a backoff is
        stale.
        """
        if self._unpinned is None:
            return []
        seen = read_sequence(self._connection)
        return advance(seen, secrets.token_hex(16), [reload_target(self._unpinned)], self._connection.now())

    def running(self) -> bool:
        return self._lease.running()

    def classify(self, why: Refusal) -> Verdict | Exception:
        """Classify the failed conditions.

        The returned rows settle the common case of a lost reply without another read:
        META is already our generation.
        """
        what = self.name()
        if Purpose.META in why and self._is_ours(why[Purpose.META]):
            return Verdict.COMMITTED
        moved = "its entry was changed by another writer" if Purpose.META in why else ""
        if Purpose.LOCK in why:
            also = f", and {moved}" if moved else ""
            return LeaseLostError(
                f"{what}: the lease is lost{holder_note(why[Purpose.LOCK])}{also}; serve the current entry"
            )
        if moved:
            return MovedError(f"{what}: {moved}; read it again")
        if Purpose.REQUEST in why:
            # The process that took the request over has the lease or will acquire it: do
            # not publish what was rendered for it here.
            return LeaseLostError(
                f"{what}: the lease is lost: its request was taken over or has ended; serve the current entry"
            )
        if Purpose.VERSION in why:
            return ConditionFailedError(
                f"{what}: the version exists already: use each generation id once",
                item=why[Purpose.VERSION],
            )
        if Purpose.SUPERSEDED in why:
            self.swap.skip_superseded()  # already collected
        return Verdict.AGAIN

    def revoke(self, cause: Exception, deadline: float) -> Exception:
        """Delete LOCK if it has our token, until there is a reply.

        From then on no request of ours can be applied, as each requires the token.
        After a crash before that, the lease expires.
        """
        released = delete_lock(self._connection, self._lease, deadline)
        self._lease.end(lost=not released)
        return cause if released else LeaseLostError(f"{self.name()}: the lease is lost; before that: {cause}")

    def committed(self, sent: list[Transaction], deadline: float) -> bool:
        """Return whether META shows our generation, or showed it before another write."""
        current = self.swap.current
        found = self._connection.read_serializable(self._lease.pk, [SK_META, *([current] if current else [])], deadline)
        meta = found.get(SK_META)
        if self._is_ours(meta):
            return True
        version = version_of(meta)
        if meta is None or (version is not None and version <= self.swap.next.v):
            return False  # unchanged, or another writer took our version
        if current:
            # The version row is ours, and written with META.
            return current in found
        return any(self._repeat(transaction, deadline) for transaction in sent)

    def _repeat(self, transaction: Transaction, deadline: float) -> bool:
        """Repeat a transaction to learn whether it was applied, when META was overwritten after or instead of it.

        DynamoDB remembers the outcome under its token, and repeating is harmless now:
        it returns that outcome or fails its conditions.
        """
        return condition_held(lambda: self._connection.retry.until(deadline, transaction.send))

    def _is_ours(self, meta: Item | None) -> bool:
        return text(child(meta, "isr"), "generation_id") == self.swap.next.generation_id
