"""An ASGI middleware (version 3) that answers requests from a PageCache."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import Future
from typing import Any
from urllib.parse import unquote

from theorydb_py.web._cache import PageCache, Pass
from theorydb_py.web._flights import Flight, Rendered, is_short
from theorydb_py.web._pages import Response
from theorydb_py.web._requests import Projected, Request
from theorydb_py.web._rules import Headers
from theorydb_py.web._wsgi import refusal

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_BODY_SECONDS = 0.25
"""How long to wait for the body of a response that is not stored, which goes to the visitor who caused the render."""

_logger = logging.getLogger("theorydb_py.web")

Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class AsgiCache:
    """An ASGI application that answers from a cache, and calls another one for the rest.

        app = AsgiCache(app, cache)                # any, such as Django's
        app.add_middleware(AsgiCache, cache=cache)  # FastAPI and Starlette

    Pages are rendered in tasks of the server's event loop, at most ``renders`` at a
    time. The application is called with a request that has nothing of a visitor's but
    host, path and the declared query parameters, and the state of the lifespan.
    Requests that bypass the cache, WebSockets and the lifespan reach it unchanged. It
    raises what the application raises for those.
    """

    def __init__(self, app: Application, cache: PageCache) -> None:
        """Wrap an application."""
        self._app = app
        self._cache = cache
        self._state: dict[str, Any] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            self._state = scope.get("state")
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _request(scope)
        answer = await self._answer(request, scope)
        if isinstance(answer, Response):
            await _send(answer, send)
            return
        await self._app(scope, receive, self._passing(answer, send))

    async def _answer(self, request: Request, scope: Scope) -> Response | Pass:
        loop, mount = asyncio.get_running_loop(), str(scope.get("root_path", ""))

        def render(projected: Projected) -> Future[Rendered]:
            return asyncio.run_coroutine_threadsafe(self._render(self._scope(projected, mount)), loop)

        if self._cache.frozen():
            await asyncio.to_thread(self._cache.catch_up)
        step = self._cache.begin(request, render)
        while isinstance(step, Flight):
            for future, timeout in self._cache.stages(step):
                if not future.done():
                    await asyncio.wait([asyncio.wrap_future(future)], timeout=timeout)
                if not future.done():
                    break
            step = self._cache.finish(request, step)
        return step

    def _passing(self, answer: Pass, send: Send) -> Send:
        async def passing(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", []))
                purges = [asyncio.wrap_future(purge) for purge in answer.answered(message["status"], _decoded(headers))]
                if purges:
                    await asyncio.wait(purges, timeout=self._cache.store_timeout_seconds)
                message = {**message, "headers": [*headers, (b"cache-status", answer.cache_status.encode())]}
            await send(message)

        return passing

    def _scope(self, projected: Projected, mount: str) -> Scope:
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": self._cache.scheme,
            "path": unquote(projected.path, errors="surrogateescape"),
            "raw_path": projected.path.encode(),
            "query_string": projected.query.encode(),
            "root_path": mount,
            "headers": [(name.encode(), value.encode()) for name, value in projected.headers(self._cache.scheme)],
            "client": None,
            "server": projected.server(self._cache.scheme),
        }
        if self._state is not None:
            scope["state"] = self._state.copy()
        return scope

    async def _render(self, scope: Scope) -> Rendered:
        """Call the application in a task of its own, which may go on after its response (background tasks)."""
        call = _Call(self._cache)
        task = asyncio.get_running_loop().create_task(call.run(self._app, scope))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(call.answered)
        except asyncio.CancelledError:
            task.cancel()
            raise


class _Call:
    """One call of the application, and its response."""

    def __init__(self, cache: PageCache) -> None:
        self._cache = cache
        self.answered: asyncio.Future[Rendered] = asyncio.get_running_loop().create_future()
        self._received = False
        self._over = asyncio.Event()
        self._status = 0
        self._headers: Headers = []
        self._body = bytearray()
        self._refused = ""
        self._later: asyncio.TimerHandle | None = None

    async def run(self, app: Application, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        except Exception as error:
            if self.answered.done() and not self._refused:
                _logger.exception("the application failed after its response")
            self._resolve(error=error)
        finally:
            self._resolve(error=RuntimeError("the application has ended without a response"))

    async def _receive(self) -> Message:
        if not self._received:
            self._received = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self.answered.done():
            raise OSError("the response is not read any further")  # as ASGI 2.4 has it for a client that has gone
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], _decoded(message.get("headers", []))
            self._refused = refusal(self._cache, self._status, self._headers)
            if self._refused and not is_short(self._headers, 0):
                # Its body may follow at once, in one message; a stream is not waited for.
                wait = 0.0 if self._refused in ("stream", "too-large") else _BODY_SECONDS
                self._later = asyncio.get_running_loop().call_later(wait, lambda: self._resolve(whole=False))
        elif message["type"] == "http.response.body":
            if self._later is not None:
                self._later.cancel()
            self._body += message.get("body", b"")
            if len(self._body) > self._cache.max_body_bytes:
                self._refused = "too-large"
            whole = not message.get("more_body", False)
            if whole or (self._refused and not is_short(self._headers, len(self._body))):
                self._resolve(whole=whole)

    def _resolve(self, error: Exception | None = None, *, whole: bool = True) -> None:
        self._over.set()
        if self.answered.done():
            return
        if error is None:
            self.answered.set_result(Rendered(self._status, self._headers, bytes(self._body), self._refused, whole))
        else:
            self.answered.set_exception(error)


def _request(scope: Scope) -> Request:
    headers: dict[str, str] = {}
    for name, value in _decoded(scope["headers"]):
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    path, mount = str(scope["path"]), str(scope.get("root_path", ""))
    return Request(
        method=str(scope["method"]),
        path=path if path.startswith(mount) else mount + path,
        query=bytes(scope.get("query_string", b"")).decode("latin-1"),
        headers=headers,
        has_body=headers.get("content-length", "0") != "0" or "transfer-encoding" in headers,
    )


def _decoded(headers: list[tuple[bytes, bytes]]) -> Headers:
    return [(bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1")) for name, value in headers]


async def _send(answer: Response, send: Send) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
