"""Rollbacks and pins: somebody's word that a generation is to be current, which all nodes learn of by the log."""

from __future__ import annotations

import secrets
from dataclasses import replace

from theorydb_py.errors import MovedError, NoVersionError, PurgedError, UnknownOutcomeError
from theorydb_py.isr.connection import Connection
from theorydb_py.isr.entry import Assertion, Cover, Entry, Record, ReloadTarget
from theorydb_py.isr.expressions import absent, all_of, compare, exists, put, update
from theorydb_py.isr.fence import Fence, version_of
from theorydb_py.isr.items import PK_LOG, SK_SEQUENCE, VERSION_PREFIX, key, number, string, text
from theorydb_py.isr.logrow import log_key, new_log
from theorydb_py.isr.metarow import version_entry
from theorydb_py.isr.pages import read_cover, read_sequence
from theorydb_py.isr.settle import Verdict, carry_out
from theorydb_py.isr.swap import Swap
from theorydb_py.isr.transaction import Action, Purpose, Refusal, Transaction
from theorydb_py.outcome import condition_held
from theorydb_py.values import Attribute

_LONGEST_ID = 1000


def rollback(connection: Connection, record: Record, to: str, page: ReloadTarget, assertion: Assertion) -> Entry:
    """Make a kept generation current, in one step, if the entry is still exactly what was read.

    It needs no lease: whoever regenerates the page meanwhile loses on the fence. A
    generation that is current already is pinned. Errors: MovedError,
    NoVersionError, PurgedError, UnknownOutcomeError.
    """
    entry = record.entry
    if entry is not None and not entry.foreign and entry.generation_id == to:
        return pin(connection, record, page, assertion)
    fence = record.fence
    # In this order: a hard purge of the page that is not on PURGE when it is read
    # here has a higher sequence than this one, and so covers what the rollback
    # makes. Other purges, by tag or site, are those that the caller knew.
    sequence, stored = read_sequence(connection)
    cover = read_cover(connection, fence.pk)
    version = _find_version(connection, fence.pk, to)
    _check_purged(fence.pk, version, record.cover.merge(cover))
    following = replace(
        version,
        purge_seq=sequence.seq,
        asserted_at=assertion.asserted_at,
        pinned_until=assertion.pinned_until,
        ttl=assertion.ttl,
    )
    swap = _swap(connection, fence, following, kept=True, assertion=assertion)
    return _carry_out(_Reassertion(connection, swap, page, sequence.seq, stored, restored=version))


def pin(connection: Connection, record: Record, page: ReloadTarget, assertion: Assertion) -> Entry:
    """Change how long the current entry is pinned, in one step. What was purged stays so. Errors: as of rollback."""
    fence, entry = record.fence, record.entry
    if entry is None:
        raise NoVersionError(f"pin {fence.pk}: the page has no entry: publish one")
    if entry.foreign:
        raise NoVersionError(f"pin {fence.pk}: the entry was written by another service: regenerate the page first")
    if assertion.pinned_until is not None:
        _check_purged(fence.pk, entry, record.cover)
    sequence, stored = read_sequence(connection)
    following = replace(entry, pinned_until=assertion.pinned_until, ttl=assertion.ttl)
    kept = text(fence.meta, "current_sk") == VERSION_PREFIX + entry.generation_id
    swap = _swap(connection, fence, following, kept=kept, assertion=assertion)
    return _carry_out(_Reassertion(connection, swap, page, sequence.seq, stored, restored=None))


def _swap(connection: Connection, fence: Fence, entry: Entry, *, kept: bool, assertion: Assertion) -> Swap:
    return Swap.of(fence, entry, connection.now(), kept=kept, superseded_at=assertion.superseded_at)


def _carry_out(reassertion: _Reassertion) -> Entry:
    carry_out(reassertion.connection, reassertion)
    return reassertion.swap.next


def _find_version(connection: Connection, pk: str, to: str) -> Entry:
    """Read the version row of a generation, strongly. A text that no sort key can have names no version."""
    missing = NoVersionError(f"roll back {pk} to {to[:60]!r}: no such version is kept; versions() lists them")
    if not 1 <= len(to.encode("utf-8", "replace")) <= _LONGEST_ID:
        raise missing
    found = connection.read_row(pk, VERSION_PREFIX + to)
    entry = None if found is None else version_entry(found)
    if entry is None:
        raise missing
    return entry


def _check_purged(pk: str, entry: Entry, cover: Cover) -> None:
    if cover.hard_seq > entry.purge_seq:
        raise PurgedError(
            f"generation {entry.generation_id} of {pk} may never be served again: it was rendered at sequence "
            f"{entry.purge_seq}, and purged at {cover.hard_seq}"
        )


class _Reassertion:
    """A rollback or a pin; a settle.Change. restored is the version that returns, None for a pin."""

    def __init__(
        self,
        connection: Connection,
        swap: Swap,
        page: ReloadTarget,
        seen: int,
        stored: Attribute | None,
        *,
        restored: Entry | None,
    ) -> None:
        self.connection = connection
        self.swap = swap
        self._page = page
        self._seen, self._stored = seen, stored  # from which the next request advances
        self._asked = (seen, stored)  # from which the latest one does
        self._restored = restored
        self._id = secrets.token_hex(16)  # in the log
        self._until = connection.settling()

    def name(self) -> str:
        return f"roll back or pin {self.swap.fence.pk}, generation {self.swap.next.generation_id}"

    def transaction(self) -> Transaction:
        self._asked = (self._seen, self._stored)
        actions = [self.swap.move_meta(), *self._restore(), *self.swap.retire_version()]
        return Transaction(self.connection, actions + self._advance(self._id, [self._page]))

    def _restore(self) -> list[Action]:
        """Keep the version that returns from being collected.

        On condition that it has not been: META must not point at what may be gone.
        """
        if self._restored is None:
            return []
        there = all_of(exists(), compare("s3_key", "=", string(self._restored.s3_key)))
        row = key(self.swap.fence.pk, self.swap.current)
        return [Action(Purpose.RESTORED, "Update", update(row, {"ttl": None}, there))]

    def _advance(self, change_id: str, reload: list[ReloadTarget]) -> list[Action]:
        """State that the sequence after the one that was asked from is this change's, and what it is about."""
        seen, stored = self._asked
        unchanged = absent() if stored is None else compare("seq", "=", stored)
        row = update(key(PK_LOG, SK_SEQUENCE), {"seq": number(seen + 1)}, unchanged)
        log = new_log(seen + 1, change_id, reload, self.connection.now())
        # No condition on the log: whoever advances the sequence to it owns the row.
        return [Action(Purpose.SEQUENCE, "Update", row), Action(Purpose.LOG, "Put", put(log))]

    def running(self) -> bool:
        return self.connection.monotonic() < self._until

    def judge(self, why: Refusal) -> Verdict | Exception:
        if Purpose.META in why:
            return self._judge_moved(version_of(why[Purpose.META]))
        if Purpose.RESTORED in why:
            return NoVersionError(f"{self.name()}: the version is not kept any more; versions() lists those that are")
        if Purpose.SUPERSEDED in why:
            self.swap.forget()
        if Purpose.SEQUENCE in why:
            # Somebody else wrote the log. The entry keeps the sequence from before: a
            # purge in between came after the rollback was asked for.
            sequence, self._stored = read_sequence(self.connection)
            self._seen = sequence.seq
        return Verdict.AGAIN

    def _judge_moved(self, version: int | None) -> Verdict | Exception:
        moved = MovedError(f"{self.name()}: the entry was changed by another writer; read it again")
        if version != self.swap.next.v:
            return moved
        # Perhaps by us: DynamoDB had forgotten our token.
        try:
            landed = self.landed([], self.connection.settling())
        except Exception as failure:
            unknown = (
                f"{self.name()}: it may have happened or not, and the log does not tell ({failure}): read the page"
            )
            return UnknownOutcomeError(unknown)
        return Verdict.LANDED if landed else moved

    def preclude(self, cause: Exception, deadline: float) -> Exception:
        """Advance the sequence, with nothing to tell, unless it has moved.

        From then on no request of ours can land, since each demands the sequence
        that was seen.
        """
        void = Transaction(self.connection, self._advance(secrets.token_hex(16), []))
        condition_held(lambda: self.connection.retry.until(deadline, void.send))
        return cause

    def landed(self, sent: list[Transaction], deadline: float) -> bool:  # noqa: ARG002 - the log tells
        """Look for our id in the log, where the latest request would have written it.

        There was another one before it only if those until then had not happened.
        """
        found = self.connection.read_row(PK_LOG, log_key(self._asked[0] + 1), deadline)
        return text(found, "id") == self._id
