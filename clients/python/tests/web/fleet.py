"""Processes of a site on one table and one bucket, and what a visitor gets from them."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.conftest import Engine
from tests.polling import eventually
from tests.ports import free_port

S3 = os.environ.get("ISR_TEST_S3", "")
ROOT = Path(__file__).parents[2]
HOST = "site.test"
TOKEN = "only-for-tests-on-this-machine"  # noqa: S105 any does


def credentials() -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": os.environ.get("ISR_TEST_S3_ACCESS_KEY", ""),
        "AWS_SECRET_ACCESS_KEY": os.environ.get("ISR_TEST_S3_SECRET_KEY", ""),
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
    }


@contextlib.contextmanager
def new_bucket() -> Iterator[tuple[Any, str]]:
    """Return a client of the S3 server and a new bucket."""
    if not S3:
        pytest.skip("ISR_TEST_S3 is not set: the URL of an S3 server")
    keys = credentials()
    client = boto3.client(
        "s3",
        endpoint_url=S3,
        region_name="us-east-1",
        aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
    )
    name = f"python-{uuid.uuid4().hex}"
    client.create_bucket(Bucket=name)
    try:
        yield client, name
    finally:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=name):
            for item in page.get("Contents", []):
                client.delete_object(Bucket=name, Key=item["Key"])
        client.delete_bucket(Bucket=name)
        client.close()


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def cache(self) -> str:
        return str(self.headers.get("Cache-Status", ""))


@dataclass
class Fleet:
    """Sites that share ``engine``, ``table``, ``bucket`` and the folder ``state``."""

    engine: Engine
    table: str
    bucket: str
    state: Path
    lease_seconds: int = 60
    """Longer than a busy machine delays the refresh of a lease."""
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            **credentials(),
            "SITE_DYNAMODB": self.engine.url,
            "SITE_S3": S3,
            "SITE_TABLE": self.table,
            "SITE_BUCKET": self.bucket,
            "SITE_STATE": str(self.state),
            "SITE_LEASE_SECONDS": str(self.lease_seconds),
            "ISR_ADMIN_TOKEN": TOKEN,
        }

    def start(self, *command: str, port: int = 0) -> int:
        """Start a process and return its port. ``{port}`` in the command is replaced."""
        port = port or free_port()
        words = [word.replace("{port}", str(port)) for word in command]
        log = (self.state / f"log-{port}").open("wb")
        self.processes[port] = subprocess.Popen(
            words, cwd=ROOT, env=self.environment(), stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        return port

    def site(self, name: str) -> int:
        return self.start(sys.executable, "-m", "tests.web.serve", name, "{port}")

    def listening(self, *ports: int) -> None:
        for port in ports:
            assert eventually(partial(self._listens, port)), self.log(port)

    def _listens(self, port: int) -> bool:
        assert self.processes[port].poll() is None, self.log(port)
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    def log(self, port: int) -> str:
        return (self.state / f"log-{port}").read_text(errors="replace")

    def get(self, port: int, path: str, method: str = "GET", host: str = HOST, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers={"Host": host, **sent})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read().decode())
        finally:
            connection.close()

    def renders(self, path: str) -> int:
        log = self.state / "renders"
        return log.read_text().splitlines().count(path) if log.exists() else 0

    def kill(self, port: int) -> None:
        """kill -9, with the workers."""
        os.killpg(self.processes[port].pid, 9)
        self.processes.pop(port).wait()

    def stop(self) -> None:
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()


@contextlib.contextmanager
def fleet(engine: Engine, table: str, state: Path) -> Iterator[Fleet]:
    with new_bucket() as (_, bucket):
        made = Fleet(engine, table, bucket, state)
        try:
            yield made
        finally:
            made.stop()


def until(moment: float) -> None:
    """Wait for a moment of the wall clock: processes of their own do not follow a fake one."""
    while time.time() < moment:
        time.sleep(0.05)
