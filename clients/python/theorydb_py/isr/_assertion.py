"""Selects the target of a rollback and computes the assertions of rollbacks and pins."""

from __future__ import annotations

import math
from collections.abc import Sequence as Several
from dataclasses import replace

from theorydb_py.errors import InvalidInputError, NoVersionError
from theorydb_py.isr._entry import FOREVER, Assertion, Entry
from theorydb_py.isr._freshness import expiry
from theorydb_py.isr._numbers import check_interval


def rollback_target(kept: Several[Entry], current: Entry | None, to: str | None) -> Entry:
    """Return the generation with an id; None: the one published last before the current entry.

    Raises NoVersionError if there is none.
    """
    if to is None:
        return _previous(kept, current)
    for entry in (current, *kept):
        if entry is not None and not entry.foreign and entry.generation_id == to:
            return entry
    raise NoVersionError(f"version {to[:60]!r} is not kept; versions() lists those that are")


def _previous(kept: Several[Entry], current: Entry | None) -> Entry:
    # The fences give the order of publishes. A rollback gives the entry a new one.
    order = sorted(kept, key=lambda entry: (entry.v, entry.generation_id), reverse=True)
    if current is not None and not current.foreign:
        ids = [entry.generation_id for entry in order]
        if current.generation_id in ids:
            order = order[ids.index(current.generation_id) + 1 :]
        else:
            order = [entry for entry in order if entry.v < current.v]
    if not order:
        raise NoVersionError("no version from before the current generation is kept; versions() lists those that are")
    return order[0]


def pin_assertion(entry: Entry | None, seconds: float | None, now: float, retention: int | None) -> Assertion:
    """Return the assertion that pins an entry for so many seconds from now; None: without an end.

    With a retention, the superseded version is kept as long as a page is; without one,
    rows get no ttl.
    """
    until = FOREVER
    if seconds is not None:
        if check_interval("pin_seconds", seconds) < 1:
            raise InvalidInputError(f"pin_seconds is {seconds!r}: expected 1 or more, or None for a pin without an end")
        until = min(math.ceil(now + seconds), FOREVER)
    return _asserted(entry, until, now, retention)


def unpin_assertion(entry: Entry | None, now: float, retention: int | None) -> Assertion:
    """Return the assertion that unpins an entry."""
    return _asserted(entry, None, now, retention)


def _asserted(entry: Entry | None, until: int | None, now: float, retention: int | None) -> Assertion:
    if retention is None:
        return Assertion(asserted_at=math.floor(now), pinned_until=until)
    ttl = None if entry is None else expiry(replace(entry, pinned_until=until), now, retention)
    superseded = min(math.floor(now) + retention, FOREVER)
    return Assertion(asserted_at=math.floor(now), pinned_until=until, ttl=ttl, superseded_at=superseded)
