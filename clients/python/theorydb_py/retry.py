"""Repeating calls: how often, how long, and with which pauses."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from theorydb_py.errors import InvalidInputError, UnknownOutcomeError
from theorydb_py.outcome import Outcome, outcome_of

T = TypeVar("T")

_DOUBLINGS = 5  # of the first pause; later pauses are as long as that


@dataclass(frozen=True)
class Retry:
    """How calls are repeated that may be, on top of the retries within boto3's own client.

    A call that hangs is ended by the client's own time limits
    (``botocore.config.Config(connect_timeout=…, read_timeout=…)``), never from
    here: here is decided whether there is another. Safe for concurrent use, if
    the functions are.
    """

    attempts: int = 4
    """How often an ordinary call is made at most, at least once."""
    timeout: float = 5.0
    """Seconds after which an ordinary call is not made again."""
    first_pause: float = 0.025
    """Mean seconds of the first pause; each next one is twice as long, up to 32 times."""
    random: Callable[[], float] = field(default=random.random)
    """A number in [0, 1), which keeps callers apart who failed together."""
    sleep: Callable[[float], object] = field(default=time.sleep)
    """Waits so many seconds."""
    monotonic: Callable[[], float] = field(default=time.monotonic)
    """A clock in seconds that nobody sets."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidInputError(f"Retry.attempts: expected at least 1, found {self.attempts!r}")
        for name in ("timeout", "first_pause"):
            if not 0 <= getattr(self, name) <= _LONGEST:
                raise InvalidInputError(
                    f"Retry.{name}: expected seconds from 0 to {_LONGEST}, found {getattr(self, name)!r}"
                )

    def bounded(self, do: Callable[[], T]) -> T:
        """Make a call until its answer is definite, ``attempts`` times at most and not after ``timeout``.

        Returns what it returned or raises what it raised last. The call must be
        one that may be repeated without harm.
        """
        return self._repeat(do, self.monotonic() + self.timeout, self.attempts)

    def until(self, deadline: float, do: Callable[[], T]) -> T:
        """Do the same however often, until ``deadline`` by the monotonic clock."""
        return self._repeat(do, deadline, None)

    def pause(self, attempt: int, deadline: float) -> bool:
        """Wait before the attempt after this one, the first of which is 1: exponential backoff with full jitter.

        Returns whether there is still time for it: a pause that would reach the
        deadline is not begun.
        """
        mean = self.first_pause * (1 << min(attempt - 1, _DOUBLINGS))
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
                # An UnknownOutcomeError is the last word of a call that has retried by itself.
                settled = isinstance(error, UnknownOutcomeError) or outcome_of(error) in _DEFINITE
                if settled or attempt == attempts or not self.pause(attempt, deadline):
                    raise


_DEFINITE = frozenset({Outcome.APPLIED, Outcome.CONDITION_FAILED, Outcome.REFUSED})
_LONGEST = 3600
