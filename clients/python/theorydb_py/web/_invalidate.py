"""Purging the pages that unsafe requests have changed (RFC 9111, section 4.4).

Anyone may send such requests, as often as they like, so their effect on other visitors
is limited, as ``isr serve`` does:

    request ──► page ─ was purged within a multiple of its render time, by any process: wait
                 └─ read the record: an entry, or a lease? ──► purge

Requests that wait are merged: one purge, after the last of them, is for all.
"""

from __future__ import annotations

import atexit
import heapq
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from theorydb_py.isr import FaceTheoryIsrMetaStore, PurgeTarget, Record, State, freshness
from theorydb_py.web._workers import Workers

_EVERY_RENDERS = 16
"""A page is purged once in so many times its render time, so that it is stored most of the time."""
_MIN_EVERY = 1.0
_MAX_EVERY = 60.0
_MAX_PAGES = 4096
"""How many pages wait for a purge, at most, and how many purged ones are remembered."""
_THREADS = 2
_MAX_WAITING = 256
_MAX_RETRIES = 5
_RETRY_SECONDS = 2.0

_logger = logging.getLogger("theorydb_py.web")


@dataclass
class _Work:
    """The work of one page, which ends when no request waits for a purge of it."""

    changed: bool = True
    """A request has arrived that no purge covers yet."""
    failures: int = 0


class Invalidations:
    """The purges of this process that unsafe requests have caused. Safe for concurrent use."""

    def __init__(self, store: FaceTheoryIsrMetaStore, drop: Callable[[str], None], follow: Callable[[], None]) -> None:
        """``drop`` removes a page from the memory of this process, and ``follow`` reads the log to its end."""
        self._store = store
        self._drop = drop
        self._follow = follow
        self._workers = Workers("isr-purge", _THREADS, _MAX_WAITING)
        self._changed = threading.Condition()
        self._work: dict[str, _Work] = {}  # guarded by _changed, like all below
        self._intervals: OrderedDict[str, tuple[float, int]] = OrderedDict()  # their ends, and own sequences
        self._due: list[tuple[float, str]] = []  # a heap, on the monotonic clock
        self._scheduler: threading.Thread | None = None
        self._closed = False

    def add(self, keys: Iterable[str]) -> list[Future[Any]]:
        """Purge pages that a request has changed. Return the futures of purges that are made at once."""
        futures = []
        for key in keys:
            self._drop(key)  # however long the table takes
            with self._changed:
                known = self._work.get(key)
                if known is not None:
                    known.changed = True
                elif len(self._work) >= _MAX_PAGES:
                    _logger.warning("%s, which an unsafe request has changed, is not purged: too many wait", key)
                else:
                    self._work[key] = _Work()
                    futures += self._begin(key)
        return futures

    def close(self) -> None:
        """Make the purges that wait."""
        atexit.unregister(self.close)
        with self._changed:
            self._closed = True
            waiting = [key for _, key in self._due]
            self._due.clear()
            self._changed.notify()
        for key in waiting:
            self._run(key)

    def _begin(self, key: str) -> list[Future[Any]]:
        """Purge a page when its interval has ended. Callers must hold _changed."""
        due = self._intervals.get(key, (0.0, 0))[0]
        if due <= time.monotonic() or self._closed:
            begun = self._workers.submit(lambda: self._run(key))
            if begun is not None:
                return [begun]
            due = time.monotonic() + _MIN_EVERY
        heapq.heappush(self._due, (due, key))
        if self._scheduler is None:
            atexit.register(self.close)
            self._scheduler = threading.Thread(target=self._schedule, name="isr-purge-later", daemon=True)
            self._scheduler.start()
        self._changed.notify()
        return []

    def _schedule(self) -> None:
        with self._changed:
            while not self._closed:
                wait = self._due[0][0] - time.monotonic() if self._due else None
                if wait is None or wait > 0:
                    self._changed.wait(wait)
                else:
                    self._begin(heapq.heappop(self._due)[1])

    def _run(self, key: str) -> None:
        """Purge a page. If requests have arrived since, or it must wait, it is purged again when its interval ends."""
        with self._changed:
            work = self._work[key]
            work.changed = False
        try:
            made = self._purge(key)
            work.failures = 0
        except Exception as error:
            made, work.failures = False, work.failures + 1
            _logger.warning("the purge of %s after an unsafe request failed: %s", key, error)
            if work.failures > _MAX_RETRIES or self._closed:
                made = True  # other processes serve it until it expires
            else:
                self._wait(key, time.monotonic() + _RETRY_SECONDS)
        with self._changed:
            if made and not work.changed:
                del self._work[key]
            else:
                self._begin(key)

    def _purge(self, key: str) -> bool:
        """Purge what is stored of a page; return whether that was made, or there was nothing to purge."""
        began = time.monotonic()
        record = self._store.read(key)
        if not _may_be_served(record, time.time()):
            return True
        took = record.entry.render_ms / 1000 if record.entry else 0.0
        every = min(max(_EVERY_RENDERS * took, _MIN_EVERY), _MAX_EVERY)
        with self._changed:
            own = self._intervals.get(key, (0.0, 0))[1]
        # Another process, whose clock may be ahead, may have purged the page.
        left = 0.0 if record.purges.seq == own else min(record.purges.at + every - time.time(), every)
        if left > 0 and not self._closed:
            self._wait(key, began + left)
            return False
        receipt = self._store.purge([PurgeTarget(kind="key", value=key)], hard=True)
        self._wait(key, began + every, receipt.seq)
        self._follow()
        self._drop(key)
        return True

    def _wait(self, key: str, until: float, seq: int | None = None) -> None:
        with self._changed:
            own = self._intervals.pop(key, (0.0, 0))[1]
            self._intervals[key] = (until, own if seq is None else seq)
            if len(self._intervals) > _MAX_PAGES:
                self._intervals.popitem(last=False)


def _may_be_served(record: Record, now: float) -> bool:
    """Return whether a page has a generation that may be served, or a render of it has begun.

    A pinned page stays as it is: only an operator ends a pin.
    """
    entry, lock = record.entry, record.lock
    state = freshness(entry, record.purges, now)
    if entry is not None and state == State.FRESH and (entry.pinned_until or 0) > now:
        return False
    if state not in (State.MISSING, State.PURGED):
        return True
    return lock is not None and not lock.is_back_off
