"""The update of META, and of the versions it names, that every change makes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from theorydb_py.isr._entry import Entry
from theorydb_py.isr._expression import delete, exists, update
from theorydb_py.isr._fence import Fence
from theorydb_py.isr._metarow import meta_changes
from theorydb_py.isr._names import SK_META, VERSION_PREFIX
from theorydb_py.isr._normalize import normalize_entry, whole_seconds
from theorydb_py.isr._row import key, number, text
from theorydb_py.isr._transaction import Action, Purpose

_MAX_SUPERSEDED = 30 * 24 * 3600
"""How long a superseded version is kept at most by default, in seconds."""


@dataclass
class Swap:
    """The replacement of the entry that was read by another one."""

    fence: Fence
    next: Entry
    current: str
    """The sort key of the version that META will name; empty for none."""
    superseded: str
    """The sort key of the version that META names now; empty for none, or if it stays."""
    superseded_at: int
    """The ttl of the superseded version, in epoch seconds."""
    replaced: bool = False
    """The new version replaces the superseded one, which is deleted now."""

    @staticmethod
    def of(fence: Fence, entry: Entry, now: float, *, kept: bool, superseded_at: float | None) -> Swap:
        """Prepare a replacement. kept: the entry has a version row. Raises InvalidInputError for an invalid entry."""
        next_entry = replace(normalize_entry(entry), v=fence.next_version(now))
        current = VERSION_PREFIX + next_entry.generation_id if kept else ""
        named = text(fence.meta, "current_sk")
        superseded = named if named.startswith(VERSION_PREFIX) and named != current else ""
        return Swap(fence, next_entry, current, superseded, superseded_ttl(now, superseded_at, next_entry.ttl))

    def update_meta(self) -> Action:
        """Update META, on condition that it is what was read."""
        changes = meta_changes(self.next, self.current)
        return self._update(Purpose.META, SK_META, changes, self.fence.is_unchanged())

    def expire_superseded(self) -> list[Action]:
        """Set the ttl of the superseded version, or delete it if it is replaced; nothing if there is none."""
        if not self.superseded:
            return []
        if self.replaced:
            row = key(self.fence.pk, self.superseded)
            return [Action(Purpose.SUPERSEDED, "Delete", delete(row, exists()))]
        return [self._update(Purpose.SUPERSEDED, self.superseded, {"ttl": number(self.superseded_at)}, exists())]

    def skip_superseded(self) -> None:
        """Drop the superseded version from the change: it is gone, and versions never come back."""
        self.superseded = ""

    def _update(self, purpose: Purpose, sk: str, changes: Any, condition: Any) -> Action:
        return Action(purpose, "Update", update(key(self.fence.pk, sk), changes, condition))


def superseded_ttl(now: float, requested: float | None, ttl: int | None) -> int:
    """Return the ttl of a superseded version, in epoch seconds."""
    at = whole_seconds("superseded_at", requested)
    if at is not None:
        return at
    longest = math.floor(now) + _MAX_SUPERSEDED
    return longest if ttl is None else min(longest, ttl)
