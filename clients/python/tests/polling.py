"""Waits for conditions that other threads fulfil."""

from __future__ import annotations

import time
from collections.abc import Callable

BOUND = 300.0
"""Seconds after which a test fails that waits in vain."""


def eventually(condition: Callable[[], bool]) -> bool:
    """Poll until a condition holds; return False if it does not within BOUND."""
    end = time.monotonic() + BOUND
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
