"""Real sites: two processes of Flask, Django and FastAPI on one table and one bucket."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Engine
from tests.polling import eventually
from tests.ports import free_port
from tests.web.apps import FRESH
from tests.web.fleet import HOST, TOKEN, Fleet, fleet, until
from theorydb_py.isr import FaceTheoryIsrMetaStore, PurgeTarget
from theorydb_py.web import Gateway

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

BINARY = os.environ.get("ISR_TEST_ISR", "")


@pytest.fixture
def pair(engine: Engine, table_name: str, tmp_path: Path) -> Iterator[Fleet]:
    with fleet(engine, table_name, tmp_path) as made:
        yield made


def sites(engine: Engine, *, others: bool = False) -> tuple[str, str]:
    """Return two of the four sites: each engine has two of them in each test."""
    both = (("flask", "fastapi"), ("django-wsgi", "django-asgi"))
    return both[(engine.name == "localdynamo") == others]


def test_two_processes_share_pages(pair: Fleet, client: DynamoDBClient, subtests: pytest.Subtests) -> None:
    store = FaceTheoryIsrMetaStore(client, pair.table)
    ports = {name: pair.site(name) for name in sites(pair.engine)}
    a, b = ports.values()
    if BINARY:
        client.update_time_to_live(
            TableName=pair.table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
        )
        admin = free_port()
        ports["isr"] = gateway(pair, admin)
    pair.listening(*ports.values())
    with subtests.test("a page is rendered once for both"):
        with ThreadPoolExecutor(8) as visitors:
            answers = list(visitors.map(lambda i: pair.get((a, b)[i % 2], "/long"), range(16)))
        assert len({answer.text for answer in answers}) == 1
        assert pair.renders("/long") == 1
        assert [answer.status for answer in answers] == [200] * 16
        assert sum("stored" in answer.cache for answer in answers) >= 1
        hit = pair.get(b, "/long?utm_source=x", Cookie="theme=dark; _ga=1")
        assert re.fullmatch(r"isr; hit; ttl=\d+", hit.cache), hit.cache
        assert int(hit.headers["Age"]) >= 0
        assert hit.headers["Surrogate-Key"] == "front long"
    with subtests.test("conditions and HEAD"):
        hit = pair.get(a, "/long")
        assert pair.get(b, "/long", If_None_Match=hit.headers["ETag"]).status == 304
        assert pair.get(b, "/long", If_None_Match='"other"').status == 200
        head = pair.get(a, "/long", method="HEAD")
        assert (head.status, head.text, head.headers["Content-Length"]) == (200, "", str(len(hit.text)))
    with subtests.test("isr serve on the same table serves what Python stored, and Python what isr stored"):
        if "isr" in ports:
            shared = pair.get(ports["isr"], "/long")
            assert (shared.text, shared.headers["ETag"]) == (hit.text, hit.headers["ETag"])
            assert "hit" in shared.cache
            assert pair.renders("/long") == 1
            made = pair.get(ports["isr"], "/long?lang=de")
            assert "stored" in made.cache
            read = pair.get(a, "/long?lang=de")
            assert (read.text, read.headers["ETag"], read.headers["Content-Type"]) == (
                made.text,
                made.headers["ETag"],
                made.headers["Content-Type"],
            )
            assert "hit" in read.cache
    with subtests.test("a purge reaches the other processes"):
        before = pair.get(a, "/long").text
        assert pair.get(b, "/long").text == before
        store.purge([PurgeTarget(kind="tag", value="long")], hard=True)
        assert eventually(lambda: pair.get(a, "/long").text != before)
        assert eventually(lambda: pair.get(b, "/long").text == pair.get(a, "/long").text)
        if "isr" in ports:
            assert eventually(lambda: pair.get(ports["isr"], "/long").text == pair.get(a, "/long").text)
        assert pair.renders("/long") == 2 + ("isr" in ports)  # the German one too
    with subtests.test("a purge by the admin API of isr serve"):
        if "isr" in ports:
            before = pair.get(a, "/long").text
            receipt = Gateway(f"http://127.0.0.1:{admin}", TOKEN).purge(urls=[f"https://{HOST}/long"], hard=True)
            assert receipt.seq == store.sequence().seq
            assert eventually(lambda: pair.get(a, "/long").text != before)
            with pytest.raises(OSError, match="401"):
                Gateway(f"http://127.0.0.1:{admin}", "wrong").purge(tags=["long"])
    with subtests.test("one render per expiry, stale during it"):
        first = pair.get(a, "/page")
        assert pair.get(b, "/page").text == first.text
        until(time.time() + FRESH + 0.1)
        count = pair.renders("/page")
        stale = pair.get(a, "/page")
        assert stale.text == first.text
        assert "detail=stale" in stale.cache
        assert eventually(lambda: pair.renders("/page") > count and pair.get(b, "/page").text != first.text)
        assert pair.renders("/page") == count + 1
        generation = store.read(f"{HOST}/page").entry
        assert generation is not None
        assert generation.tags == ("front", "news")
    with subtests.test("nothing of a visitor is in a stored page"):
        leaks(pair, a, b)
    with subtests.test("what is not shared"):
        for path in ("/plain", "/private", "/cookie", "/vary"):
            answers = [pair.get(port, path) for port in (a, b, a, b)]
            assert all("hit" not in answer.cache and "stored" not in answer.cache for answer in answers), path
            assert store.read(HOST + path).entry is None
        if "flask" in ports:  # Django sends Content-Length in its CommonMiddleware, which the sites do not have
            for n, port in enumerate((a, b), 1):
                assert pair.get(port, "/once").cache == "isr; fwd=miss; detail=no-store"
                assert pair.renders("/once") == n
        assert [pair.get(a, "/missing").status, pair.get(a, "/missing").status] == [404, 404]
        assert "detail=negative" in pair.get(a, "/missing").cache
        assert store.read(f"{HOST}/missing").entry is None
    with subtests.test("an unsafe request purges its page"):
        before = pair.get(a, "/long").text
        posted = pair.get(b, "/long", method="POST")
        assert (posted.status, posted.cache) == (200, "isr; fwd=method")
        assert pair.get(b, "/long").text != before, pair.log(b)
    with subtests.test("a process that was frozen reads the log before it serves from memory"):
        before = pair.get(b, "/long").text
        os.killpg(pair.processes[b].pid, signal.SIGSTOP)
        store.purge([PurgeTarget(kind="prefix", value=f"{HOST}/lo")], hard=True)
        until(time.time() + 2.5)
        os.killpg(pair.processes[b].pid, signal.SIGCONT)
        assert pair.get(b, "/long").text != before
    with subtests.test("errors"):
        errors(pair, a, store)


def gateway(pair: Fleet, admin: int) -> int:
    """Start isr serve in front of a site without a cache, on the same table and bucket."""
    origin = pair.start(sys.executable, "-m", "flask", "--app", "tests.web.apps:flask_app", "run", "--port", "{port}")
    pair.listening(origin)
    command = [BINARY, "serve", "--origin", f"http://127.0.0.1:{origin}", "--listen", "127.0.0.1:{port}"]
    command += ["--host", HOST, "--table", pair.table, "--dynamodb-endpoint", pair.engine.url]
    command += [
        "--bucket",
        pair.bucket,
        "--s3-endpoint",
        pair.environment()["SITE_S3"],
        "--admin",
        f"127.0.0.1:{admin}",
    ]
    command += ["--data", str(pair.state / "isr")]
    return pair.start(*command, "--query", "lang", "--stale", "600s", "--store-timeout", "20s")


def leaks(pair: Fleet, a: int, b: int) -> None:
    """Two visitors and a stranger ask for a page that shows all of its request."""
    alice = pair.get(
        a,
        "/who?utm_campaign=alice-campaign",
        Cookie="theme=alice-theme",
        User_Agent="alice-agent",
        Accept_Language="alice-language",
        X_Forwarded_For="alice-address",
        Referer="https://alice-referer/",
        X_Anything="alice-anything",
    )
    assert "stored" in alice.cache
    for port in (a, b):
        bob = pair.get(port, "/who", User_Agent="bob-agent")
        assert "alice" not in bob.text
        assert "bob" not in bob.text
        assert "127.0.0.1" not in bob.text.replace("SITE_", "")
        assert "hit" in bob.cache
    for personal in ({"Cookie": "session=alice-session"}, {"Authorization": "Bearer alice-token"}):
        own = pair.get(a, "/who", **personal)
        assert "fwd=bypass" in own.cache
        assert next(iter(personal.values())) in own.text
        assert "alice" not in pair.get(a, "/who").text
    assert "fwd=bypass; detail=query" in pair.get(a, "/who?q=alice-query").cache
    assert "alice" not in pair.get(b, "/who").text


def errors(pair: Fleet, a: int, store: FaceTheoryIsrMetaStore) -> None:
    good = pair.get(a, "/error")
    (pair.state / "failing").touch()
    store.purge([PurgeTarget(kind="key", value=f"{HOST}/error")])
    for _ in range(3):
        answer = pair.get(a, "/error")
        assert (answer.status, answer.text) == (200, good.text)
    (pair.state / "failing").unlink()
    assert eventually(lambda: pair.get(a, "/error").text != good.text)
    broken = pair.get(a, "/raise")
    assert broken.status in (500, 503)
    assert "Retry-After" in broken.headers
    assert "Retry-After" in pair.get(a, "/raise").headers


@pytest.mark.parametrize("which", [0, 1], ids=["wsgi", "asgi"])
def test_kill_of_the_lease_holder(pair: Fleet, which: int) -> None:
    pair.lease_seconds = 2  # which the visitors wait for
    site = sites(pair.engine, others=True)[which]
    a, b = pair.site(site), pair.site(site)
    pair.listening(a, b)
    (pair.state / "held").touch()
    with ThreadPoolExecutor(2) as visitors:
        lost = visitors.submit(pair.get, a, "/hold")
        assert eventually(lambda: pair.renders("/hold") == 1)
        waiting = visitors.submit(pair.get, b, "/hold")
        pair.kill(a)
        (pair.state / "held").unlink(missing_ok=True)
        answer = waiting.result()
        assert lost.exception() is not None
    assert (answer.status, "stored" in answer.cache) == (200, True)
    assert pair.renders("/hold") == 2
    os.kill(pair.processes[b].pid, signal.SIGTERM)
    assert pair.processes[b].wait(timeout=60) in (0, -signal.SIGTERM)
