"""Fake clocks: time passes when a test advances it, or during waits on it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from tests.polling import BOUND
from theorydb_py._retry import Retry

NOW = 1_800_000_000.0


@dataclass
class Clock:
    """Wall time in epoch seconds, set by hand."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


class Time:
    """Wall time and monotonic time, advanced only by the backoff of retries and by ``advance``.

    A heartbeat that waits on it stands still until the test advances it. Safe for
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
        """Return a Retry whose backoff takes no real time."""
        return Retry(**{"sleep": self.advance, "monotonic": self.monotonic, "random": lambda: 0.5, **settings})

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait as a heartbeat does, until so much time has passed or the event is set."""
        due = self.passed + seconds
        with self._changed:
            self._waits.append(seconds)
            self._changed.notify_all()
            while self.passed < due and not event.is_set():
                self._changed.wait(0.01)  # setting the event does not notify the condition
            return event.is_set()

    def next_wait(self) -> float:
        """Return how long the heartbeat waits, as soon as it waits."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._waits, BOUND), "the heartbeat does not wait"
            return self._waits.pop(0)
