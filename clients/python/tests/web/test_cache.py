"""The cache in this process, with a real table and bucket: outages, bounds, and what WSGI demands."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config

from tests.conftest import Engine
from tests.polling import eventually
from tests.web.fleet import S3, credentials, new_bucket
from tests.web.outage import Proxy, proxy
from theorydb_py import InvalidInputError, InvalidKeyError
from theorydb_py._retry import Retry
from theorydb_py.isr import Entry, FaceTheoryIsrMetaStore, PurgeTarget
from theorydb_py.web import AsgiCache, PageCache, WsgiCache
from theorydb_py.web._follower import Follower
from theorydb_py.web._memory import Memory
from theorydb_py.web._presented import presented

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

HOST = "site.test"
PATIENCE = 300
"""The timeouts of the clients of S3 and DynamoDB, in seconds."""
SHARED = [("Content-Type", "text/html"), ("Cache-Control", "public, max-age=600, stale-if-error=600")]


@dataclass
class Site:
    """A WSGI application whose answer a test sets."""

    status: str = "200 OK"
    headers: list[tuple[str, str]] = field(default_factory=lambda: list(SHARED))
    body: Callable[[], Iterable[bytes]] | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    closed: int = 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        self.calls.append(environ)
        number = len(self.calls)
        start_response(self.status, self.headers)
        return _Body(self, self.body() if self.body else [f"page {number}".encode()])


class _Body:
    def __init__(self, site: Site, chunks: Iterable[bytes]) -> None:
        self._site, self._chunks = site, chunks

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._chunks)

    def close(self) -> None:
        self._site.closed += 1


@dataclass
class Answer:
    status: str
    headers: dict[str, str]
    body: bytes

    @property
    def cache(self) -> str:
        return self.headers.get("cache-status", "")


def get(app: Any, path: str = "/", query: str = "", method: str = "GET", **headers: str) -> Answer:
    environ = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "HTTP_HOST": HOST,
        "wsgi.url_scheme": "http",
        **headers,
    }
    started: list[Any] = []

    def start(status: str, fields: list[tuple[str, str]], exc_info: Any = None) -> Any:
        del exc_info
        started[:] = [status, {name.lower(): value for name, value in fields}]

    chunks = app(environ, start)
    try:
        body = b"".join(chunks)
    finally:
        if hasattr(chunks, "close"):
            chunks.close()
    return Answer(started[0], started[1], body)


@dataclass
class Rig:
    table: Proxy
    bucket: Proxy
    store: FaceTheoryIsrMetaStore
    new: Callable[..., PageCache]


@pytest.fixture
def rig(engine: Engine, table_name: str) -> Iterator[Rig]:
    """A store and bucket behind proxies, and caches on them."""
    with new_bucket() as (_, bucket), proxy(engine.url) as table, proxy(S3) as objects, contextlib.ExitStack() as made:
        config: Any = Config(
            connect_timeout=PATIENCE, read_timeout=PATIENCE, retries={"total_max_attempts": 1}, user_agent="tests"
        )
        keys = credentials()
        client: Any = boto3.client
        s3, dynamodb = (
            client(
                service,
                endpoint_url=url,
                region_name="us-east-1",
                aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
                aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
                config=config,
            )
            for service, url in (("s3", objects.url), ("dynamodb", table.url))
        )
        retry = Retry(first_backoff_seconds=0.001, timeout_seconds=60)
        store = FaceTheoryIsrMetaStore(dynamodb, table_name, retry=retry, settle_timeout_seconds=1)

        def new(**options: Any) -> PageCache:
            defaults = {"poll_seconds": 0.05, "store_timeout_seconds": 30, "stale_seconds": 60}
            cache = PageCache(store, s3, bucket, **{**defaults, **options})
            made.callback(cache.close)
            return cache

        yield Rig(table, objects, store, new)
        made.close()
        s3.close()
        dynamodb.close()


def following(rig: Rig) -> PageCache:
    """Return a cache that has begun to follow the log, which drops what is in memory."""
    cache = rig.new()
    get(WsgiCache(Site(), cache), "/first")
    cache.catch_up()
    return cache


def test_catching_up_waits_for_a_new_read(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that was in progress when the process was frozen has seen an older log."""
    reads = [(threading.Event(), threading.Event()) for _ in range(2)]
    pending, read_sequence = iter(reads), rig.store.sequence

    def sequence() -> Any:
        found = read_sequence()
        begun, goes_on = next(pending, reads[-1])
        begun.set()
        goes_on.wait(PATIENCE)
        return found

    monkeypatch.setattr(rig.store, "sequence", sequence)
    follower = Follower(rig.store, Memory(1 << 20), 300)
    follower.start()
    assert reads[0][0].wait(PATIENCE)
    waiting = threading.Thread(target=follower.wait, args=(PATIENCE,))
    waiting.start()
    assert eventually(follower._wake.is_set)
    reads[0][1].set()
    assert reads[1][0].wait(PATIENCE)
    waiting.join(0.2)
    assert waiting.is_alive()
    reads[1][1].set()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    follower.stop()


@pytest.mark.parametrize("which", ["table", "bucket"])
def test_outage(rig: Rig, which: str) -> None:
    site = Site()
    cache = following(rig)
    app = WsgiCache(site, cache)
    assert get(app, "/held").body == b"page 1"
    broken: Proxy = getattr(rig, which)
    broken.cut(off=True)
    # What is in memory is served, and other pages are rendered, once for all waiters.
    assert get(app, "/held").body == b"page 1"
    with ThreadPoolExecutor(4) as visitors:
        answers = list(visitors.map(lambda _: get(app, "/other"), range(8)))
    assert {answer.status for answer in answers} == {"200 OK"}
    assert len({answer.body for answer in answers}) <= 2
    assert any("store-error" in answer.cache or "unpublished" in answer.cache for answer in answers)
    broken.cut(off=False)
    assert eventually(lambda: "stored" in get(app, "/other", "utm_source=x").cache or stored(rig, "/other"))


def stored(rig: Rig, path: str) -> bool:
    return rig.store.read(HOST + path).entry is not None


def test_table_hangs(rig: Rig) -> None:
    site = Site()
    app = WsgiCache(site, rig.new(store_timeout_seconds=0.2))
    rig.table.hang = True
    began = time.monotonic()
    answer = get(app, "/")
    assert (answer.body, "store-error" in answer.cache) == (b"page 1", True)
    assert time.monotonic() - began < PATIENCE
    assert get(app, "/").body == b"page 1"
    rig.table.hang = False
    rig.table.cut(off=True)
    rig.table.cut(off=False)
    assert eventually(lambda: get(app, "/") is not None and stored(rig, "/"))


def test_one_search_probes_after_the_pause(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """All other visitors are answered without the store, whether the probe succeeds or not."""
    app = WsgiCache(Site(), rig.new(store_timeout_seconds=PATIENCE))
    reads: list[str] = []
    gate, read_page = threading.Event(), rig.store.read

    def read(key: str) -> Any:
        reads.append(key)
        assert gate.wait(PATIENCE)
        return read_page(key)

    rig.table.cut(off=True)
    assert "store-error" in get(app, "/first").cache
    monkeypatch.setattr(rig.store, "read", read)
    for answers in (False, True):
        time.sleep(1.1)  # the pause
        gate.clear()
        with ThreadPoolExecutor(12) as visitors:
            visits = [visitors.submit(get, app, f"/{answers}/{n}") for n in range(12)]
            assert eventually(lambda visits=visits: sum(visit.done() for visit in visits) >= 11)  # type: ignore[misc]
            assert len(reads) == 1
            rig.table.cut(off=not answers)
            gate.set()
        assert len(reads) == 1
        reads.clear()
    assert "stored" in get(app, "/last").cache


def test_stale_during_outage(rig: Rig) -> None:
    site = Site(headers=[("Cache-Control", "public, max-age=1")])
    app = WsgiCache(site, following(rig))
    assert get(app).body == b"page 1"
    time.sleep(1.1)  # until it is stale
    rig.table.cut(off=True)
    answer = get(app)
    assert (answer.body, "detail=stale" in answer.cache) == (b"page 1", True)


def test_purge_by_this_process_and_others(rig: Rig) -> None:
    site = Site(headers=[*SHARED, ("Cache-Tag", "a,b"), ("Surrogate-Key", "c")])
    cache, other = rig.new(), WsgiCache(site, rig.new())
    app = WsgiCache(site, cache)
    purges: list[dict[str, Any]] = [
        {"tags": ["b"]},
        {"tags": ["c"]},
        {"urls": [f"https://{HOST}/news"]},
        {"prefixes": [f"{HOST}/ne"]},
    ]
    for targets in purges:
        before = get(app, "/news").body
        assert get(other, "/news").body == before
        cache.purge(**targets, hard=True)
        assert get(app, "/news").body != before
        assert eventually(partial(differs, other, before))
    # A soft purge: the stale page, while it is rendered again.
    before = get(app, "/news").body
    cache.purge(tags=["a"])
    answer = get(app, "/news")
    assert (answer.body, answer.headers["cache-control"]) == (before, "max-age=0, must-revalidate")
    assert eventually(lambda: get(app, "/news").body != before)


def differs(app: WsgiCache, before: bytes) -> bool:
    return get(app, "/news").body != before


def test_purge_while_rendering(rig: Rig) -> None:
    begun, go = threading.Event(), threading.Event()
    site = Site()
    cache = rig.new()
    app = WsgiCache(site, cache)

    def body() -> Iterable[bytes]:
        begun.set()
        go.wait(PATIENCE)
        return [b"old"]

    site.body = body
    with ThreadPoolExecutor(1) as visitor:
        first = visitor.submit(get, app, "/")
        assert begun.wait(PATIENCE)
        purge = rig.store.purge([PurgeTarget(kind="site")], hard=True)
        assert eventually(lambda: cache._follower._cursor >= purge.seq)
        go.set()
        assert first.result().body == b"old"
    site.body = None
    assert get(app, "/").body == b"page 2"


def test_gap_in_the_log(rig: Rig, client: DynamoDBClient, table_name: str) -> None:
    site = Site(headers=[*SHARED, ("Cache-Tag", "a")])
    cache = rig.new(poll_seconds=300)
    app = WsgiCache(site, cache)
    assert get(app, "/").body == b"page 1"
    assert eventually(lambda: get(app, "/").cache.startswith("isr; hit"))
    cache._follower.read_now()
    seq = rig.store.purge([PurgeTarget(kind="tag", value="a")], hard=True).seq
    client.delete_item(TableName=table_name, Key={"pk": {"S": "PURGE"}, "sk": {"S": f"LOG#{seq:020d}"}})
    assert get(app, "/").body == b"page 1"  # within the bound
    cache._follower.read_now()
    assert get(app, "/").body == b"page 2"


def test_failures(rig: Rig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theorydb_py.web._regenerate._FIRST_PAUSE", 32.0)  # outlasts the visits
    site = Site(status="500 Internal Server Error", headers=[("Content-Type", "text/plain")])
    app = WsgiCache(site, rig.new())
    answers = [get(app, "/broken") for _ in range(3)]
    assert {(a.status, a.body, a.headers["cache-control"]) for a in answers} == {
        ("500 Internal Server Error", b"page 1", "no-store")
    }
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)
    # Another process respects the backoff.
    assert get(WsgiCache(site, rig.new()), "/broken").status == "503 Service Unavailable"
    site.headers = [("Set-Cookie", "a=b")]
    personal = get(app, "/personal")
    assert (personal.status, "set-cookie" in personal.headers) == ("503 Service Unavailable", False)

    def raising(*_: Any) -> Any:
        raise ValueError("broken")

    assert get(WsgiCache(raising, rig.new()), "/raises").status == "503 Service Unavailable"
    assert "broken" in caplog.text


@pytest.mark.parametrize(
    ("directives", "hard", "served"),
    [
        ("s-maxage=600", False, True),
        ("public, max-age=600", False, True),
        ("s-maxage=600", True, False),
        ("s-maxage=600, proxy-revalidate", False, False),
    ],
)
def test_failure_after_a_purge(rig: Rig, directives: str, hard: bool, served: bool) -> None:
    """Without a stale window a page is served after a soft purge while renders fail, as long as it would be fresh."""
    site = Site(headers=[("Cache-Control", directives)])
    cache = rig.new(stale_seconds=0)
    apps = [WsgiCache(site, cache), WsgiCache(site, rig.new(stale_seconds=0))]
    assert get(apps[0]).body == b"page 1"
    cache.purge(urls=[f"{HOST}/"], hard=hard)
    site.status = "503 Service Unavailable"
    for app in apps:
        answer = get(app)
        assert (answer.status, answer.body == b"page 1") == ("200 OK" if served else site.status, served)
        assert not served or "detail=stale-if-error" in answer.cache


def test_render_timeout(rig: Rig) -> None:
    go = threading.Event()
    site = Site(body=lambda: [str(go.wait(PATIENCE)).encode()])
    app = WsgiCache(site, rig.new(render_timeout_seconds=0.2, renders=1))
    assert get(app, "/hangs").status == "504 Gateway Timeout"
    # The thread that hangs is not replaced: nothing makes more of them.
    for path in ("/a", "/b", "/c"):
        assert get(app, path).status[:3] in ("503", "504")
    go.set()
    site.body = None
    assert eventually(lambda: get(app, "/new").status == "200 OK" or get(app, f"/{time.time()}").status == "200 OK")


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([], "no-freshness"),
        ([("Cache-Control", "max-age=0")], "no-freshness"),
        ([("Expires", "2037")], "no-freshness"),
        ([("Cache-Control", "s-maxage=60"), ("Age", "60, 0")], "too-old"),
        ([("Cache-Control", "public, max-age=60, private")], "private"),
        ([("Cache-Control", "s-maxage=60"), ("Set-Cookie", "a=b")], "set-cookie"),
        ([("Cache-Control", "s-maxage=60"), ("Vary", "Cookie")], "vary"),
        ([("Cache-Control", "s-maxage=60"), ("Vary", "*")], "vary"),
        ([("Cache-Control", 's-maxage=60, x="')], "malformed"),
        ([("CDN-Cache-Control", "no-store"), ("Cache-Control", "s-maxage=60")], "no-store"),
        ([("CDN-Cache-Control", "max-age=60, private;x")], "private"),
        ([("Cache-Control", "s-maxage=60"), ("Content-Encoding", "gzip")], "content-encoding"),
        ([("Cache-Control", "s-maxage=60"), ("Content-Type", "text/event-stream")], "stream"),
        ([("Cache-Control", "s-maxage=60"), ("Cache-Tag", ",".join(map(str, range(513))))], "tags"),
        ([("Cache-Control", "s-maxage=60"), ("Cache-Groups", "a, b")], "tags"),
        ([("Cache-Control", "s-maxage=60"), ("X-Large", "x" * 66000)], "header-too-large"),
    ],
)
def test_refused(rig: Rig, headers: list[tuple[str, str]], reason: str) -> None:
    site = Site(headers=headers)
    app = WsgiCache(site, rig.new())
    for _ in range(2):
        answer = get(app, "/", HTTP_X_VISITOR="me")
        assert answer.cache.endswith(f"detail={reason}")
    assert not stored(rig, "/")
    assert [("HTTP_X_VISITOR" in environ) for environ in site.calls] == [False, True, True]
    assert site.closed == 3


def test_bounds_and_opt_in(rig: Rig) -> None:
    cases: tuple[tuple[list[tuple[str, str]], dict[str, object], str], ...] = (
        ([("Cache-Control", "max-age=60")], {"opt_in": "strict"}, "no-freshness"),
        ([("Expires", "Thu, 01 Jan 2099 00:00:00 GMT")], {"opt_in": "strict"}, "no-freshness"),
        ([("Cache-Control", "s-maxage=60"), ("Cache-Tag", "a,b,c")], {"max_tags": 2}, "tags"),
        ([("Cache-Control", "s-maxage=60"), ("X-Large", "x" * 2000)], {"max_header_bytes": 2000}, "header-too-large"),
    )
    for n, (headers, options, reason) in enumerate(cases):
        app = WsgiCache(Site(headers=headers), rig.new(**options))
        assert get(app, f"/{n}").cache.endswith(f"detail={reason}")
        assert "stored" in get(WsgiCache(Site(headers=headers), rig.new()), f"/default/{n}").cache
    with pytest.raises(InvalidInputError, match="opt_in"):
        rig.new(opt_in="never")


@pytest.mark.parametrize(
    "location",
    [
        "/p%c3%a9?b=1",
        f"//{HOST}:443/p%C3%A9?b=1",
        f"https://{HOST}./p%C3%A9?b=1#top",
        "?b=1",
        "p\u00e9?b=1&utm_source=x",
    ],
)
def test_redirect_to_the_page_itself(rig: Rig, location: str) -> None:
    redirect = [("Cache-Control", "s-maxage=60"), ("Location", location.encode().decode("latin-1"))]
    site = Site(status="301 Moved Permanently", headers=redirect)
    app = WsgiCache(site, rig.new(query=["b"]))
    path = "/p\u00e9".encode().decode("latin-1")
    for _ in range(2):
        answer = get(app, path, "b=1", HTTP_X_VISITOR="me")
        assert answer.cache.endswith("detail=self-redirect"), answer.cache
    assert not stored(rig, "/p%C3%A9?b=1")
    site.headers = [("Cache-Control", "s-maxage=60"), ("Location", "/other")]
    assert "stored" in get(app, "/another").cache


def test_unsafe_request_purges_its_location(rig: Rig) -> None:
    site = Site()
    app = WsgiCache(site, rig.new())
    path = "/p\u00e9".encode().decode("latin-1")
    before = get(app, path).body
    site.headers = [*SHARED, ("Location", "/p%C3%A9"), ("Content-Location", "http://["), ("Location", "ftp://x/")]
    assert get(app, "/form", method="POST").status == "200 OK"
    site.headers = list(SHARED)
    assert get(app, path).body != before


def test_a_flood_of_unsafe_requests_is_merged(rig: Rig) -> None:
    """One purge at once, and one after the last request; a page that renders in ten seconds is purged once a minute."""
    site = Site()
    caches = [rig.new(), rig.new()]
    apps = [WsgiCache(site, cache) for cache in caches]
    before = get(apps[0]).body
    entry = rig.store.read(f"{HOST}/").entry
    assert entry is not None
    lease = rig.store.acquire_lease(f"{HOST}/")
    rig.store.publish(lease, lease.record, replace(entry, render_ms=10_000))
    first = rig.store.sequence().seq
    with ThreadPoolExecutor(8) as visitors:
        list(visitors.map(lambda i: get(apps[i % 2], "/", "", "POST"), range(100)))
    made = rig.store.sequence().seq
    assert 1 <= made - first <= 2  # one by each cache, if they read at the same time
    after = get(apps[1]).body
    assert after != before
    for cache in caches:
        cache.close()
    assert 1 <= rig.store.sequence().seq - made <= 2
    assert get(WsgiCache(site, rig.new())).body != after


def test_unsafe_requests_within_the_interval_have_their_effect(rig: Rig) -> None:
    site = Site()
    app = WsgiCache(site, rig.new())
    for method in ("POST", "FROBNICATE"):
        before = get(app, "/news").body
        assert get(app, "/news", method=method).status == "200 OK"
        assert eventually(partial(differs, app, before))
    assert rig.store.sequence().seq == 2
    for path in ("/a", "/b"):
        get(app, path, method="POST")
    assert rig.store.sequence().seq == 2  # they are not stored


def test_a_purge_that_fails_is_repeated(rig: Rig) -> None:
    site = Site()
    cache, other = following(rig), WsgiCache(site, rig.new())
    app = WsgiCache(site, cache)
    before = get(app).body
    assert get(other).body == before
    rig.table.cut(off=True)
    assert get(app, method="POST").status == "200 OK"
    rig.table.cut(off=False)
    assert eventually(lambda: rig.store.sequence().seq == 1)
    assert eventually(lambda: get(other).body != before)


def test_a_visitor_who_comes_after_an_unsafe_request_gets_no_older_render(rig: Rig) -> None:
    begun, go = threading.Event(), threading.Event()
    site = Site()
    app = WsgiCache(site, rig.new())

    def body() -> Iterable[bytes]:
        begun.set()
        go.wait(PATIENCE)
        return [b"old"]

    site.body = body
    with ThreadPoolExecutor(2) as visitors:
        first = visitors.submit(get, app)
        assert begun.wait(PATIENCE)
        site.body = None
        get(app, method="POST")
        later = visitors.submit(get, app)
        go.set()
        assert first.result().body == b"old"
        assert later.result().body == b"page 3"


class OneTime:
    """A page that works once, as the links in mails do."""

    def __init__(self, *headers: tuple[str, str]) -> None:
        self.headers = [("Content-Type", "text/plain"), *headers]
        self.used: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        self.used.append(environ["PATH_INFO"])
        text = b"welcome" if self.used.count(environ["PATH_INFO"]) == 1 else b"used"
        start_response("200 OK", [*self.headers, ("Content-Length", str(len(text)))])
        return [text]


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([("Set-Cookie", "sid=1"), ("Cache-Control", "s-maxage=60")], "set-cookie"),
        ([("Cache-Control", "private")], "private"),
        ([("Cache-Control", "no-store"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=1")], "set-cookie"),
        ([], "no-freshness"),
    ],
)
@pytest.mark.parametrize("table", ["", "down"])
def test_a_response_that_is_not_stored_is_for_its_visitor(
    rig: Rig, headers: list[tuple[str, str]], reason: str, table: str
) -> None:
    if table:
        rig.table.cut(off=True)
    site = OneTime(*headers)
    app = WsgiCache(site, rig.new())
    first = get(app, "/magic", HTTP_X_ANYTHING="x")
    assert (first.body, first.cache) == (b"welcome", f"isr; fwd=miss; detail={reason}")
    assert first.headers.get("set-cookie") == dict(headers).get("Set-Cookie")
    with ThreadPoolExecutor(8) as visitors:
        answers = list(visitors.map(lambda _: get(app, "/tabs").body, range(8)))
    assert sorted(answers) == [b"used"] * 7 + [b"welcome"]
    head = get(app, "/head", method="HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == ("200 OK", b"", "7")


def test_a_response_without_a_length_is_for_its_visitor(rig: Rig) -> None:
    site = OneTime(("Cache-Control", "no-store"))

    def without(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        return site(environ, lambda status, headers: start_response(status, headers[:-1]))

    assert get(WsgiCache(without, rig.new()), "/list").body == b"welcome"


def test_asgi_response_that_is_not_stored(rig: Rig) -> None:
    """The visitor who caused the render gets it if its body is one message; a stream is not waited for."""
    calls: list[str] = []

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        path = scope["path"]
        calls.append(path)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"cache-control", b"no-store")]})
        if path == "/late":
            await asyncio.sleep(PATIENCE)
        body = str(calls.count(path)).encode()
        await send({"type": "http.response.body", "body": body, "more_body": path == "/parts"})
        if path == "/parts":
            await send({"type": "http.response.body", "body": b"."})

    async def visit(path: str, *, until: int) -> bytes:
        """Return what a visitor gets once the application was called so often."""
        scope = {"type": "http", "method": "GET", "path": path, "headers": [(b"host", HOST.encode())]}
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        visitor = asyncio.create_task(cached(scope, receive, send))
        while len(calls) < until or (path != "/late" and not visitor.done()):
            await asyncio.sleep(0.01)
        visitor.cancel()
        return b"".join(message.get("body", b"") for message in sent)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    cached = AsgiCache(app, rig.new())
    assert asyncio.run(visit("/whole", until=1)) == b"1"
    assert asyncio.run(visit("/parts", until=3)) == b"2."
    assert asyncio.run(visit("/late", until=5)) == b""
    assert calls == ["/whole", "/parts", "/parts", "/late", "/late"]


def test_a_visitor_of_another_variant_sends_their_own_request(rig: Rig) -> None:
    site = OneTime(("Cache-Control", "s-maxage=60"), ("Vary", "Accept-Language, Accept-Encoding"))
    app = WsgiCache(site, rig.new())
    assert get(app, "/fr", HTTP_ACCEPT_LANGUAGE="fr").body == b"used"
    assert get(app, "/any", HTTP_ACCEPT_ENCODING="gzip").body == b"welcome"


def test_a_body_of_another_length_is_a_failed_render(rig: Rig) -> None:
    site = Site(headers=[*SHARED, ("Content-Length", "8")], body=lambda: iter([b"half"]))
    app = WsgiCache(site, rig.new())
    assert get(app, "/short").status == "503 Service Unavailable"
    assert not stored(rig, "/short")
    site.body = lambda: iter([b"comp", b"lete"])
    assert get(app, "/whole").body == b"complete"


def test_bodies(rig: Rig) -> None:
    site = Site()
    app = WsgiCache(site, rig.new(max_body_bytes=1000))
    site.body = lambda: iter([b"x" * 600, b"x" * 600])
    assert len(get(app, "/large").body) == 1200
    assert get(app, "/large").cache.endswith("detail=too-large")
    site.body = list
    assert get(app, "/empty").cache.endswith("detail=empty")

    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 100

    site.body = endless
    chunks = app({"REQUEST_METHOD": "GET", "PATH_INFO": "/endless", "HTTP_HOST": HOST}, lambda *_: None)
    assert next(iter(chunks)) == b"x" * 100  # it passes through as it comes


@pytest.mark.parametrize(
    ("path", "query", "headers", "key"),
    [
        ("/", "", {}, "/"),
        ("/caf\xc3\xa9 x", "", {}, "/caf%C3%A9%20x"),
        ("/a%?#", "", {}, "/a%25%3F%23"),
        ("/a", "lang=de&utm_source=x&gclid=y", {}, "/a?lang=de"),
        ("/a", "lang=d%65&lang=b", {}, "/a?lang=de&lang=b"),
        ("/a", "", {"HTTP_COOKIE": "_ga=1; theme=x"}, "/a"),
    ],
)
def test_keys(rig: Rig, path: str, query: str, headers: dict[str, str], key: str) -> None:
    site = Site()
    app = WsgiCache(site, rig.new(query=["lang"], ignore_cookies=["them*"]))
    assert "stored" in get(app, path, query, **headers).cache
    assert stored(rig, key)
    seen = site.calls[0]
    assert (seen["PATH_INFO"], seen["HTTP_HOST"], seen["wsgi.url_scheme"]) == (path, HOST, "https")
    assert not {"HTTP_COOKIE", "REMOTE_ADDR"} & set(seen)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"query": "other=1"}, "query"),
        ({"query": "lang=1;other=2"}, "query"),
        ({"query": "lang=%FF%"}, "host"),
        ({"HTTP_COOKIE": "session=1"}, "cookie"),
        ({"HTTP_AUTHORIZATION": "Basic x"}, "authorization"),
        ({"HTTP_UPGRADE": "websocket"}, "upgrade"),
        ({"CONTENT_LENGTH": "3"}, "body"),
        ({"HTTP_TRANSFER_ENCODING": "chunked"}, "body"),
        ({"HTTP_X_TENANT_ID": "a"}, "tenant"),
        ({"HTTP_HOST": ""}, "host"),
        ({"HTTP_HOST": "evil.test/x?"}, "host"),
        ({"HTTP_HOST": "a b"}, "host"),
        ({"path": "/" + "x" * 5000}, "key-length"),
    ],
)
def test_bypassed(rig: Rig, request_: dict[str, str], reason: str) -> None:
    site = Site()
    app = WsgiCache(site, rig.new(query=["lang"]))
    get(app, "/")
    answer = get(app, **{"path": "/", **request_})
    assert (answer.body, answer.cache) == (b"page 2", f"isr; fwd=bypass; detail={reason}")


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_scheme(rig: Rig, scheme: str) -> None:
    """Renders see the scheme of the site, also where applications read it from the header of a proxy."""
    site = Site()
    app = WsgiCache(site, rig.new(scheme=scheme))
    for path, proto in (("/a", "https"), ("/b", "http"), ("/c", "gopher")):
        assert "stored" in get(app, path, HTTP_X_FORWARDED_PROTO=proto).cache
    seen = {(call["wsgi.url_scheme"], call["HTTP_X_FORWARDED_PROTO"], call["SERVER_PORT"]) for call in site.calls}
    assert seen == {(scheme, scheme, "443" if scheme == "https" else "80")}
    get(app, "/own", HTTP_COOKIE="session=1", HTTP_X_FORWARDED_PROTO="http")
    assert (site.calls[-1]["wsgi.url_scheme"], site.calls[-1]["HTTP_X_FORWARDED_PROTO"]) == ("http", "http")


def test_hosts(rig: Rig) -> None:
    app = WsgiCache(Site(), rig.new(hosts=["Site.Test:80"]))
    assert "stored" in get(app, "/").cache
    assert get(app, "/", HTTP_HOST="invented.test").cache == "isr; fwd=bypass; detail=host"
    with pytest.raises(InvalidKeyError):
        rig.new(hosts=["a b"])


def test_memory_is_bounded(rig: Rig) -> None:
    site = Site(body=lambda: [b"x" * 10_000])
    app = WsgiCache(site, rig.new(memory_bytes=50_000))
    for n in range(10):
        get(app, f"/{n}")
    assert get(app, "/0").cache.startswith("isr; hit")  # from the bucket
    assert len(site.calls) == 10
    small = WsgiCache(site, rig.new(memory_bytes=0))
    assert [get(small, "/1").cache.startswith("isr; hit") for _ in range(2)] == [True, True]


def test_damaged_body(rig: Rig) -> None:
    site = Site()
    cache = rig.new()
    assert get(WsgiCache(site, cache), "/").body == b"page 1"
    entry = rig.store.read(f"{HOST}/").entry
    assert entry is not None
    cache._bodies._client.put_object(Bucket=cache._bodies._bucket, Key=entry.s3_key, Body=b"page X")
    assert get(WsgiCache(site, rig.new()), "/").body == b"page 2"


def put_page_of_another_service(rig: Rig, cache: PageCache, path: str, metadata: dict[str, str]) -> None:
    """Publish a page as FaceTheory's runtime does: its status and header are beside the body."""
    key = f"isr/pages{path}.html"
    cache._bodies._client.put_object(Bucket=cache._bodies._bucket, Key=key, Body=b"theirs", Metadata=metadata)
    lease = rig.store.acquire_lease(HOST + path)
    rig.store.commit_generation(
        cache_key=HOST + path,
        lease_token=lease.lease_token,
        html_pointer=key,
        generated_at_ms=time.time() * 1000,
        revalidate_seconds=600,
        etag='"theirs"',
    )


def test_page_of_another_service(rig: Rig) -> None:
    site, policy = Site(), "default-src 'self'"
    metadata = {
        "facetheory-status": "404",
        "facetheory-content-type": "application/problem+json",
        "facetheory-content-security-policy": policy,
    }
    put_page_of_another_service(rig, rig.new(), "/missing", metadata)
    put_page_of_another_service(rig, rig.new(), "/plain", {})
    for memory in (0, 1 << 20):
        app = WsgiCache(site, rig.new(memory_bytes=memory))
        for condition in ({}, {"HTTP_IF_NONE_MATCH": '"theirs"'}, {"HTTP_RANGE": "bytes=0-3"}):
            answer = get(app, "/missing", **condition)
            assert (answer.status, answer.body, answer.headers["content-security-policy"]) == (
                "404 Not Found",
                b"theirs",
                policy,
            )
            assert (answer.headers["content-type"], answer.headers["etag"]) == ("application/problem+json", '"theirs"')
        answer = get(app, "/missing", method="HEAD")
        assert (answer.status, answer.body) == ("404 Not Found", b"")
        answer = get(app, "/plain")
        assert (answer.status, answer.headers["content-type"]) == ("200 OK", "text/html; charset=utf-8")
        assert get(app, "/plain", HTTP_IF_NONE_MATCH='"theirs"').status.startswith("304")
    assert site.calls == []


def test_unpresentable_page_is_rendered(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    site, cache = Site(), rig.new()
    put_page_of_another_service(rig, cache, "/moved", {"facetheory-status": "301"})
    assert get(WsgiCache(site, cache), "/moved").body == b"page 1"
    assert "status 301 is a redirect" in caplog.text


THEIRS = Entry(s3_key="isr/1.html", generated_at=1, revalidate_seconds=60, foreign=True)


@pytest.mark.parametrize(
    ("status", "kind", "policy"),
    [
        ("200", "text/html; charset=utf-8", ""),
        ("404", "application/problem+json", "default-src 'self'"),
        ("410", "text/html ; charset=utf-8", ""),
        ("451", "", "x" * (8 << 10)),
    ],
)
def test_presented(status: str, kind: str, policy: str) -> None:
    given = {"facetheory-status": status, "facetheory-content-type": kind, "facetheory-content-security-policy": policy}
    entry = presented(THEIRS, given)
    header = {"content-type": (kind,), "content-security-policy": (policy,)}
    assert (entry.status, entry.headers) == (int(status), {n: v for n, v in header.items() if v != ("",)})
    assert presented(THEIRS, {}).status == 200


@pytest.mark.parametrize(
    "given",
    [
        *(
            {"facetheory-status": status}
            for status in (
                *(
                    "ok",
                    "4040",
                    "20",
                    "+20",
                    " 200",
                    "20\n",
                    "\u0662\u0660\u0660",
                    "000",
                    "100",
                    "206",
                    "300",
                    "302",
                    "304",
                ),
                *("401", "407", "408", "412", "416", "425", "429", "500", "503", "600"),
            )
        ),
        *(
            {"facetheory-content-type": kind}
            for kind in (
                *(
                    "text",
                    "text/",
                    "/html",
                    "text/html/x",
                    "text html",
                    " text/html",
                    "text/html\r\nX: y",
                    "text/html; a=\u00fc",
                ),
                "text/html; a=" + "x" * (8 << 10),
            )
        ),
        *(
            {"facetheory-content-security-policy": policy}
            for policy in ("default-src\n'self'", "default-src \u00e9", "=?UTF-8?Q?a?=", "x" * ((8 << 10) + 1))
        ),
    ],
)
def test_not_presented(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"status|media type|policy"):
        presented(THEIRS, given)


def test_withdrawn(rig: Rig) -> None:
    site = Site()
    cache = rig.new()
    app = WsgiCache(site, cache)
    get(app, "/")
    site.headers = [("Cache-Control", "private")]
    cache.purge(urls=[f"{HOST}/"])
    get(app, "/")  # the stale page
    assert eventually(lambda: get(app, "/").cache.endswith("private"))
    other = WsgiCache(Site(headers=[("Cache-Control", "private")]), rig.new())
    assert get(other, "/").cache.endswith("detail=private")


def test_options(rig: Rig) -> None:
    for wrong in (
        {"scheme": "ftp"},
        {"poll_seconds": 0},
        {"lease_seconds": 0.5},
        {"renders": 1000},
        {"query": "lang"},
        {"max_body_bytes": -1},
        {"stale_seconds": True},
    ):
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            rig.new(**wrong)
    tenants = FaceTheoryIsrMetaStore(object(), "t", tenant="a")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="tenant"):
        PageCache(tenants, object(), "bucket")
