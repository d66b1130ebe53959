"""Searches for pages: one per key and process, which all requests for the page join."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Generic, TypeVar

from theorydb_py.web._pages import Page, Response
from theorydb_py.web._requests import Projected, Request
from theorydb_py.web._rules import Headers, values

V = TypeVar("V")

MAX_HANDED_OVER = 1 << 20
"""The largest body that is read although it is not stored, in bytes."""


@dataclass(frozen=True)
class Rendered:
    """What the application answered; ``refused`` if it must not be stored, and why."""

    status: int
    headers: Headers
    body: bytes
    refused: str = ""
    whole: bool = True
    """Whether the body was read to its end."""

    @property
    def is_complete(self) -> bool:
        """Whether the body has the length that the response states, if it states one."""
        stated = values(self.headers, "content-length")
        return not self.whole or not stated or self.status in (204, 304) or stated == [str(len(self.body))]


def is_short(headers: Headers, read: int) -> bool:
    """Return whether to read the body of a response that is not stored, for the visitor who caused the render."""
    stated = values(headers, "content-length")
    return len(stated) == 1 and stated[0].isdecimal() and read <= int(stated[0]) <= MAX_HANDED_OVER


Render = Callable[[Projected], "Future[Rendered] | None"]
"""Begins to call the application; None: too many renders run. Cancelling the future gives it up."""


@dataclass(frozen=True)
class Served:
    """The search has found or rendered a page."""

    page: Page
    status: str
    """The parameters of Cache-Status."""


@dataclass(frozen=True)
class Refused:
    """The application's response is not to be shared: requests pass through."""

    reason: str
    response: Response | None = None
    """The response, for the visitor who caused the render; None if it was not read to its end."""


@dataclass(frozen=True)
class Failed:
    """There is no new page."""

    reason: str
    """The detail of Cache-Status."""
    retry_at: float
    """When the next render may begin, in epoch seconds."""
    response: Response | None = None
    """The application's own error page, if it may be shown to others."""


class Flight:
    """A search for a page. ``local`` ones do without the store, which is down.

    ``visitor`` is the request that caused it and waits for it; None if none does.
    """

    def __init__(self, key: str, render: Render, visitor: Request | None, *, local: bool) -> None:
        """Create a search that has not begun."""
        self.key = key
        self.render = render
        self.visitor = visitor
        self.local = local
        self.older: Page | None = None
        """The page that the store has, which may be served if the render fails. Memory need not have it."""
        self.looked_up: Future[None] = Future()
        """Done once the store has answered, or failed."""
        self.outcome: Future[Served | Refused | Failed] = Future()

    def looked(self) -> None:
        """Notify the waiters that the store has answered, or is not asked."""
        with contextlib.suppress(InvalidStateError):
            self.looked_up.set_result(None)

    def resolve(self, outcome: Served | Refused | Failed) -> None:
        """Notify the waiters. Only the first call counts."""
        with contextlib.suppress(InvalidStateError):
            self.outcome.set_result(outcome)
        self.looked()


class Remembered(Generic[V]):
    """Values by key for a while: the oldest of too many are dropped. Safe for concurrent use."""

    def __init__(self, most: int) -> None:
        """Create a memory for so many values."""
        self._most = most
        self._lock = threading.Lock()
        self._values: OrderedDict[str, tuple[float, V]] = OrderedDict()  # guarded by _lock

    def get(self, key: str, now: float) -> V | None:
        """Return the value of a key, until its end."""
        with self._lock:
            until, value = self._values.get(key, (0.0, None))
            return value if now < until else None

    def put(self, key: str, value: V, until: float) -> None:
        """Remember a value until a time of the clock that get is called with."""
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = (until, value)
            while len(self._values) > self._most:
                self._values.popitem(last=False)

    def drop(self, key: str) -> None:
        """Drop the value of a key."""
        with self._lock:
            self._values.pop(key, None)
