"""Follows the log: what other processes purge, roll back and pin is dropped from memory."""

from __future__ import annotations

import logging
import threading
import time

from theorydb_py.isr import Change, FaceTheoryIsrMetaStore
from theorydb_py.web._memory import Memory

_MAX_UNREAD_SECONDS = 1800
"""Half of the time that rows of the log are kept."""
_RETRIES = 4
_RETRY_SECONDS = 0.1

_logger = logging.getLogger("theorydb_py.web")


class Follower:
    """A daemon thread that reads the log every poll_seconds, and earlier when asked. Safe for concurrent use."""

    def __init__(self, store: FaceTheoryIsrMetaStore, memory: Memory, poll_seconds: float) -> None:
        """Create a follower. It reads nothing before start."""
        self._store = store
        self._memory = memory
        self._poll_seconds = poll_seconds
        self._overdue = max(4 * poll_seconds, 2.0)
        self._reading = threading.Lock()
        self._cursor = -1  # guarded by _reading; -1: not known
        self._read_at = time.monotonic()  # when the log was last read to its end
        self._failing = False
        self._wake = threading.Event()
        self._stopped = False
        self._idle = threading.Condition()
        self._begun = 0  # guarded by _idle: reads that have begun
        self._ended = 0  # guarded by _idle: of these, those that have ended

    def start(self) -> None:
        """Begin to follow."""
        threading.Thread(target=self._follow, name="isr-log", daemon=True).start()

    def stop(self) -> None:
        """Stop following, after the present read."""
        self._stopped = True
        self._wake.set()

    def current(self) -> bool:
        """Return whether the log was read recently."""
        return time.monotonic() - self._read_at <= self._overdue

    def frozen(self) -> bool:
        """Return whether the log was not read because the process did not run: wait for a read then."""
        return not self._failing and not self.current()

    def wait(self, timeout: float) -> None:
        """Wait for a read that begins now, at most so many seconds."""
        with self._idle:
            wanted = self._begun + 1  # the read in progress may have seen an older log
            self._wake.set()
            self._idle.wait_for(lambda: self._ended >= wanted, timeout)

    def read_now(self) -> None:
        """Read the log to its end. Raises the errors of the store."""
        with self._reading:
            began = time.monotonic()
            if began - self._read_at > _MAX_UNREAD_SECONDS:
                self._cursor = -1
            self._read()
            self._read_at, self._failing = began, False

    def _follow(self) -> None:
        while not self._stopped:
            with self._idle:
                self._begun += 1
            try:
                self.read_now()
            except Exception as error:
                if not self._failing:
                    _logger.warning(
                        "cannot read the log of purges; purges of others are not seen until then: %s", error
                    )
                self._failing = True
            with self._idle:
                self._ended = self._begun
                self._idle.notify_all()
            self._wake.wait(self._poll_seconds)
            self._wake.clear()

    def _read(self) -> None:
        newest = self._store.sequence().seq
        if self._cursor < 0 or newest < self._cursor:
            self._restart(newest)
        while self._cursor < newest:
            changes = self._contiguous(newest)
            if not changes:
                _logger.warning("the log has a gap after %d: all pages in memory are dropped", self._cursor)
                self._restart(newest)
                return
            self._memory.apply(changes)
            self._cursor = changes[-1].seq

    def _contiguous(self, newest: int) -> list[Change]:
        """Return readable changes that follow the cursor without a gap. A commit may be seen in part for a moment."""
        for attempt in range(_RETRIES):
            if attempt:
                time.sleep(_RETRY_SECONDS)
            found: list[Change] = []
            for change in self._store.changes(self._cursor):
                if change.malformed or change.seq != self._cursor + len(found) + 1 or change.seq > newest:
                    break
                found.append(change)
            if found:
                return found
        return []

    def _restart(self, newest: int) -> None:
        """Continue from a sequence: what was changed before is unknown.

        What is read from now on is of this sequence, except for changes that are being committed.
        """
        self._memory.flush(reversed(self._store.recent(newest)))
        self._cursor = newest
