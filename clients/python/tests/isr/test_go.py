"""Interoperability with ``isr serve`` on one table: each reads, serves and respects what the other writes."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Engine
from tests.polling import eventually
from tests.ports import free_port
from theorydb_py.errors import MovedError, RequestCompletedError
from theorydb_py.isr import Entry, FaceTheoryIsrMetaStore, IsrLease, body_prefix, canonical_key
from theorydb_py.isr._inputs import Json

BINARY = os.environ.get("ISR_TEST_ISR", "")
HISTORY = 5


@dataclass
class Server:
    """A running ``isr serve`` with its embedded store, and a Python store on the same table."""

    url: str
    data: Path
    store: FaceTheoryIsrMetaStore

    def key(self, path: str) -> str:
        return canonical_key(self.url + path)

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=60) as response:  # noqa: S310 - it is ours
            content: bytes = response.read()
        return content.decode()

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run an ``isr`` command on the server's table."""
        arguments = [BINARY, command[0], "--data", str(self.data), *command[1:]]
        return subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)

    def json(self, *command: str) -> Any:
        done = self.run(*command, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def put_body(self, path: str, name: str, body: str) -> str:
        """Store a body where the server looks for it, and return its key."""
        prefix = body_prefix(self.store.partition_key(self.key(path)))
        page = prefix.removeprefix("bodies/").removesuffix("/")
        file = self.data / "bodies" / "bodies" / page[:3] / f"{page[3:]}.{name}.body"  # see dirbody/name.go
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(body, encoding="utf-8")
        return prefix + name

    def entry(self, lease: IsrLease, path: str, body: str, **members: Any) -> Entry:
        """Return a generation whose body is stored."""
        generation = self.store.new_generation_id()
        return Entry(
            s3_key=self.put_body(path, generation.rpartition("-")[2], body),
            generated_at=int(time.time()),
            revalidate_seconds=3600,
            etag=f'"{generation}"',
            generation_id=generation,
            key=lease.cache_key,
            headers={"content-type": ("text/html; charset=utf-8",)},
            content_sha256=hashlib.sha256(body.encode()).hexdigest(),
            content_length=len(body.encode()),
            purge_seq=lease.purge_seq,
            **members,
        )

    def publish(self, path: str, body: str) -> Entry:
        with self.store.lease(self.key(path)) as lease:
            return self.store.publish(lease, lease.record, self.entry(lease, path, body), history=True, keep=HISTORY)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    if not BINARY:
        pytest.skip("ISR_TEST_ISR is not set: the path of the isr binary (go build ./cmd/isr)")
    site, database = (f"127.0.0.1:{free_port()}" for _ in range(2))
    data = tmp_path / "data"
    command = [BINARY, "serve", "--demo", "--listen", site, "--data", str(data), "--dynamodb-listen", database]
    command += ["--admin", "none", "--history", str(HISTORY), "--store-timeout", "60s"]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stderr=log, stdout=log) as process:
        client = Engine("isr serve", f"http://{database}").client()
        try:
            assert eventually(lambda: _listens(site) and _listens(database)), (tmp_path / "log").read_text()
            yield Server(f"http://{site}", data, FaceTheoryIsrMetaStore(client, "isr", lease_owner="python"))
        finally:
            client.close()
            process.terminate()


def _listens(address: str) -> bool:
    host, _, port = address.partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def test_python_reads_what_go_rendered(server: Server) -> None:
    page = server.get("/")
    entry = server.store.get(server.key("/"))
    assert entry is not None
    assert entry.state in ("fresh", "stale")
    assert (entry.status, entry.content_length) == (200, len(page.encode()))
    assert entry.content_sha256 == hashlib.sha256(page.encode()).hexdigest()
    assert entry.headers["content-type"] == ("text/html; charset=utf-8",)
    assert [version.generation_id for version in server.store.versions(server.key("/"))] == [entry.generation_id]


def test_go_serves_and_lists_what_python_publishes(server: Server) -> None:
    published = server.publish("/written/in?b=2&a=1", "<p>by Python</p>")
    key = server.key("/written/in?b=2&a=1")
    assert server.store.get(key) is not None
    displayed = server.json("get", key)
    assert (displayed["state"], displayed["generation_id"]) == ("fresh", published.generation_id)
    versions = server.json("versions", key)["versions"]
    assert [(v["generation_id"], v["current"]) for v in versions] == [(published.generation_id, True)]
    assert key in server.run("ls").stdout
    plain = server.publish("/plain", "<p>plain</p>")
    assert server.get("/plain") == "<p>plain</p>"
    assert server.json("get", server.key("/plain"))["generation_id"] == plain.generation_id


def test_go_serves_a_reference_commit(server: Server) -> None:
    store, key, body = server.store, server.key("/reference"), "<p>reference</p>"
    lease = store.try_acquire_lease(cache_key=key, lease_owner="my-app-instance", lease_duration_ms=30_000)
    assert lease is not None
    assert server.json("lease", key)["owner"] == "my-app-instance"
    store.commit_generation(
        cache_key=key,
        lease_owner="my-app-instance",
        lease_token=lease.lease_token,
        html_pointer=server.put_body("/reference", "reference-1", body),
        generated_at_ms=time.time() * 1000,
        revalidate_seconds=60,
        etag='"reference"',
    )
    assert server.get("/reference") == body


def test_rollbacks_are_visible_across_languages(server: Server) -> None:
    store, key = server.store, server.key("/news")
    first = server.publish("/news", "first")
    second = server.publish("/news", "second")
    assert server.get("/news") == "second"
    assert store.rollback(key).generation_id == first.generation_id
    assert eventually(lambda: server.get("/news") == "first"), "the server follows the log"
    done = server.run("rollback", key, "--to", second.generation_id)
    assert done.returncode == 0, done.stderr
    current = store.get(key)
    assert current is not None
    assert current.generation_id == second.generation_id
    assert current.pinned_until is not None
    assert server.run("unpin", key).returncode == 0
    assert server.get("/news") == "second"
    assert {v["generation_id"] for v in server.json("versions", key)["versions"]} == {
        first.generation_id,
        second.generation_id,
    }


def test_python_does_not_undo_a_rollback_in_go(server: Server) -> None:
    key = server.key("/news")
    first = server.publish("/news", "first")
    server.publish("/news", "second")
    with server.store.lease(key) as lease:
        entry = server.entry(lease, "/news", "third")
        assert server.run("rollback", key).returncode == 0
        with pytest.raises(MovedError):
            server.store.publish(lease, lease.record, entry, history=True)
    current = server.store.get(key)
    assert current is not None
    assert current.generation_id == first.generation_id


def test_go_breaks_a_lease_of_python(server: Server) -> None:
    key = server.key("/held")
    lease = server.store.acquire_lease(key)
    assert server.run("lease", key, "--release").returncode == 0
    other = server.store.try_acquire_lease(key)
    assert other is not None
    assert other.lease_token != lease.lease_token


def test_go_respects_a_request_of_python(server: Server) -> None:
    store, key = server.store, server.key("/")
    inputs: Json = {"tenant": "", "key": key, "unpin": False}  # headers of the admin API
    held = store.acquire_lease(key, idempotency_key="once", inputs=inputs)
    refused = server.run("regenerate", key, "--idempotency-key", "once")
    assert refused.returncode != 0
    assert "in progress" in refused.stderr
    entry = server.entry(held, "/", "once", route="origin")
    store.publish(held, held.record, entry)
    assert server.json("regenerate", key, "--idempotency-key", "once")["generation_id"] == entry.generation_id


def test_python_respects_a_request_of_go(server: Server) -> None:
    key = server.key("/")
    made = server.json("regenerate", key, "--idempotency-key", "twice")
    inputs: Json = {"tenant": "", "key": key, "unpin": False}  # headers of the admin API
    with pytest.raises(RequestCompletedError) as caught:
        server.store.acquire_lease(key, idempotency_key="twice", inputs=inputs)
    assert caught.value.generation_id == made["generation_id"]
    result = server.store.request_result(key, "twice")
    assert result is not None
    assert result.generation_id == made["generation_id"]
