"""The cache of an application's pages: what requests get, and when pages are rendered."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Collection
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any
from urllib.parse import quote

from theorydb_py import InvalidInputError
from theorydb_py.isr import FaceTheoryIsrMetaStore, PurgeTarget, Receipt, State, canonical_key
from theorydb_py.web._bodies import Bodies
from theorydb_py.web._flights import Failed, Flight, Refused, Remembered, Render, Served
from theorydb_py.web._follower import Follower
from theorydb_py.web._invalidate import Invalidations
from theorydb_py.web._memory import Memory
from theorydb_py.web._pages import Page, Response, plain
from theorydb_py.web._regenerate import Regeneration, Settings
from theorydb_py.web._requests import Projection, Request
from theorydb_py.web._rules import Headers, Verdict, values
from theorydb_py.web._workers import Workers

_MAX_WAITING = 256
_MAX_REMEMBERED = 4096
_BEYOND_WAIT = 1.0

_logger = logging.getLogger("theorydb_py.web")


class Pass:
    """The application answers the request itself, and the response is not stored."""

    def __init__(self, cache: PageCache, request: Request, status: str) -> None:
        """Pass a request on; status has the parameters of Cache-Status."""
        self._cache = cache
        self._request = request
        self.cache_status = f"isr; {status}"

    def answered(self, status: int, headers: Headers) -> list[Future[Any]]:
        """Purge what a successful unsafe request has changed (RFC 9111, section 4.4). Wait for it with a limit."""
        if self._request.unsafe and 200 <= status < 400:
            return self._cache.invalidate(self._request, headers)
        return []


class PageCache:
    """The pages of one site, for a WsgiCache or an AsgiCache. One per process, safe for concurrent use.

    Pages are the rows of ``store`` and the bodies of an S3 bucket, as ``isr serve`` has
    them, and it may serve the same ones. A page is stored only if its response states how
    long it is fresh: ``CDN-Cache-Control``, ``Surrogate-Control``, ``Cache-Control`` with
    ``s-maxage`` or ``max-age``, or ``Expires``. Responses with a cookie, ``private``, ``no-store``,
    ``no-cache`` or a ``Vary`` on anything but ``Accept-Encoding`` and ``Host`` are not.

    Threads start with the first request, so that servers may fork before it. A page is
    rendered in a thread of the cache (WSGI) or a task of the server's loop (ASGI), not
    in a visitor's thread or task: the application must be thread-safe.
    """

    def __init__(
        self,
        store: FaceTheoryIsrMetaStore,
        s3: Any,
        bucket: str,
        *,
        hosts: Collection[str] = (),
        query: Collection[str] = (),
        ignore_cookies: Collection[str] = (),
        stale_seconds: int = 0,
        opt_in: str = "explicit",
        scheme: str = "https",
        memory_bytes: int = 64 << 20,
        max_body_bytes: int = 16 << 20,
        max_header_bytes: int = 64 << 10,
        max_tags: int = 512,
        poll_seconds: float = 1.0,
        store_timeout_seconds: float = 0.5,
        render_timeout_seconds: float = 30.0,
        lease_seconds: int = 30,
        retention_seconds: int = 30 * 24 * 3600,
        renders: int = 8,
    ) -> None:
        """Create a cache. ``s3`` is ``boto3.client("s3")``; give it and the store's client timeouts of a second or two.

        The key of a page is its host, its path and the ``query`` parameters. Pages of
        other ``hosts`` (``example.com:8080``) than these are not stored; without any,
        the application must refuse unknown hosts, or visitors can fill the bucket with
        pages of invented ones. Requests
        with other parameters bypass the cache (known tracking parameters are dropped),
        and so do those with a cookie that neither spec/requests.json nor ``ignore_cookies``
        names; a name may end in ``*``, and ``!`` before a name makes requests with this
        cookie bypass the cache, whatever else ignores it.

        ``stale_seconds`` is how long after its freshness window a page may be served while
        it is rendered again, or cannot be; it bounds ``stale-while-revalidate`` and
        ``stale-if-error``, and is required for pages with ``s-maxage``, which otherwise
        forbids that (RFC 9111, section 5.2.2.10).
        ``opt_in="strict"`` is for sites that mean ``max-age`` and ``Expires`` for browsers
        only: then ``max-age`` counts only beside ``public``, and ``Expires`` never.
        ``scheme`` is the scheme of the site's public URLs: renders get it, and as
        ``X-Forwarded-Proto``. The visitor's own
        ``X-Forwarded-Proto`` is not trusted. Visitors of both schemes get the same pages:
        let the proxy in front redirect http to https.

        ``memory_bytes`` bounds the pages in memory; larger bodies than
        ``max_body_bytes`` (at most 1 GiB) are not stored, nor are responses with a header
        above ``max_header_bytes`` (1 KiB to 128 KiB), where each field counts for its name,
        its value and 32 bytes, or with more than ``max_tags`` (at most 2,048) purge tags.
        ``poll_seconds`` (0.05 to 300) is how often
        the log of purges is read, one read unit each: for so long, plus the duration of
        the read, this process may serve what another one has purged or rolled back.
        ``store_timeout_seconds`` bounds how long a visitor waits for table and bucket
        before the page is rendered without being stored. ``render_timeout_seconds`` bounds a
        render. ``lease_seconds`` (1 to 86,400) is how long a page waits if the process that renders it
        dies. ``retention_seconds`` (at most 88 days) is how long rows are kept at least. ``renders``
        (1 to 256) is how many pages are searched, and how many rendered, at once; beyond 256 waiting ones
        visitors without a page get 503.

        Raises:
            InvalidInputError: an argument is invalid.
            InvalidKeyError: a host is.
        """
        settings = Settings(
            stale_seconds=_whole("stale_seconds", stale_seconds, 0, 315360000),
            opt_in=_opt_in(opt_in),
            max_body=_whole("max_body_bytes", max_body_bytes, 0, 1 << 30),
            max_header=_whole("max_header_bytes", max_header_bytes, 1 << 10, 128 << 10),
            max_tags=_whole("max_tags", max_tags, 1, 2048),
            render_timeout=_between("render_timeout_seconds", render_timeout_seconds, 0.001, 86400),
            lease_seconds=_whole("lease_seconds", lease_seconds, 1, 86400),
            retention_seconds=_whole("retention_seconds", retention_seconds, 0, 88 * 86400),
        )
        if store.partition_key("example.com/").startswith("TENANT#"):
            raise InvalidInputError("the store has a tenant: expected one without, as pages of a PageCache have none")
        if scheme not in ("http", "https"):
            raise InvalidInputError(f"scheme is {scheme!r}: expected http or https")
        for name, names in (("hosts", hosts), ("query", query), ("ignore_cookies", ignore_cookies)):
            if isinstance(names, str) or not all(isinstance(member, str) for member in names):
                raise InvalidInputError(f"{name} is {names!r}: expected a list of names")
        self.scheme = scheme
        self.render_workers = _whole("renders", renders, 1, 256)
        self._store = store
        self._bodies = Bodies(s3, bucket, settings.max_body)
        self._settings = settings
        self._projection = Projection(tuple(hosts), tuple(query), tuple(ignore_cookies))
        self._memory_bytes = _whole("memory_bytes", memory_bytes, 0, 1 << 40)
        self._poll_seconds = _between("poll_seconds", poll_seconds, 0.05, 300)
        self._store_timeout = _between("store_timeout_seconds", store_timeout_seconds, 0.001, 86400)
        self._starting = threading.Lock()
        self._pid = 0  # of the process whose threads follow; guarded by _starting

    def judge(self, status: int, headers: Headers) -> Verdict:
        """Decide whether a response that has just been rendered may be stored, by its status and header."""
        return self._settings.judge(status, headers, time.time())

    @property
    def max_body_bytes(self) -> int:
        """The largest body that is stored."""
        return self._settings.max_body

    @property
    def store_timeout_seconds(self) -> float:
        """How long a visitor waits for table and bucket."""
        return self._store_timeout

    # --- For applications -----------------------------------------------------

    def purge(
        self,
        *,
        urls: Collection[str] = (),
        tags: Collection[str] = (),
        prefixes: Collection[str] = (),
        hard: bool = False,
    ) -> Receipt:
        """Purge pages by URL, tag, or the beginning of their URLs; at most 98 targets in all.

        They are stale: served within their stale windows while they are rendered again;
        with ``hard`` they are never served again. This process follows at once, others
        within their own bound: poll_seconds, or ``--poll`` of ``isr serve``.

        Raises:
            InvalidKeyError: a URL has no host.
            InvalidInputError: a target is invalid, or there are too many, or none.
            TransactionConflictError, UnknownOutcomeError, TableNotFoundError,
                ThrottledError, MalformedRowError: see FaceTheoryIsrMetaStore.purge.
        """
        targets = [PurgeTarget(kind="key", value=canonical_key(url)) for url in urls]
        targets += [PurgeTarget(kind="tag", value=tag) for tag in tags]
        targets += [PurgeTarget(kind="prefix", value=canonical_key(prefix)) for prefix in prefixes]
        receipt = self._store.purge(targets, hard=hard)
        if self._pid == os.getpid():
            self._follower.read_now()
        return receipt

    def close(self) -> None:
        """Make the purges of unsafe requests that wait, and stop following the log.

        Renders that are in progress end with the process; their leases expire.
        """
        with self._starting:
            if self._pid == os.getpid():
                self._invalidations.close()
                self._follower.stop()

    # --- For the middlewares ----------------------------------------------------

    def answer(self, request: Request, render: Render) -> Response | Pass:
        """Answer a request, waiting in this thread."""
        if self.frozen():
            self.catch_up()
        step = self.begin(request, render)
        while isinstance(step, Flight):
            for future, timeout in self.stages(step):
                wait_for([future], timeout)
                if not future.done():
                    break
            step = self.finish(request, step)
        return step

    def frozen(self) -> bool:
        """Return whether this process did not run for a while, so that catch_up must be called before begin."""
        return self._pid == os.getpid() and self._follower.frozen()

    def catch_up(self) -> None:
        """Wait for the log to be read, at most for the store's timeout."""
        self._follower.wait(self._store_timeout)

    def stages(self, flight: Flight) -> list[tuple[Future[Any], float]]:
        """Return what a request waits for, in order, and for how many seconds. The first that is not done ends it."""
        store = [] if flight.local else [(flight.looked_up, self._store_timeout)]
        return [*store, (flight.outcome, self._settings.wait + _BEYOND_WAIT)]

    def begin(self, request: Request, render: Render) -> Response | Pass | Flight:
        """Answer a request, from memory if possible. After a Flight's stages, call finish."""
        key, reason = "", self._projection.bypass(request)
        if not reason:
            key, reason = self._projection.key(request)
        if reason:
            return Pass(self, request, "fwd=method" if reason == "method" else f"fwd=bypass; detail={reason}")
        self._start()
        current = self._follower.current()
        now = time.time()
        page, unshared = self._memory.get(key)
        if page is not None and page.state(now) in (State.FRESH, State.STALE):
            return self._hit(request, page, now, render, current=current)
        if unshared is not None and unshared.state(now) == State.FRESH:
            return unshared.respond(request, now, f"hit; detail={unshared.unshared}")
        refused = self._regeneration.refused.get(key, now)
        if refused is not None:
            return Pass(self, request, f"fwd=miss; detail={refused}")
        failed = self._regeneration.failures.get(key, now)
        if failed is not None:
            return self._fail(request, key, failed)
        flight = self._join(key, render, request)
        return flight or self._fail(request, key, Failed("origin-busy", now + 1))

    def finish(self, request: Request, flight: Flight) -> Response | Pass | Flight:
        """Answer a request after the stages of a flight; it may have to wait for another one."""
        now = time.time()
        if flight.looked_up.done() and flight.outcome.done():
            match flight.outcome.result():
                case Served(page, status):
                    return self._serve(request, page, now, status)
                case Refused(reason, response):
                    status = f"fwd=miss; detail={reason}"
                    if response is not None and flight.visitor is request and response.selected_by(request):
                        return response.handed_over(request, status)
                    return Pass(self, request, status)
                case Failed() as failed:
                    return self._fail(request, flight.key, failed, flight.older)
        if not flight.looked_up.done() and not flight.local:
            self._regeneration.mark_down("it has not answered in time")
            local = self._join(flight.key, flight.render, request)
            return local or self._fail(request, flight.key, Failed("origin-busy", now + 1))
        return self._fail(request, flight.key, Failed("timeout", now + 1))

    def invalidate(self, request: Request, headers: Headers) -> list[Future[Any]]:
        """Purge the stored pages of an unsafe request, and of its Location on the same host, hard.

        Return the purges that are made at once. Others are put off (see Invalidations).
        """
        keys = {self._projection.key(request)[0]}
        base = f"http://{request.host}{quote(request.path.encode('utf-8', 'surrogateescape'))}"
        host = self._projection.key_of(request.host, "/", "")[0]
        for text in values(headers, "location") + values(headers, "content-location"):
            key = self._projection.key_at(base, text)
            if host and key.startswith(host):
                keys.add(key)
        self._start()
        return self._invalidations.add(sorted(filter(None, keys)))

    # --- Internals ------------------------------------------------------------

    def _start(self) -> None:
        """Start the threads, unless they run in this process: a fork has none of its parent's."""
        if self._pid == os.getpid():
            return
        with self._starting:
            if self._pid == os.getpid():
                return
            self._memory = Memory(self._memory_bytes)
            self._follower = Follower(self._store, self._memory, self._poll_seconds)
            self._regeneration = Regeneration(
                self._store, self._bodies, self._memory, self._settings, self._projection.key_at
            )
            self._registry = threading.Lock()
            self._flying: dict[tuple[str, bool], Flight] = {}  # guarded by _registry
            # Searches that hang in the store leave those that do without it their threads.
            self._searches = Workers("isr-search", self.render_workers, _MAX_WAITING)
            self._local = Workers("isr-local", self.render_workers, _MAX_WAITING)
            self._invalidations = Invalidations(self._store, self._forget, self._follower.read_now)
            self._refreshed: Remembered[bool] = Remembered(_MAX_REMEMBERED)
            self._follower.start()
            self._pid = os.getpid()

    def _hit(self, request: Request, page: Page, now: float, render: Render, *, current: bool) -> Response | Pass:
        if page.state(now) == State.FRESH:
            return self._serve(request, page, now, "hit" if current else "hit; detail=cut-off")
        if not self._regeneration.down() and self._refreshed.get(page.key, now) is None:
            # A search that finds the lease held, or fails, is repeated a second later.
            self._refreshed.put(page.key, True, now + 1)
            if self._regeneration.failures.get(page.key, now) is None:
                self._join(page.key, render, None)
        return self._serve(request, page, now, "hit; detail=stale")

    def _serve(self, request: Request, page: Page, now: float, status: str) -> Response | Pass:
        if not page.selected_by(request):
            return Pass(self, request, "fwd=bypass; detail=vary")
        return page.respond(request, now, status)

    def _fail(self, request: Request, key: str, failed: Failed, older: Page | None = None) -> Response | Pass:
        """Answer with the page that stands in for an error, or else with the error."""
        now = time.time()
        page = self._memory.get(key)[0] or older
        if page is not None and page.serves_failures(now, self._settings.stale_seconds):
            return self._serve(request, page, now, "hit; detail=stale-if-error")
        own = failed.response
        if own is not None:
            body = b"" if request.method == "HEAD" else own.body
            return Response(own.status, own.headers, body)
        status = 504 if failed.reason == "timeout" else 503
        answer = plain(status, "The page is not available at the moment.", failed.reason, failed.retry_at - now)
        return Response(status, answer.headers, b"") if request.method == "HEAD" else answer

    def _join(self, key: str, render: Render, visitor: Request | None) -> Flight | None:
        """Join the search for a page, or begin it; None if too many wait."""
        with self._registry:
            local = self._regeneration.down()
            flight = self._flying.get((key, local))
            if flight is not None:
                return flight
            flight = self._flying[key, local] = Flight(key, render, visitor, local=local)
            if not local:
                self._regeneration.begin(flight)
            begun = (self._local if local else self._searches).submit(lambda: self._fly(flight))
            if begun is None:
                del self._flying[key, local]
        if begun is None and not local:
            self._regeneration.mark_down("searches wait for it")
            return self._join(key, render, visitor)
        return flight if begun is not None else None

    def _fly(self, flight: Flight) -> None:
        try:
            self._regeneration.search(flight)
        except Exception:
            _logger.exception("the search for %s failed", flight.key)
        finally:
            with self._registry:
                if self._flying.get((flight.key, flight.local)) is flight:
                    del self._flying[flight.key, flight.local]
            flight.resolve(Failed("render-failed", time.time() + 1))

    def _forget(self, key: str) -> None:
        """Forget what this process knows of a page that has changed. Its renders are not for visitors to come."""
        self._memory.drop(key)
        self._regeneration.refused.drop(key)
        self._regeneration.failures.drop(key)
        with self._registry:
            for local in (False, True):
                self._flying.pop((key, local), None)


def _opt_in(value: object) -> str:
    if value not in ("explicit", "strict"):
        raise InvalidInputError(f"opt_in is {value!r}: expected 'explicit' or 'strict'")
    return str(value)


def _between(name: str, value: object, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise InvalidInputError(f"{name} is {value!r}: expected a number from {least:g} to {most:g}")
    return value


def _whole(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInputError(f"{name} is {value!r}: expected a whole number from {least} to {most}")
    return value
