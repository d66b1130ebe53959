"""Retries with exponential backoff and full jitter."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from theorydb_py._outcome import Outcome, outcome_of
from theorydb_py.errors import InvalidInputError, UnknownOutcomeError

T = TypeVar("T")

_DOUBLINGS = 5  # the backoff doubles this many times


@dataclass(frozen=True)
class Retry:
    """How idempotent calls are retried, on top of the retries of boto3's client.

    A hanging call is ended by the client's own timeouts
    (``botocore.config.Config(connect_timeout=…, read_timeout=…)``), never from here.
    Safe for concurrent use if the functions are.

    Raises:
        InvalidInputError: a number is out of bounds.
    """

    attempts: int = 4
    """How many times an ordinary call is attempted at most, at least once."""
    timeout_seconds: float = 5.0
    """How long an ordinary call is retried, 0 to 3,600."""
    first_backoff_seconds: float = 0.025
    """The mean of the first backoff, 0 to 3,600; it doubles with each attempt, up to 32 times."""
    random: Callable[[], float] = field(default=random.random)
    """Returns a number in [0, 1), the jitter that keeps failed callers apart."""
    sleep: Callable[[float], object] = field(default=time.sleep)
    """Sleeps for so many seconds."""
    monotonic: Callable[[], float] = field(default=time.monotonic)
    """Returns monotonic seconds."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidInputError(f"Retry.attempts: expected at least 1, found {self.attempts!r}")
        for name in ("timeout_seconds", "first_backoff_seconds"):
            if not 0 <= getattr(self, name) <= _MAX_SECONDS:
                raise InvalidInputError(
                    f"Retry.{name}: expected seconds from 0 to {_MAX_SECONDS}, found {getattr(self, name)!r}"
                )

    def bounded(self, do: Callable[[], T]) -> T:
        """Call a function until its result is definite, at most ``attempts`` times and for ``timeout_seconds``.

        The call must be idempotent.

        Raises:
            Exception: the last error of the function.
        """
        return self._repeat(do, self.monotonic() + self.timeout_seconds, self.attempts)

    def until(self, deadline: float, do: Callable[[], T]) -> T:
        """Call a function until its result is definite, until ``deadline`` in monotonic time.

        Raises:
            Exception: the last error of the function.
        """
        return self._repeat(do, deadline, None)

    def pause(self, attempt: int, deadline: float) -> bool:
        """Sleep before the attempt after ``attempt``, counted from 1: exponential backoff with full jitter.

        Does not sleep, and returns False, if the backoff would reach the deadline.
        """
        mean = self.first_backoff_seconds * (1 << min(attempt - 1, _DOUBLINGS))
        seconds = 2 * mean * self.random()
        if self.monotonic() + seconds >= deadline:
            return False
        self.sleep(seconds)
        return self.monotonic() < deadline

    def _repeat(self, do: Callable[[], T], deadline: float, attempts: int | None) -> T:
        attempt = 0
        while True:
            attempt += 1
            try:
                return do()
            except Exception as error:
                # An UnknownOutcomeError comes from a call that has done its own retries.
                settled = isinstance(error, UnknownOutcomeError) or outcome_of(error) in _DEFINITE
                if settled or attempt == attempts or not self.pause(attempt, deadline):
                    raise


_DEFINITE = frozenset({Outcome.APPLIED, Outcome.CONDITION_FAILED, Outcome.REFUSED})
_MAX_SECONDS = 3600
