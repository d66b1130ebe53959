"""The memory tier: pages of this process, and the changes of the log that they must follow."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import replace
from threading import Lock
from typing import NamedTuple

from theorydb_py.isr import Change, Mark, PurgeState
from theorydb_py.web._pages import Page

_RECENT_SECONDS = 10
"""For how long a transaction may be seen in part (spec/schema.md)."""
_MAX_RECENT = 10_000
"""How many targets of recent changes are remembered. If there are more, anything may have changed."""


class Position(NamedTuple):
    """What of the log had been applied at a moment. taken_at is monotonic."""

    flushes: int
    applied: int
    taken_at: float


class Memory:
    """Pages by key, the least recently used are evicted. Bounded in bytes. Safe for concurrent use.

    A page that was read before a change of the log was applied, and is added after it,
    must not hide the change. So each page is compared with the changes of the last ten
    seconds when it is added:

        position ─► read the page ─► … ─► hold: was a change applied since that concerns it?

    If a change that may concern it is not remembered any more, the page is not added.
    """

    def __init__(self, max_bytes: int) -> None:
        """Create a tier for so many bytes. An eighth of them in addition is for pages that are not stored."""
        self._lock = Lock()
        self._stored = _Tier(max_bytes)  # guarded by _lock, like all below
        self._unshared = _Tier(max_bytes // 8)
        self._recent: deque[tuple[float, Change]] = deque()
        self._remembered = 0  # the targets of _recent
        self._forgotten_at = float("-inf")  # when the newest change that is not remembered was applied
        self._flushes = 0
        self._applied = 0

    def get(self, key: str) -> tuple[Page | None, Page | None]:
        """Return the stored page in memory, and the one that only this process has."""
        with self._lock:
            return self._stored.get(key), self._unshared.get(key)

    def position(self) -> Position:
        """Return a position to pass to hold, taken before the page is read or rendered."""
        with self._lock:
            return Position(self._flushes, self._applied, time.monotonic())

    def merged(self, page: Page) -> Page:
        """Return the page with the marks of recent changes that cover it: they may be invisible to the read."""
        with self._lock:
            return self._merged(page)

    def hold(self, page: Page, position: Position) -> None:
        """Add a page, unless changes since the position may concern it in a way that it does not show."""
        with self._lock:
            if position.flushes != self._flushes or self._may_have_changed(position):
                return
            newer = [change for change in self._news() if change.seq > page.entry.purge_seq]
            merged = self._merged(page)
            if any(_reloads(change, page.key) for change in newer):
                self._stored.drop(page.key)
            elif not page.unshared:
                self._unshared.drop(page.key)
                self._stored.put(merged)
            elif merged.purges == page.purges:
                self._unshared.put(page)

    def apply(self, changes: Iterable[Change]) -> None:
        """Drop the pages that changes of the log concern. They are read again when they are needed."""
        now = time.monotonic()
        with self._lock:
            for change in changes:
                self._applied += 1
                self._remember(now, change)
                for target in change.reload:
                    if target.tenant == "":
                        self._stored.drop(target.key)
                        self._unshared.drop(target.key)
                if change.marks:
                    self._stored.drop_covered(change.marks)
                    self._unshared.drop_covered(change.marks)

    def drop(self, key: str) -> None:
        """Drop a page."""
        with self._lock:
            self._stored.drop(key)
            self._unshared.drop(key)

    def flush(self, recent: Iterable[Change]) -> None:
        """Drop all pages, also those that are being read, and note the newest changes."""
        now = time.monotonic()
        with self._lock:
            self._stored.clear()
            self._unshared.clear()
            self._flushes += 1
            for change in recent:
                self._remember(now, change)

    def _may_have_changed(self, position: Position) -> bool:
        """Return whether a change that is not remembered may concern what was read since a position.

        A read within _RECENT_SECONDS after a change may miss it as well.
        """
        late = time.monotonic() - position.taken_at > _RECENT_SECONDS and position.applied != self._applied
        return late or position.taken_at <= self._forgotten_at + _RECENT_SECONDS

    def _remember(self, now: float, change: Change) -> None:
        """Note a change, at the expense of the oldest ones. A malformed one may concern anything."""
        if change.malformed:
            self._forgotten_at = now
            return
        self._recent.append((now, change))
        self._remembered += _size(change)
        while self._remembered > _MAX_RECENT:
            self._forgotten_at = max(self._forgotten_at, self._forget_oldest())

    def _forget_oldest(self) -> float:
        """Forget the oldest change, and return when it was applied."""
        at, change = self._recent.popleft()
        self._remembered -= _size(change)
        return at

    def _news(self) -> list[Change]:
        horizon = time.monotonic() - _RECENT_SECONDS
        while self._recent and self._recent[0][0] < horizon:
            self._forget_oldest()
        return [change for _, change in self._recent]

    def _merged(self, page: Page) -> Page:
        purges = page.purges
        for change in self._news():
            for mark in change.marks:
                if _covers(mark, page):
                    hard = max(mark.hard_seq, mark.expire_seq if 0 < mark.expire_at <= time.time() else 0)
                    purges = purges.merge(PurgeState(seq=mark.seq, hard_seq=hard, at=mark.at))
        return page if purges == page.purges else replace(page, purges=purges)


class _Tier:
    """Pages by key up to a number of bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._bytes = 0
        self._pages: OrderedDict[str, Page] = OrderedDict()

    def get(self, key: str) -> Page | None:
        page = self._pages.get(key)
        if page is not None:
            self._pages.move_to_end(key)
        return page

    def put(self, page: Page) -> None:
        self.drop(page.key)
        self._pages[page.key] = page
        self._bytes += page.size
        while self._bytes > self._max:
            self._bytes -= self._pages.popitem(last=False)[1].size

    def drop(self, key: str) -> None:
        page = self._pages.pop(key, None)
        if page is not None:
            self._bytes -= page.size

    def drop_covered(self, marks: tuple[Mark, ...]) -> None:
        covered = [page for page in self._pages.values() if any(_covers(mark, page) for mark in marks)]
        for page in covered:
            self.drop(page.key)

    def clear(self) -> None:
        self._pages.clear()
        self._bytes = 0


def _size(change: Change) -> int:
    """Return how many targets a change has, and one for itself."""
    return 1 + len(change.reload) + len(change.marks)


def _reloads(change: Change, key: str) -> bool:
    return any(target.key == key and target.tenant == "" for target in change.reload)


def _covers(mark: Mark, page: Page) -> bool:
    """Return whether a mark covers a page, as readers of all languages decide (spec/schema.md)."""
    if mark.kind == "site" and mark.tenant == "":
        return True
    if mark.tenant != "":
        return False
    match mark.kind:
        case "tag":
            return mark.value in page.entry.tags
        case "prefix":
            return page.key.startswith(mark.value)
    return True
