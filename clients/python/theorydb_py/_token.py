"""The age of a client token: a request may be repeated only while DynamoDB remembers its token."""

from __future__ import annotations

import threading
from collections.abc import Callable

TOKEN_LIFE = 480.0
"""How long a request is repeated under one token, in seconds: DynamoDB remembers tokens for ten minutes."""


class TokenAge:
    """The time since a request was first sent, by two clocks. Safe for concurrent use.

    The larger of the two ages counts: a monotonic clock may stand still while the
    machine sleeps, and a wall clock may be set back. A repetition after the token is
    forgotten would be applied as a new request.
    """

    def __init__(self, wall: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._lock = threading.Lock()
        self._sent: tuple[float, float] | None = None  # guarded by _lock

    def note_sent(self) -> None:
        """Record that the request is about to be sent; only the first time counts."""
        with self._lock:
            self._sent = self._sent or (self._wall(), self._monotonic())

    @property
    def is_repeatable(self) -> bool:
        """Whether the request may be sent, for the first time or again."""
        with self._lock:
            if self._sent is None:
                return True
            wall, monotonic = self._sent
        return max(self._wall() - wall, self._monotonic() - monotonic) < TOKEN_LIFE
