"""Rollbacks and pins: they assert which generation is current, and every node learns of it by the log."""

from __future__ import annotations

import math
from dataclasses import replace

from theorydb_py.errors import MovedError, NoVersionError, PurgedError
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._entry import Assertion, Entry, PurgeState, Record, ReloadTarget
from theorydb_py.isr._expression import all_of, compare, exists, update
from theorydb_py.isr._fence import Fence
from theorydb_py.isr._freshness import outlives_marks
from theorydb_py.isr._groupcommit import GroupCommit
from theorydb_py.isr._mark import combined, covering
from theorydb_py.isr._metarow import version_entry
from theorydb_py.isr._names import VERSION_PREFIX
from theorydb_py.isr._pages import read_purge_state, read_recent, read_sequence
from theorydb_py.isr._row import key, string, text
from theorydb_py.isr._swap import Swap
from theorydb_py.isr._transaction import Action, Purpose, Refusal

_MAX_ID = 1000


def rollback(
    connection: Connection, log: GroupCommit, record: Record, to: str, page: ReloadTarget, assertion: Assertion
) -> Entry:
    """Make a version current, atomically, if the entry still is what was read.

    It needs no lease: the fence refuses a concurrent regeneration. A generation that is
    current already is pinned. Raises MovedError, NoVersionError, PurgedError,
    UnknownOutcomeError, and the errors of GroupCommit.
    """
    entry = record.entry
    if entry is not None and not entry.foreign and entry.generation_id == to:
        return pin(connection, log, record, page, assertion)
    fence = record.fence
    # The order matters: a hard purge that was not yet made when PURGE and the marks are
    # read below has a higher sequence than this one, and so covers the restored entry,
    # however often SEQ moves before the commit. One that is being committed is waited for,
    # or found in the log.
    sequence = read_sequence(connection).sequence
    purges = read_purge_state(connection, fence.pk)
    version = _find_version(connection, fence.pk, to)
    _check_withdrawn(fence.pk, version)
    if outlives_marks(version, sequence.mark_lifetime, connection.now()):
        raise PurgedError(
            f"generation {to} of {fence.pk} is too old: purges by tag are kept for {sequence.mark_lifetime} s, "
            "and one that covered it may have expired"
        )
    logged = [mark for change in read_recent(connection, sequence.seq) for mark in change.marks]
    recent = combined(connection, logged, page, version.tags)
    _check_purged(connection, fence.pk, version, record.purges.merge(purges).merge(recent), page)
    next_entry = replace(
        version,
        purge_seq=sequence.seq,
        asserted_at=assertion.asserted_at,
        pinned_until=assertion.pinned_until,
        ttl=assertion.ttl,
    )
    swap = _swap(connection, fence, next_entry, kept=True, assertion=assertion)
    log.commit(_RollbackOrPin(swap, page, restored=version))
    return swap.next


def pin(connection: Connection, log: GroupCommit, record: Record, page: ReloadTarget, assertion: Assertion) -> Entry:
    """Change or end the pin of the current entry, atomically. A purged entry stays purged. Raises as rollback does.

    An assertion without pinned_until unpins. It is appended to the log even if the
    entry is not pinned: a node that holds an older copy drops it.
    """
    fence, entry = record.fence, record.entry
    if entry is None:
        raise NoVersionError(f"pin {fence.pk}: the page has no entry: publish one first")
    if entry.foreign:
        raise NoVersionError(f"pin {fence.pk}: the entry was written by another service: regenerate the page first")
    _check_withdrawn(fence.pk, entry)
    until = assertion.pinned_until
    if until is None:
        until = unpinned(entry, connection.now())
    else:
        _check_purged(connection, fence.pk, entry, record.purges, page)
    next_entry = replace(entry, pinned_until=until, ttl=assertion.ttl)
    kept = text(fence.meta, "current_sk") == VERSION_PREFIX + entry.generation_id
    swap = _swap(connection, fence, next_entry, kept=kept, assertion=assertion)
    log.commit(_RollbackOrPin(swap, page, restored=None))
    return swap.next


def unpinned(entry: Entry, now: float) -> int | None:
    """Return pinned_until of an unpinned entry: now, unless the pin ended before; None if it was never pinned.

    It stays on META, so that readers recognize an entry that outlived its windows
    because of a pin: it may be served when rendering fails.
    """
    return None if entry.pinned_until is None else min(entry.pinned_until, math.floor(now))


def _swap(connection: Connection, fence: Fence, entry: Entry, *, kept: bool, assertion: Assertion) -> Swap:
    return Swap.of(fence, entry, connection.now(), kept=kept, superseded_at=assertion.superseded_at)


def _find_version(connection: Connection, pk: str, to: str) -> Entry:
    """Read the version row of a generation, strongly consistently.

    Raises NoVersionError, also for an id that is no valid sort key.
    """
    missing = NoVersionError(
        f"roll back {pk} to {to[:60]!r}: this version is not kept; versions() lists those that are"
    )
    if not 1 <= len(to.encode("utf-8", "replace")) <= _MAX_ID:
        raise missing
    found = connection.read_row(pk, VERSION_PREFIX + to)
    entry = None if found is None else version_entry(found)
    if entry is None:
        raise missing
    return entry


def _check_withdrawn(pk: str, entry: Entry) -> None:
    """Refuse an entry that the origin has withdrawn."""
    if entry.withdrawn:
        raise NoVersionError(
            f"{pk}: the origin withdrew this generation: roll back to an older one, or regenerate the page"
        )


def _check_purged(connection: Connection, pk: str, entry: Entry, purges: PurgeState, page: ReloadTarget) -> None:
    """Refuse a generation that a hard purge of the page or a mark covers."""
    hard_seq = max(purges.hard_seq, covering(connection, page, entry.tags).hard_seq)
    if hard_seq > entry.purge_seq:
        raise PurgedError(
            f"generation {entry.generation_id} of {pk} must not be served again: it was rendered at sequence "
            f"{entry.purge_seq} and purged at {hard_seq}"
        )


class _RollbackOrPin:
    """A rollback or a pin; implements logcommit.LogChange. restored is the target version, None for a pin."""

    purges = ()
    confirm = False
    mark_lifetime = 0

    def __init__(self, swap: Swap, page: ReloadTarget, *, restored: Entry | None) -> None:
        self.swap = swap
        self.reload = (page,)
        self._restored = restored

    @property
    def pk(self) -> str:
        return self.swap.fence.pk

    def name(self) -> str:
        return f"roll back or pin {self.pk}, generation {self.swap.next.generation_id}"

    def actions(self, _seq: int) -> list[Action]:
        return [self.swap.update_meta(), *self._restore(), *self.swap.expire_superseded()]

    def _restore(self) -> list[Action]:
        """Remove the ttl of the restored version, which must still exist: META must not point to a missing row."""
        if self._restored is None:
            return []
        there = all_of(exists(), compare("s3_key", "=", string(self._restored.s3_key)))
        row = key(self.pk, self.swap.current)
        return [Action(Purpose.RESTORED, "Update", update(row, {"ttl": None}, there))]

    def classify(self, why: Refusal) -> Exception | None:
        if Purpose.META in why:
            return MovedError(f"{self.name()}: the entry was changed by another writer; read it again")
        if Purpose.RESTORED in why:
            return NoVersionError(f"{self.name()}: the version is no longer kept; versions() lists those that are")
        if Purpose.SUPERSEDED in why:
            self.swap.skip_superseded()
        return None
