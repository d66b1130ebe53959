"""Publishing a generation, by the recipes of the reference documents.

One transaction updates META, if it is exactly what was read, and deletes LOCK, if
the lease is ours and has not expired. With history it also makes the generation's
version row, and lets that of the generation before expire. For a lease with a
request it completes that.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from theorydb_py.errors import ConditionFailedError, InvalidInputError, LeaseLostError, MovedError, PinnedError
from theorydb_py.isr.acquire import drop
from theorydb_py.isr.advance import advance
from theorydb_py.isr.connection import Connection
from theorydb_py.isr.entry import Entry, Record, ReloadTarget
from theorydb_py.isr.expressions import absent, delete, is_held, put, update
from theorydb_py.isr.fence import version_of
from theorydb_py.isr.items import SK_LOCK, SK_META, Item, child, key, text
from theorydb_py.isr.lease import IsrLease
from theorydb_py.isr.lockrow import whose
from theorydb_py.isr.metarow import version_item
from theorydb_py.isr.pages import prune, read_sequence
from theorydb_py.isr.requestrow import completed
from theorydb_py.isr.settle import Verdict, carry_out
from theorydb_py.isr.swap import Swap
from theorydb_py.isr.transaction import Action, Purpose, Refusal, Transaction
from theorydb_py.outcome import condition_held
from theorydb_py.times import readable_moment


@dataclass(frozen=True, kw_only=True)
class Publishing:
    """How a generation is published."""

    history: bool = False
    """Keep it as a version of its own, beside the current entry."""
    keep: int = 0
    """With history: how many versions are kept at least, the new one counted; older ones go now.

    0: all, until their time."""
    superseded_at: float | None = None
    """When the version that was current may be forgotten; None: with META, but after 30 days at the latest."""
    unchanged: bool = False
    """With history: it has the content of the current entry, whose version's place it takes."""
    unpin: bool = False
    """Publish even if the current entry is pinned."""


def publish(
    connection: Connection, lease: IsrLease, record: Record, entry: Entry, page: ReloadTarget, how: Publishing
) -> Entry:
    """Make an entry current and give up the lease, in one step. If that ends a pin, the log tells so of the page.

    Returns the entry as a reader will find it. Errors say that it did not and will
    not happen, but for UnknownOutcomeError: LeaseLostError, MovedError (the page is
    not what record shows any more), PinnedError, InvalidInputError.
    """
    _demand_lease(lease)
    publication = _publication(connection, lease, record, entry, page, how)
    lease.stop_heartbeat()
    _demand_lease(lease)  # the heartbeat may have been told that it is lost
    try:
        carry_out(connection, publication)
    except LeaseLostError:
        lease.end(lost=True)
        raise
    lease.end()
    lease.end_request()
    # Crashing from here on leaves versions to expire at their time.
    if how.history and how.keep > 0:
        prune(connection, lease.pk, how.keep)
    return publication.swap.next


def _demand_lease(lease: IsrLease) -> None:
    if lease.over:
        raise LeaseLostError(f"publish {lease.pk}: the lease is over; acquire it anew")


def _publication(
    connection: Connection, lease: IsrLease, record: Record, entry: Entry, page: ReloadTarget, how: Publishing
) -> _Publication:
    if record.fence.pk != lease.pk:
        raise InvalidInputError(
            f"publish {lease.pk}: the record was read of {record.fence.pk}: read the page that the lease is for"
        )
    now = connection.now()
    # Decided by what was read: if it was pinned or unpinned since, the fence refuses
    # the publish.
    pinned_until = (record.entry.pinned_until if record.entry else None) or 0
    pinned = pinned_until > now
    if pinned and not how.unpin:
        raise PinnedError(
            f"publish {lease.pk}: the page is pinned until {readable_moment(pinned_until)}: unpin it first"
        )
    if how.history and entry.foreign:
        raise InvalidInputError(
            f"publish {lease.pk}: an entry of another service has no history: give its status and content"
        )
    swap = Swap.of(record.fence, entry, now, kept=how.history, superseded_at=how.superseded_at)
    swap.replaced = how.history and how.unchanged
    return _Publication(connection, lease, swap, unpinned=page if pinned else None)


class _Publication:
    """One call of publish; a settle.Change. unpinned is the page if it ends a pin, and so is a change of the log."""

    def __init__(self, connection: Connection, lease: IsrLease, swap: Swap, *, unpinned: ReloadTarget | None) -> None:
        self._connection = connection
        self._lease = lease
        self.swap = swap
        self._unpinned = unpinned

    def name(self) -> str:
        return f"publish {self._lease.pk}, generation {self.swap.next.generation_id}"

    def transaction(self) -> Transaction:
        """State it with a token and a moment of its own.

        The deletion gives up the lease and is the proof that it was held: DynamoDB
        allows one operation per item, so that there is no separate check.
        """
        held = is_held(self._lease.lease_token, self._connection.second())
        lock = Action(Purpose.LOCK, "Delete", delete(key(self._lease.pk, SK_LOCK), held))
        actions = [self.swap.move_meta(), lock, *self._keep_version(), *self.swap.retire_version()]
        return Transaction(self._connection, [*actions, *self._complete(), *self._tell()])

    def _keep_version(self) -> list[Action]:
        if not self.swap.current:
            return []
        return [Action(Purpose.VERSION, "Put", put(version_item(self._lease.pk, self.swap.next), absent()))]

    def _complete(self) -> list[Action]:
        attempt, entry = self._lease.attempt, self.swap.next
        if attempt is None:
            return []
        end = completed(entry.s3_key, entry.generation_id)
        return [Action(Purpose.REQUEST, "Update", update(key(self._lease.pk, attempt.sk), end, attempt.is_mine()))]

    def _tell(self) -> list[Action]:
        """Tell all nodes of the end of a pin.

        One that has the pinned generation in memory would serve it for as long as the
        pin was to last. SEQ is read for each new request: what was read before a pause
        is out of date after it.
        """
        if self._unpinned is None:
            return []
        seen = read_sequence(self._connection)
        return advance(seen, secrets.token_hex(16), [self._unpinned], self._connection.now())

    def running(self) -> bool:
        return self._lease.running()

    def judge(self, why: Refusal) -> Verdict | Exception:
        """Name the conditions that were false.

        The rows that come back with them settle the common case of a lost reply at
        no cost: META is what this publication made it.
        """
        what = self.name()
        if Purpose.META in why and self._is_ours(why[Purpose.META]):
            return Verdict.LANDED
        moved = "its entry was changed by another writer" if Purpose.META in why else ""
        if Purpose.LOCK in why:
            also = f", and {moved}" if moved else ""
            return LeaseLostError(f"{what}: the lease is lost{whose(why[Purpose.LOCK])}{also}; serve what is there")
        if moved:
            return MovedError(f"{what}: {moved}; read it again")
        if Purpose.REQUEST in why:
            # Whoever took the request over has taken the lease as well, or will:
            # what was rendered for it is not to be published.
            return LeaseLostError(
                f"{what}: the lease is lost: its request was taken over, or is ended; serve what is there"
            )
        if Purpose.VERSION in why:
            return ConditionFailedError(
                f"{what}: there is such a version already: the id of a generation is used once",
                item=why[Purpose.VERSION],
            )
        if Purpose.SUPERSEDED in why:
            self.swap.forget()  # it is gone
        return Verdict.AGAIN

    def preclude(self, cause: Exception, deadline: float) -> Exception:
        """Delete LOCK, if it carries our token, until that is answered.

        From then on no request of ours can land: each demands the token. If we
        crash before that, the lease expires.
        """
        given_back = drop(self._connection, self._lease, deadline)
        self._lease.end(lost=not given_back)
        return cause if given_back else LeaseLostError(f"{self.name()}: the lease is lost; before that: {cause}")

    def landed(self, sent: list[Transaction], deadline: float) -> bool:
        """Look for our generation on META."""
        meta = self._connection.read_row(self._lease.pk, SK_META, deadline)
        if self._is_ours(meta):
            return True
        version = version_of(meta)
        if meta is None or (version is not None and version <= self.swap.next.v):
            return False  # unchanged, or another writer took our number
        if self.swap.current:
            # The version row is ours, and written with META.
            return self._connection.read_row(self._lease.pk, self.swap.current, deadline) is not None
        return any(self._repeat(transaction, deadline) for transaction in sent)

    def _repeat(self, transaction: Transaction, deadline: float) -> bool:
        """Ask again whether a request was carried out, where somebody wrote META since: after us, or instead of us.

        DynamoDB remembers what it did under our tokens, and repeating a request
        cannot do harm now: it is answered from memory, or fails its conditions.
        """
        return condition_held(lambda: self._connection.retry.until(deadline, transaction.send))

    def _is_ours(self, meta: Item | None) -> bool:
        return text(child(meta, "isr"), "generation_id") == self.swap.next.generation_id
