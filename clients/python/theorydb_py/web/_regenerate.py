"""Finds a page in the store, or renders it under its lease and publishes it."""

from __future__ import annotations

import hashlib
import logging
import math
import random
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace

from botocore.exceptions import BotoCoreError, ClientError

from theorydb_py import LeaseHeldError, LeaseLostError, MovedError, TheorydbError
from theorydb_py.isr import (
    Entry,
    FaceTheoryIsrMetaStore,
    IsrLease,
    PurgeState,
    PurgeTarget,
    Record,
    State,
    body_prefix,
    stale_until,
)
from theorydb_py.web._bodies import Bodies
from theorydb_py.web._flights import Failed, Flight, Refused, Remembered, Rendered, Served
from theorydb_py.web._header import etag_of, stored_headers
from theorydb_py.web._memory import Memory, Position
from theorydb_py.web._pages import Page, Response
from theorydb_py.web._requests import Projected
from theorydb_py.web._rules import Headers, Verdict, initial_age, is_personal, judge, values

_SELF_REDIRECT = "self-redirect"
"""Why a redirect to the page's own key is refused; another visitor's spelling of the URL may be the one it leads to."""
_MAX_REFUSED = 4096
_REFUSED_SECONDS = 120
_MAX_FAILURES = 1024
_MAX_ERROR_PAGE = 8 << 10
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 32.0
_UNPUBLISHED_SECONDS = 5
_NEGATIVE_SECONDS = 300
_JITTER = 0.05
_DOWN_SECONDS = 1.0
_FIRST_LOOK = 0.05
_LONGEST_LOOK = 0.5
_DAY = 24 * 3600

_STORE_ERRORS = (TheorydbError, BotoCoreError, ClientError, OSError)

_logger = logging.getLogger("theorydb_py.web")


@dataclass(frozen=True)
class Settings:
    """The bounds and windows of a cache, in seconds and bytes."""

    stale_seconds: int
    opt_in: str
    max_body: int
    max_header: int
    max_tags: int
    render_timeout: float
    lease_seconds: int
    retention_seconds: int

    def judge(self, status: int, headers: Headers, requested: float) -> Verdict:
        """Decide whether a response may be stored and shared. It was requested at a time in epoch seconds."""
        return judge(
            status,
            headers,
            stale_seconds=self.stale_seconds,
            max_body=self.max_body,
            max_header=self.max_header,
            max_tags=self.max_tags,
            opt_in=self.opt_in,
            requested=requested,
        )

    @property
    def wait(self) -> float:
        """How long a visitor waits for a page that another process renders."""
        return self.render_timeout + 2 * self.lease_seconds


@dataclass(frozen=True)
class _Found:
    """What the store has of a page."""

    record: Record
    page: Page | None
    state: State


class Regeneration:
    """Searches for pages. Safe for concurrent use."""

    def __init__(
        self,
        store: FaceTheoryIsrMetaStore,
        bodies: Bodies,
        memory: Memory,
        settings: Settings,
        key_at: Callable[[str, str], str],
    ) -> None:
        """Search in a store and in its bodies, and keep what is found in memory.

        ``key_at`` returns the key of a reference in a response from a URL.
        """
        self._key_at = key_at
        self._store = store
        self._bodies = bodies
        self._memory = memory
        self._settings = settings
        self._failing = False  # the store has failed, and has not answered since
        self._down_until = 0.0
        self._probe: Flight | None = None  # the search that asks a failing store after the pause
        self.refused: Remembered[str] = Remembered(_MAX_REFUSED)
        self.failures: Remembered[Failed] = Remembered(_MAX_FAILURES)

    def down(self) -> bool:
        """Return whether the store has failed and is not asked: for a second, and while a search probes it."""
        return self._failing and (self._probe is not None or time.monotonic() < self._down_until)

    def begin(self, flight: Flight) -> None:
        """Note that a flight will ask the store. If the store has failed it is the probe: the store is down for others.

        Callers must hold a lock from their call of ``down`` on.
        """
        if self._failing:
            self._probe = flight

    def mark_down(self, why: object) -> None:
        """Do without the store for a second."""
        if not self.down():
            _logger.warning("table or bucket do not answer: pages are rendered without being stored: %s", why)
        self._down_until = time.monotonic() + _DOWN_SECONDS
        self._failing = True
        self._probe = None

    def search(self, flight: Flight) -> None:
        """Resolve a flight. A stale page resolves it at once; the search goes on to renew it."""
        if flight.local:
            self._render_unshared(flight)
            return
        try:
            self._search_store(flight)
        finally:
            if self._probe is flight:
                self._probe = None

    def _search_store(self, flight: Flight) -> None:
        try:
            found = self._look(flight.key)
        except _STORE_ERRORS as error:
            self.mark_down(error)
            self._render_unshared(flight)
            return
        if self._probe is flight:  # the answer to an older search proves nothing about the store now
            self._failing = False
            self._probe = None
        if self._served(flight, found):
            return
        flight.older = found.page
        flight.looked()
        try:
            self._regenerate(flight)
        except _STORE_ERRORS as error:
            self.mark_down(error)
            if not flight.outcome.done():
                self._render_unshared(flight)

    # --- Reading ----------------------------------------------------------------

    def _look(self, key: str) -> _Found:
        position = self._memory.position()
        return self._found(key, self._store.read(key), position)

    def _found(self, key: str, record: Record, position: Position) -> _Found:
        entry = record.entry
        if entry is None or entry.withdrawn or not 200 <= entry.status <= 599:
            return _Found(record, None, State.MISSING)
        purges = record.purges.merge(self._store.covering(key, entry.tags))
        page = self._memory.merged(Page(key, entry, purges, b""))
        state = page.state(time.time())
        if state == State.PURGED:
            return _Found(record, None, state)
        found = self._with_body(key, entry)
        if found is None:
            _logger.warning("the body %s of %s is missing or damaged: the page is rendered again", entry.s3_key, key)
            return _Found(record, None, State.MISSING)
        page = replace(page, entry=found[0], body=found[1])
        self._memory.hold(page, position)
        return _Found(record, page, state)

    def _with_body(self, key: str, entry: Entry) -> tuple[Entry, bytes] | None:
        known = self._memory.get(key)[0]
        if known is not None and not entry.foreign and known.entry.content_sha256 == entry.content_sha256 != "":
            return entry, known.body
        return self._bodies.get(entry)

    def _served(self, flight: Flight, found: _Found) -> bool:
        """Resolve the flight by a page that may be served; return whether it is fresh."""
        if found.page is None or found.state not in (State.FRESH, State.STALE):
            return False
        fresh = found.state == State.FRESH
        flight.resolve(Served(found.page, "hit" if fresh else "hit; detail=stale"))
        return fresh

    # --- Rendering ----------------------------------------------------------------

    def _regenerate(self, flight: Flight) -> None:
        """Render under the lease, or wait for the process that has it."""
        deadline = time.monotonic() + self._settings.wait
        pause = _FIRST_LOOK
        while True:
            position = self._memory.position()  # the lease comes with the page as it is then
            try:
                with self._store.lease(flight.key, lease_duration_ms=self._settings.lease_seconds * 1000) as lease:
                    self._render(flight, lease, position)
            except LeaseLostError as error:
                _logger.warning("rendering %s: %s", flight.key, error)
                flight.resolve(Failed("render-failed", time.time() + 1))
                return
            except LeaseHeldError as held:
                if flight.outcome.done():
                    return  # the holder renews the page
                if held.failures > 0 and held.owner == "":
                    self._fail(flight, Failed("back-off", held.expires_at))
                    return
            else:
                return
            if time.monotonic() > deadline:
                flight.resolve(Failed("timeout", time.time() + 1))
                return
            time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - jitter
            pause = min(2 * pause, _LONGEST_LOOK)
            if self._served(flight, self._look(flight.key)):
                return

    def _render(self, flight: Flight, lease: IsrLease, position: Position) -> None:
        found = self._found(flight.key, lease.record, position)  # another process may have been faster
        if self._served(flight, found):
            return
        flight.older = found.page
        began = time.time()
        rendered = self._call(flight)
        took = time.time() - began
        if isinstance(rendered, Failed):
            self._back_off(flight, lease, rendered)
            return
        verdict = self._judge(flight.key, rendered, began)
        if verdict.failed:
            self._back_off(flight, lease, self._error_page(rendered))
        elif verdict.refused:
            self._refuse(flight, found, verdict, rendered)
        elif rendered.status in (404, 410) and found.record.entry is None:
            page = self._page(flight.key, rendered, verdict, began, lease.purge_seq, "negative")
            self._keep_unshared(flight, page, position, _NEGATIVE_SECONDS, "fwd=miss")
        else:
            page = self._page(flight.key, rendered, verdict, began, lease.purge_seq, "")
            self._publish(flight, lease, found, page, took, position)

    def _call(self, flight: Flight) -> Rendered | Failed:
        """Call the application with the request that is made of the key."""
        future = flight.render(Projected.of(flight.key))
        if future is None:
            return Failed("origin-busy", time.time() + 1)
        try:
            rendered = future.result(self._settings.render_timeout)
        except TimeoutError:
            future.cancel()
            _logger.warning("rendering %s took longer than %g s", flight.key, self._settings.render_timeout)
            return Failed("timeout", 0)
        except CancelledError:
            return Failed("render-failed", 0)
        except Exception:
            _logger.exception("rendering %s failed", flight.key)
            return Failed("render-failed", 0)
        if not rendered.is_complete:
            _logger.warning("%s has %d bytes, and another Content-Length", flight.key, len(rendered.body))
            return Failed("render-failed", 0)
        return rendered

    def _judge(self, key: str, rendered: Rendered, requested: float) -> Verdict:
        verdict = self._settings.judge(rendered.status, rendered.headers, requested)
        if not verdict.failed and self._redirects_to_itself(key, rendered):
            return Verdict(refused=_SELF_REDIRECT)
        if verdict.failed or verdict.refused:
            return verdict
        empty = rendered.body == b"" and rendered.status in (200, 203)
        reason = rendered.refused or ("empty" if empty else "")
        return replace(verdict, refused=reason, withdraws=False) if reason else verdict

    def _redirects_to_itself(self, key: str, rendered: Rendered) -> bool:
        """Return whether a redirect leads to another spelling of the page: stored, it would be a loop for visitors."""
        if not 300 <= rendered.status <= 399:
            return False
        return any(self._key_at(f"http://{key}", location) == key for location in values(rendered.headers, "location"))

    def _back_off(self, flight: Flight, lease: IsrLease, failed: Failed) -> None:
        """Keep all processes from rendering the page for a moment that doubles with each failure."""
        pause = min(_FIRST_PAUSE * 2 ** min(lease.failures, 10), _LONGEST_PAUSE)
        self._fail(flight, replace(failed, retry_at=time.time() + pause))
        if failed.reason != "origin-busy":
            self._store.back_off(lease, pause_ms=pause * 1000)

    def _fail(self, flight: Flight, failed: Failed) -> None:
        if failed.response is not None:
            wait = str(max(1, math.ceil(failed.retry_at - time.time())))
            headers = [field for field in failed.response.headers if field[0] != "retry-after"]
            headers.append(("retry-after", wait))
            failed = replace(failed, response=replace(failed.response, headers=headers))
        older = flight.older
        if older is None or not older.serves_failures(time.time(), self._settings.stale_seconds):
            # Otherwise each search finds the older page.
            self.failures.put(flight.key, failed, failed.retry_at)
        flight.resolve(failed)

    def _error_page(self, rendered: Rendered) -> Failed:
        """Return the failure with the application's own page, if it is small and personal to no visitor."""
        headers = [field for field in stored_headers(rendered.headers) if field[0] not in ("cache-control", "expires")]
        if is_personal(rendered.headers) or rendered.refused or len(rendered.body) > _MAX_ERROR_PAGE:
            return Failed("render-failed", 0)
        headers += [("content-length", str(len(rendered.body))), ("cache-control", "no-store")]
        headers.append(("cache-status", f"isr; fwd=miss; fwd-status={rendered.status}; detail=render-failed"))
        return Failed("render-failed", 0, Response(rendered.status, headers, rendered.body))

    def _refuse(self, flight: Flight, found: _Found, verdict: Verdict, rendered: Rendered) -> None:
        """Let requests pass through for a while. If the response withdraws the page, no process serves it any more."""
        if verdict.withdraws and found.record.entry is not None and found.state != State.PURGED:
            self._store.purge([PurgeTarget(kind="key", value=flight.key)], hard=True)
            self._memory.drop(flight.key)
        self._pass(flight, verdict, rendered)

    def _pass(self, flight: Flight, verdict: Verdict, rendered: Rendered) -> None:
        """Let requests pass through for a while. The visitor who caused the render gets its response."""
        self.refused.put(flight.key, verdict.refused, time.time() + _REFUSED_SECONDS)
        given = rendered.whole and verdict.refused != _SELF_REDIRECT
        response = Response(rendered.status, rendered.headers, rendered.body) if given else None
        flight.resolve(Refused(verdict.refused, response))

    def _page(
        self, key: str, rendered: Rendered, verdict: Verdict, began: float, purge_seq: int, unshared: str
    ) -> Page:
        """Return the page that was rendered, without what only a stored one has."""
        digest = hashlib.sha256(rendered.body).hexdigest()
        etag = etag_of(rendered.headers) or f'"{digest[:32]}"'
        generation = self._store.new_generation_id()
        fresh = verdict.fresh_seconds - random.randint(0, int(verdict.fresh_seconds * _JITTER))  # noqa: S311
        entry = Entry(
            s3_key=body_prefix(self._store.partition_key(key)) + generation,
            generated_at=math.floor(began),
            generated_ms=math.floor(began * 1000),
            revalidate_seconds=fresh,
            etag=etag,
            generation_id=generation,
            key=key,
            status=rendered.status,
            headers=_stored(stored_headers(rendered.headers)),
            content_sha256=digest,
            content_length=len(rendered.body),
            tags=verdict.tags,
            stale_seconds=verdict.stale_seconds,
            purge_seq=purge_seq,
            age_seconds=initial_age(rendered.headers, began),
        )
        return Page(key, entry, PurgeState(), rendered.body, unshared)

    def _publish(
        self, flight: Flight, lease: IsrLease, found: _Found, page: Page, took: float, position: Position
    ) -> None:
        """Store the body, and then the entry that names it. After a crash in between the body is garbage."""
        entry = replace(page.entry, render_ms=max(1, round(took * 1000)), ttl=self._ttl(page.entry))
        how = f"fwd={'miss' if found.record.entry is None else 'stale'}; fwd-status={entry.status}"
        old = found.page.entry if found.page else None
        try:
            if old is not None and not old.foreign and old.content_sha256 == entry.content_sha256:
                entry = replace(entry, s3_key=old.s3_key)  # which was read, or written, and so exists
            else:
                self._bodies.put(entry.s3_key, page.body)
            entry = self._store.publish(lease, lease.record, entry, unpin=True)
        except (LeaseLostError, MovedError) as error:
            _logger.warning("%s was changed while it was rendered: %s", flight.key, error)
            if self._served(flight, self._look(flight.key)):
                return
            flight.resolve(Served(replace(page, unshared="unpublished"), how))
            return
        except _STORE_ERRORS as error:
            self.mark_down(error)
            self._keep_unshared(flight, replace(page, unshared="unpublished"), position, _UNPUBLISHED_SECONDS, how)
            return
        purges = PurgeState(mark_lifetime=self._store.sequence().mark_lifetime)
        page = self._memory.merged(replace(page, entry=entry, purges=purges))
        self._memory.hold(page, position)
        self.refused.drop(flight.key)
        self.failures.drop(flight.key)
        flight.resolve(Served(page, how + "; stored"))

    def _ttl(self, entry: Entry) -> int:
        kept = 0 if entry.status >= 400 else self._settings.retention_seconds
        return math.floor(max(time.time() + kept, stale_until(entry))) + _DAY

    def _render_unshared(self, flight: Flight) -> None:
        """Render without the store, once for all waiters, and keep the page for a few seconds."""
        flight.looked()
        position = self._memory.position()
        began = time.time()
        rendered = self._call(flight)
        if isinstance(rendered, Failed):
            self._fail(flight, replace(rendered, retry_at=time.time() + _FIRST_PAUSE))
            return
        verdict = self._judge(flight.key, rendered, began)
        if verdict.failed:
            self._fail(flight, replace(self._error_page(rendered), retry_at=time.time() + _FIRST_PAUSE))
        elif verdict.refused:
            self._pass(flight, verdict, rendered)
        else:
            page = self._page(flight.key, rendered, verdict, began, 0, "store-error")
            how = f"fwd=miss; fwd-status={rendered.status}"
            self._keep_unshared(flight, page, position, _UNPUBLISHED_SECONDS, how)

    def _keep_unshared(self, flight: Flight, page: Page, position: Position, longest: int, how: str) -> None:
        window = min(page.entry.revalidate_seconds, longest)
        page = replace(page, entry=replace(page.entry, revalidate_seconds=window, stale_seconds=0))
        self._memory.hold(page, position)
        flight.resolve(Served(page, f"{how}; detail={page.unshared}"))


def _stored(headers: Headers) -> dict[str, tuple[str | bytes, ...]]:
    """Return a header as entries have it: bytes are values that are not UTF-8."""
    stored: dict[str, tuple[str | bytes, ...]] = {}
    for name, value in headers:
        raw = value.encode("latin-1")
        try:
            stored[name] = (*stored.get(name, ()), raw.decode())
        except UnicodeDecodeError:
            stored[name] = (*stored.get(name, ()), raw)
    return stored
