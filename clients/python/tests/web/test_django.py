"""Cache tags in Django: real views, a real database, and a real gateway."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import django
import pytest
from django.conf import settings

from theorydb_py import InvalidInputError
from theorydb_py.web import Gateway

os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

from django.db import connection, models, transaction  # noqa: E402 - after the settings
from django.http import HttpResponse  # noqa: E402
from django.test import RequestFactory  # noqa: E402
from django.utils.decorators import method_decorator  # noqa: E402
from django.views import View  # noqa: E402

from theorydb_py.web.django import add_cache_tags, cache_tags, purge_on_change  # noqa: E402


class Story(models.Model):  # type: ignore[misc]
    title = models.TextField()

    class Meta:
        app_label = "shop"


class Purges:
    """Records purges, and fails on demand."""

    def __init__(self) -> None:
        self.tags: list[list[str]] = []
        self.broken = False

    def __call__(self, *, tags: list[str], hard: bool) -> None:
        assert not hard
        if self.broken:
            raise OSError("down")
        self.tags.append(tags)


PURGES = Purges()
purge_on_change(PURGES, Story)


@pytest.fixture
def purges() -> Iterator[list[list[str]]]:
    with connection.schema_editor() as editor:
        editor.create_model(Story)
    PURGES.tags.clear()
    yield PURGES.tags
    with connection.schema_editor() as editor:
        editor.delete_model(Story)


def test_views_name_tags() -> None:
    request = RequestFactory().get("/")

    @cache_tags("front", lambda _, pk: f"story:{pk}", lambda *_, **__: ["a", "front"])
    def story(_: Any, pk: int) -> HttpResponse:
        return HttpResponse(str(pk), headers={"Cache-Tag": "own"})

    assert story(request, pk=7)["Cache-Tag"] == "own,front,story:7,a"

    @cache_tags("Bäckerei")
    async def later(_: Any) -> HttpResponse:
        return HttpResponse()

    answer = asyncio.run(later(request))
    assert answer["Cache-Tag"].encode("latin-1").decode() == "Bäckerei"

    @method_decorator(cache_tags("class"), name="dispatch")
    class Stories(View):  # type: ignore[misc]
        def get(self, _: Any) -> HttpResponse:
            return HttpResponse()

    assert Stories.as_view()(request)["Cache-Tag"] == "class"
    for wrong in ("", "a,b", "a\n", "x" * 1025, " a", 7):
        with pytest.raises(InvalidInputError):
            add_cache_tags(HttpResponse(), wrong)  # type: ignore[arg-type]


def undo(story: Story) -> None:
    """Save, and roll back."""
    with transaction.atomic():
        story.save()
        transaction.set_rollback(True)


def test_changes_purge(purges: list[list[str]]) -> None:
    story = Story.objects.create(title="Rye")
    assert purges == [["shop.story", "shop.story:1"]]
    purges.clear()
    with transaction.atomic():
        story.save()
        story.save()
        undo(Story(title="Undone"))
        Story.objects.create(title="Spelt")
        assert purges == []
    assert [sorted(tags) for tags in purges] == [["shop.story", "shop.story:1", "shop.story:2"]]
    purges.clear()
    undo(story)
    assert purges == []
    story.delete()
    assert purges == [["shop.story", "shop.story:1"]]
    purges.clear()
    with transaction.atomic():
        for n in range(100):
            Story.objects.create(title=str(n))
    assert [len(tags) for tags in purges] == [90, 11]


def test_purge_that_fails(purges: list[list[str]], caplog: pytest.LogCaptureFixture) -> None:
    PURGES.broken = True
    try:
        Story.objects.create(title="Rye")
    finally:
        PURGES.broken = False
    assert purges == []
    assert "down" in caplog.text
    assert Story.objects.count() == 1
    with pytest.raises(InvalidInputError):
        purge_on_change(PURGES)


def test_gateway_errors() -> None:
    """What answers here is not the gateway; test_sites asks a real one."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, body = answers.pop(0)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    answers = [(403, b"no"), (200, b"<html>"), (200, json.dumps([]).encode())]
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        gateway = Gateway(f"http://127.0.0.1:{server.server_port}", "token")
        for match in ("403: no", "no receipt", "admin API"):
            with pytest.raises(OSError, match=match):
                gateway.purge(tags=["a"])
        server.shutdown()
    with pytest.raises(OSError, match="refused"):
        gateway.purge(tags=["a"])
    for url, token in (("ftp://x", "t"), ("http://", "t"), ("http://x", ""), ("http://x", "a\nb")):
        with pytest.raises(InvalidInputError):
            Gateway(url, token)
