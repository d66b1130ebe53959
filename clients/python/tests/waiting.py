"""Waiting for what other threads do."""

from __future__ import annotations

import time
from collections.abc import Callable

BOUND = 20.0
"""Seconds after which a test that waits in vain fails."""


def eventually(condition: Callable[[], bool]) -> bool:
    """Wait until a condition holds; False: it does not within BOUND."""
    end = time.monotonic() + BOUND
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
