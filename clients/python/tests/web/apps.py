"""The same site in Flask, Django and FastAPI: each view is ``view(path, visible) -> (status, headers, body)``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from theorydb_py.isr import FaceTheoryIsrMetaStore
from theorydb_py.web import AsgiCache, PageCache, WsgiCache

STATE = Path(os.environ.get("SITE_STATE", "."))
"""A folder that the processes of a site share: the file ``renders`` has a line for each call."""
HTML = {"Content-Type": "text/html; charset=utf-8"}
FRESH = 2
VIEWS: dict[str, dict[str, str]] = {
    "/page": {"Cache-Control": f"public, max-age={FRESH}", "Cache-Tag": "front, news"},
    "/long": {"CDN-Cache-Control": "max-age=600", "Surrogate-Key": "front long"},
    "/who": {"Cache-Control": "s-maxage=600"},
    "/hold": {"Cache-Control": "s-maxage=600"},
    "/plain": {},
    "/private": {"Cache-Control": "private, s-maxage=600"},
    "/cookie": {"Cache-Control": "s-maxage=600", "Set-Cookie": "session=secret"},
    "/vary": {"Cache-Control": "s-maxage=600", "Vary": "Accept-Encoding, Cookie"},
    "/error": {"Cache-Control": "s-maxage=1, stale-if-error=600"},
    "/once": {"Cache-Control": "no-store"},
    "/missing": {"Cache-Control": "s-maxage=600"},
}


def view(path: str, visible: str) -> tuple[int, dict[str, str], str]:
    """Render a page. ``visible`` is all that the framework shows of the request."""
    with (STATE / "renders").open("a") as log:
        log.write(f"{path}\n")
    while path == "/hold" and (STATE / "held").exists():
        time.sleep(0.05)
    if path == "/raise":
        raise ValueError("broken")
    if path == "/error" and (STATE / "failing").exists():
        return 500, {**HTML, **VIEWS[path]}, "failing"
    if path not in VIEWS:
        return 200, HTML, f"{path} {visible}"
    status = 404 if path == "/missing" else 200
    return status, {**HTML, **VIEWS[path]}, f"{path} {time.time_ns()} {visible if path == '/who' else ''}"


def page_cache(**options: Any) -> PageCache:
    """Return the cache that the environment describes."""
    config: Any = Config(connect_timeout=2, read_timeout=20, retries={"total_max_attempts": 2}, user_agent="tests")
    dynamodb = boto3.client("dynamodb", endpoint_url=os.environ["SITE_DYNAMODB"], config=config)
    s3 = boto3.client("s3", endpoint_url=os.environ["SITE_S3"], config=config)
    store = FaceTheoryIsrMetaStore(dynamodb, os.environ["SITE_TABLE"])
    defaults = {
        "query": ["lang"],
        "ignore_cookies": ["theme"],
        "stale_seconds": 600,
        "poll_seconds": 0.25,
        "lease_seconds": int(os.environ["SITE_LEASE_SECONDS"]),
        "store_timeout_seconds": 20,
    }
    return PageCache(store, s3, os.environ["SITE_BUCKET"], **{**defaults, **options})


def flask_app() -> Any:
    from flask import Flask, Response, request

    app = Flask(__name__)

    def answer(path: str) -> Response:
        visible = repr((sorted(request.headers), sorted(map(str, request.environ.items())), request.cookies))
        status, headers, body = view("/" + path, visible)
        return Response(body, status, headers)

    app.add_url_rule("/<path:path>", "answer", answer, methods=["GET", "POST"])
    return app


def flask_site() -> Any:
    app = flask_app()
    cached: Any = app
    cached.wsgi_app = WsgiCache(app.wsgi_app, page_cache())
    return app


def _django() -> None:
    import django
    from django.conf import settings
    from django.http import HttpRequest, HttpResponse
    from django.urls import re_path

    def answer(request: HttpRequest) -> HttpResponse:
        scope = getattr(request, "scope", {})
        visible = repr((sorted(map(str, request.META.items())), request.COOKIES, sorted(map(str, scope.items()))))
        status, headers, body = view(request.path, visible)
        return HttpResponse(body, status=status, headers=headers)

    urls: Any = type("urls", (), {"urlpatterns": [re_path("", answer)]})
    settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=urls, SECRET_KEY="tests")  # noqa: S106 any does
    django.setup()


def django_wsgi_site() -> Any:
    from django.core.handlers.wsgi import WSGIHandler

    _django()
    return WsgiCache(WSGIHandler(), page_cache())


def django_asgi_site() -> Any:
    from django.core.handlers.asgi import ASGIHandler

    _django()
    return AsgiCache(ASGIHandler(), page_cache())


def fastapi_site() -> Any:
    from fastapi import FastAPI, Request, Response

    app = FastAPI(openapi_url=None)

    async def answer(request: Request) -> Response:
        import asyncio

        visible = repr((request.headers.items(), request.cookies, request.client, sorted(map(str, request.scope))))
        status, headers, body = await asyncio.to_thread(view, request.url.path, visible)
        return Response(body, status, headers)

    app.add_route("/{path:path}", answer, methods=["GET", "HEAD", "POST"])
    cached: Any = app
    cached.add_middleware(AsgiCache, cache=page_cache())
    return app


SITES: dict[str, Callable[[], Any]] = {
    "flask": flask_site,
    "django-wsgi": django_wsgi_site,
    "django-asgi": django_asgi_site,
    "fastapi": fastapi_site,
}
