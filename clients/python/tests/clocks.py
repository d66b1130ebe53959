"""Clocks of the tests' own: time passes when a test says so, or by waiting for it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from tests.waiting import BOUND
from theorydb_py.retry import Retry

NOW = 1_800_000_000.0


@dataclass
class Clock:
    """Wall time in epoch seconds, moved by hand."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


class Time:
    """Wall time and monotonic time, which pass by retries' pauses and by ``advance`` alone.

    A heartbeat that waits by it stands still until the test says go on. Safe for
    concurrent use.
    """

    def __init__(self) -> None:
        self.passed = 0.0
        self._waits: list[float] = []
        self._changed = threading.Condition()

    def wall(self) -> float:
        return NOW + self.passed

    def monotonic(self) -> float:
        return self.passed

    def advance(self, seconds: float) -> None:
        with self._changed:
            self.passed += seconds
            self._changed.notify_all()

    def retry(self, **settings: Any) -> Retry:
        """Return retries whose pauses take no real time."""
        return Retry(**{"sleep": self.advance, "monotonic": self.monotonic, "random": lambda: 0.5, **settings})

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait as a heartbeat does: until so much time has passed, or the event has come."""
        due = self.passed + seconds
        with self._changed:
            self._waits.append(seconds)
            self._changed.notify_all()
            while self.passed < due and not event.is_set():
                self._changed.wait(0.01)  # the event is not notified
            return event.is_set()

    def next_wait(self) -> float:
        """Return how long the heartbeat waits now, once it does."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._waits, BOUND), "the heartbeat does not wait"
            return self._waits.pop(0)
