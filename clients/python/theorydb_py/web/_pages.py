"""Pages in memory, and the responses that are made of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from theorydb_py.isr import Entry, PurgeState, State, age, fresh_until, freshness, serves_failures
from theorydb_py.web._header import modified_at, not_modified, replayed_headers
from theorydb_py.web._requests import Request
from theorydb_py.web._rules import Headers, allows_on_error, stale_if_error, values, vary_names

_OVERHEAD = 2048
"""What a page takes in memory beside its texts and its body, in bytes, estimated."""
_FIELD_OVERHEAD = 200


@dataclass(frozen=True)
class Response:
    """A complete response."""

    status: int
    headers: Headers
    body: bytes

    def selected_by(self, request: Request) -> bool:
        """Return whether the request lacks all headers that the response varies on, as its render did."""
        return _selects(self.headers, request)

    def handed_over(self, request: Request, status: str) -> Response:
        """Return the response to the visitor who caused its render. ``status`` has the parameters of Cache-Status."""
        headers = [*self.headers, ("cache-status", f"isr; {status}")]
        return Response(self.status, headers, b"" if request.method == "HEAD" else self.body)


@dataclass(frozen=True)
class Page:
    """A page: its entry, the purges that cover it, and its body."""

    key: str
    entry: Entry
    purges: PurgeState
    body: bytes
    unshared: str = ""
    """Why only this process has it: the detail of Cache-Status; empty for a stored page."""

    def state(self, now: float) -> State:
        """Return its freshness at a time in epoch seconds."""
        return freshness(self.entry, self.purges, now)

    @property
    def size(self) -> int:
        """What it takes in memory, in bytes, estimated."""
        fields = sum(_FIELD_OVERHEAD + len(name) + sum(map(len, lines)) for name, lines in self.entry.headers.items())
        return _OVERHEAD + len(self.body) + len(self.key) + fields + sum(64 + len(tag) for tag in self.entry.tags)

    def headers(self) -> Headers:
        """Return its stored header."""
        return [
            (name, (value if isinstance(value, bytes) else value.encode()).decode("latin-1"))
            for name, lines in self.entry.headers.items()
            for value in lines
        ]

    @property
    def _etag(self) -> str:
        """Its entity tag as a header has it: each character is a byte."""
        return self.entry.etag.encode().decode("latin-1")

    def selected_by(self, request: Request) -> bool:
        """Return whether the request lacks all headers that the page varies on, as its render did."""
        return "vary" not in self.entry.headers or _selects(self.headers(), request)

    def serves_failures(self, now: float, stale_seconds: int) -> bool:
        """Return whether it may be served because rendering fails: within its windows, and within stale-if-error.

        What ends its freshness window early, a soft purge or a newer build, does not end this.
        """
        if serves_failures(self.entry, self.purges, now):
            return True
        window = max(self.entry.stale_seconds, stale_if_error(self.headers(), stale_seconds, stale_seconds))
        if window == 0 and now < fresh_until(self.entry) and allows_on_error(self.headers()):
            window = 1
        extended = replace(self.entry, stale_seconds=window)
        return freshness(extended, self.purges, now) in (State.FRESH, State.STALE)

    def respond(self, request: Request, now: float, status: str) -> Response:
        """Answer a request with the page. ``status`` has the parameters of Cache-Status before the ttl."""
        entry, stored = self.entry, self.headers()
        headers = replayed_headers(stored)
        if entry.foreign and "content-type" not in entry.headers:
            headers.append(("content-type", "text/html; charset=utf-8"))
        left = fresh_until(entry) - now
        pinned = self.state(now) == State.FRESH and left <= 0
        instead = "max-age=10" if pinned else "max-age=0, must-revalidate"
        if pinned or (left > 0 and self.state(now) != State.FRESH):
            # A cache in front would take it for stale, or a purged page for fresh.
            lifetimes = ("cache-control", "cdn-cache-control", "expires")
            headers = [field for field in headers if field[0] not in lifetimes]
            headers.append(("cache-control", instead))
        if entry.etag:
            headers.append(("etag", self._etag))
        headers.append(("age", "0" if pinned else str(age(entry, now))))
        headers += [("cache-status", value) for value in values(stored, "cache-status") if value.isprintable()]
        first, _, detail = status.partition("; detail=")
        ttl = "" if pinned else f"; ttl={math.floor(left)}"
        detail = "pinned" if pinned and not detail else detail
        headers.append(("cache-status", f"isr; {first}{ttl}" + (f"; detail={detail}" if detail else "")))
        return self._complete(request, headers, stored)

    def _complete(self, request: Request, headers: Headers, stored: Headers) -> Response:
        status = self.entry.status
        conditional = {name: request.headers[name] for name in _CONDITIONS if name in request.headers}
        modified = modified_at(stored, self.entry.generated_at)
        if status == 200 and not_modified(conditional, self._etag, modified):
            return Response(304, headers, b"")
        if status == 204:
            return Response(status, headers, b"")
        headers.append(("content-length", str(len(self.body))))
        return Response(status, headers, b"" if request.method == "HEAD" else self.body)


_CONDITIONS = ("if-none-match", "if-modified-since")


def _selects(headers: Headers, request: Request) -> bool:
    """Return whether a response to a request without headers is one for this request (RFC 9111, section 4.1)."""
    return all(name != "*" and request.headers.get(name, "") == "" for name in vary_names(headers))


def plain(status: int, text: str, detail: str, retry_seconds: float, extra: Iterable[tuple[str, str]] = ()) -> Response:
    """Return an error of the cache itself, which no cache may store."""
    body = f"{text}\n".encode()
    return Response(
        status,
        [
            ("content-type", "text/plain; charset=utf-8"),
            ("content-length", str(len(body))),
            ("cache-control", "no-store"),
            ("retry-after", str(max(1, math.ceil(retry_seconds)))),
            ("cache-status", f"isr; fwd=miss; detail={detail}"),
            *extra,
        ],
        body,
    )
