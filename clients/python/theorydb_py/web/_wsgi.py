"""A WSGI middleware (PEP 3333) that answers requests from a PageCache."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

from theorydb_py.web._cache import PageCache, Pass
from theorydb_py.web._flights import MAX_HANDED_OVER, Rendered, is_short
from theorydb_py.web._pages import Response
from theorydb_py.web._requests import Projected, Request
from theorydb_py.web._rules import Headers
from theorydb_py.web._workers import Workers

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]


class WsgiCache:
    """A WSGI application that answers from a cache, and calls another one for the rest.

        app.wsgi_app = WsgiCache(app.wsgi_app, cache)          # Flask
        application = WsgiCache(get_wsgi_application(), cache)  # Django

    Pages are rendered in threads of the cache, at most ``renders`` at a time: the
    application must be thread-safe. It is called with a request that has nothing of a
    visitor's but host, path and the declared query parameters; requests that bypass the
    cache reach it unchanged. It raises what the application raises for those.
    """

    def __init__(self, app: Application, cache: PageCache) -> None:
        """Wrap an application."""
        self._app = app
        self._cache = cache
        self._lock = threading.Lock()
        self._workers: Workers | None = None  # guarded by _lock

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        request = _request(environ)
        mount, multiprocess = str(environ.get("SCRIPT_NAME", "")), environ.get("wsgi.multiprocess", True)

        def render(projected: Projected) -> Future[Rendered] | None:
            return self._renderers().submit(lambda: self._render(self._environ(projected, mount, multiprocess)))

        answer = self._cache.answer(request, render)
        if isinstance(answer, Response):
            start_response(_status_line(answer.status), [(name.title(), value) for name, value in answer.headers])
            return [answer.body]
        return self._app(environ, self._passing(answer, start_response))

    def _passing(self, answer: Pass, start_response: StartResponse) -> StartResponse:
        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            purges = answer.answered(int(status[:3]), [(name.lower(), value) for name, value in headers])
            wait_for(purges, self._cache.store_timeout_seconds)
            return start_response(status, [*headers, ("Cache-Status", answer.cache_status)], exc_info)

        return start

    def _renderers(self) -> Workers:
        with self._lock:
            if self._workers is None or not self._workers.of_this_process():
                self._workers = Workers("isr-render", self._cache.render_workers, self._cache.render_workers)
            return self._workers

    def _environ(self, projected: Projected, mount: str, multiprocess: object) -> Environ:
        path = unquote_to_bytes(projected.path).decode("latin-1")
        name, port = projected.server(self._cache.scheme)
        environ = {
            "REQUEST_METHOD": "GET",
            "SCRIPT_NAME": mount,
            "PATH_INFO": path[len(mount) :],
            "QUERY_STRING": projected.query,
            "SERVER_NAME": name,
            "SERVER_PORT": str(port),
            "SERVER_PROTOCOL": "HTTP/1.1",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": self._cache.scheme,
            "wsgi.input": io.BytesIO(),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": multiprocess,
            "wsgi.run_once": False,
        }
        environ.update(
            {"HTTP_" + name.upper().replace("-", "_"): value for name, value in projected.headers(self._cache.scheme)}
        )
        return environ

    def _render(self, environ: Environ) -> Rendered:
        """Call the application, and read its response while it may be stored."""
        started: list[tuple[int, Headers]] = []
        body = bytearray()

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], object]:
            del exc_info  # nothing was sent yet
            started[:] = [(int(status[:3]), [(name.lower(), value) for name, value in headers])]
            return body.extend

        answer = self._app(environ, start)
        try:
            refused, whole = self._refusal(started, 0), True
            at_hand = isinstance(answer, (list, tuple)) and sum(map(len, answer)) <= MAX_HANDED_OVER
            for chunk in answer:
                if refused and not at_hand and not is_short(started[0][1], len(body)):
                    whole = False
                    break
                body += chunk
                refused = self._refusal(started, len(body))
        finally:
            close = getattr(answer, "close", None)
            if close is not None:
                close()
        if not started:
            raise RuntimeError("the application has not called start_response")
        return Rendered(started[0][0], started[0][1], bytes(body), refused, whole)

    def _refusal(self, started: list[tuple[int, Headers]], length: int) -> str:
        if length > self._cache.max_body_bytes:
            return "too-large"
        return refusal(self._cache, *started[0]) if started else ""


def refusal(cache: PageCache, status: int, headers: Headers) -> str:
    """Return why the body of a response need not be read; empty if it must be."""
    return cache.judge(status, headers).refused


def _request(environ: Environ) -> Request:
    headers = {
        name[5:].replace("_", "-").lower(): str(value)
        for name, value in environ.items()
        if name.startswith("HTTP_") and name != "HTTP_CONTENT_LENGTH"
    }
    path = str(environ.get("SCRIPT_NAME", "")) + str(environ.get("PATH_INFO", ""))
    return Request(
        method=str(environ["REQUEST_METHOD"]),
        path=path.encode("latin-1").decode("utf-8", "surrogateescape") or "/",
        query=str(environ.get("QUERY_STRING", "")),
        headers=headers,
        has_body=environ.get("CONTENT_LENGTH", "") not in ("", "0") or "HTTP_TRANSFER_ENCODING" in environ,
    )


def _status_line(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Unknown"
