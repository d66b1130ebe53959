"""The freshness rule. Pure functions."""

from __future__ import annotations

import math

from theorydb_py._times import MAX_EPOCH
from theorydb_py.isr._entry import Entry, PurgeState, State
from theorydb_py.isr._numbers import MAX_INTERVAL, clamp

_CLOCK_TOLERANCE = 120
"""How many seconds ahead generated_at may lie before the writer's clock counts as wrong."""
_PURGE_TOLERANCE = 60
"""Clock skew granted, in seconds, between a purge and an entry without a sequence."""
_MARK_MARGIN = 24 * 3600
"""Subtracted from the lifetime of purge marks: an entry that may outlive a mark covering it is not trusted."""


def freshness(entry: Entry | None, purges: PurgeState, now: float) -> State:
    """Return the state of an entry at a time in epoch seconds, given the purges that cover it."""
    if entry is None or entry.withdrawn:
        return State.MISSING
    if _covered(entry, purges.hard_seq, purges.at):
        return State.PURGED
    if outlives_marks(entry, purges.mark_lifetime, now):
        return State.EXPIRED
    old_build = not entry.foreign and _built_at(entry) < purges.build
    in_window = now < fresh_until(entry) and entry.generated_at_ms / 1000 - now <= _CLOCK_TOLERANCE and not old_build
    pinned = entry.pinned_until is not None and entry.pinned_until > now
    covered = _covered(entry, purges.seq, purges.at)
    if not covered and (in_window or pinned):
        return State.FRESH
    if (covered or old_build) and clamp(entry.stale_seconds, MAX_INTERVAL) == 0:
        return State.EXPIRED  # what ends the window early does not grant a stale window
    return State.STALE if now < stale_until(entry) else State.EXPIRED


def outlives_marks(entry: Entry, mark_lifetime: int, now: float) -> bool:
    """Return whether marks that cover the entry may have expired by now. A mark_lifetime of 0: there are no marks."""
    asserted = entry.generated_at_ms / 1000 if entry.asserted_at is None else entry.asserted_at
    return mark_lifetime > 0 and now >= asserted + mark_lifetime - _MARK_MARGIN


def serves_failures(entry: Entry, purges: PurgeState, now: float) -> bool:
    """Return whether the entry may be served, marked as stale, when rendering fails (stale-if-error), at any age.

    This holds for an entry that was pinned and whose windows ended during the pin, when
    nothing regenerated it. A publish ends it. An entry that a hard purge covers, or
    that may outlive such a purge's mark, is never served.
    """
    purged = _covered(entry, purges.hard_seq, purges.at) or outlives_marks(entry, purges.mark_lifetime, now)
    return entry.pinned_until is not None and not purged and not entry.withdrawn


def fresh_until(entry: Entry) -> float:
    """Return the end of the freshness window, in epoch seconds, exact to the millisecond."""
    return _after(entry, clamp(entry.revalidate_seconds, MAX_INTERVAL))


def stale_until(entry: Entry) -> float:
    """Return the end of the stale window, in epoch seconds, exact to the millisecond."""
    return _after(entry, clamp(entry.revalidate_seconds, MAX_INTERVAL) + clamp(entry.stale_seconds, MAX_INTERVAL))


def _after(entry: Entry, seconds: int) -> float:
    """Return the time that many seconds after rendering began, rounded once, so that equal times compare equal."""
    return (entry.generated_at_ms + seconds * 1000) / 1000


def age(entry: Entry, now: float) -> int:
    """Return the whole seconds since the origin generated the response, never negative."""
    elapsed = round(now - entry.generated_at_ms / 1000, 6)  # floats of times are exact to a microsecond
    return max(0, math.floor(elapsed)) + entry.age_seconds


def _covered(entry: Entry, seq: int, at: int) -> bool:
    """Return whether a purge is newer than the content. Without a sequence, times decide, in favour of the purge."""
    if seq == 0:
        return False
    if entry.foreign:
        return entry.generated_at <= at + _PURGE_TOLERANCE
    return seq > entry.purge_seq


def _built_at(entry: Entry) -> int:
    """Return the sequence of the newest build that the entry counts as being of.

    A rollback makes its generation one of the build that was current then: otherwise
    the next process that reads it would regenerate it at once.
    """
    return entry.build if entry.asserted_at is None else max(entry.build, entry.purge_seq)


def expiry(entry: Entry, now: float, retention_seconds: int) -> int | None:
    """Return the ttl of an entry: a day after its last possible use; None if it is pinned without an end."""
    pinned = entry.pinned_until or 0
    if pinned >= MAX_EPOCH:
        return None
    needed = max(now + retention_seconds, stale_until(entry), pinned)
    return clamp(math.floor(needed) + 24 * 3600, MAX_EPOCH)
