"""The engine for tests of users, as a process. ISR_TEST_ISR is its program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from tests.polling import eventually
from theorydb_py import (
    ConditionFailedError,
    FaceTheoryIsrMetaStore,
    InvalidInputError,
    LeaseHeldError,
    LeaseManager,
    ModelDefinition,
    Table,
    theorydb_field,
    theorydb_model,
)
from theorydb_py.aio import AsyncTable
from theorydb_py.testkit import start_dynamodb

ROOT = Path(__file__).parents[1]
ISR = os.environ.get("ISR_TEST_ISR", "")
needs_isr = pytest.mark.skipif(not ISR, reason="ISR_TEST_ISR is not set: the program isr")


@theorydb_model
class Row:
    pk: str = theorydb_field(roles=["pk"])
    sk: str = theorydb_field(roles=["sk"])
    n: int = 0


ROWS = ModelDefinition.from_dataclass(Row, table_name="rows")


@needs_isr
def test_an_engine_with_state() -> None:
    """It has leases, pages and conditions; two of them have different tables."""
    with start_dynamodb(binary=ISR) as one, start_dynamodb(binary=Path(ISR), timeout_seconds=60) as other:
        assert one.endpoint != other.endpoint
        assert one.client is one.client
        rows = Table(ROWS, client=one.client)
        rows.ensure_table()
        rows.create(Row("a", "b", 1))
        with pytest.raises(ConditionFailedError):
            rows.create(Row("a", "b", 2))
        Table(ROWS, client=other.client).create_table()
        assert Table(ROWS, client=other.client).get_or_none("a", "b") is None
        leases = LeaseManager(one.client, table_name="rows")
        with leases.lease("job"), pytest.raises(LeaseHeldError):
            LeaseManager(one.client, table_name="rows").acquire("job")
        assert FaceTheoryIsrMetaStore(one.client, "rows").get("example.com/") is None


@needs_isr
def test_the_environment_is_for_programs(tmp_path: Path) -> None:
    program = "import boto3; print(boto3.client('dynamodb').list_tables()['TableNames'])"
    with start_dynamodb(binary=ISR) as engine:
        Table(ROWS, client=engine.client).create_table()
        environment = {**os.environ, **engine.environment}
        found = subprocess.check_output([sys.executable, "-c", program], env=environment, cwd=tmp_path)
    assert found.decode().strip() == "['rows']"


@needs_isr
def test_it_ends_with_stop() -> None:
    before = threading.active_count()
    engine = start_dynamodb(binary=ISR)
    engine.client.query  # noqa: B018 makes the client
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: engine.stop(), range(8)))
    engine.stop()
    assert threading.active_count() == before
    with pytest.raises(EndpointConnectionError):
        Table(ROWS, client=engine.client).get_or_none("a", "b")
    engine.stop()


PROGRAM = """
import sys
from theorydb_py.testkit import start_dynamodb
engine = start_dynamodb(binary=sys.argv[1])
print(engine.endpoint, flush=True)
sys.stdin.read()
"""


@needs_isr
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, None], ids=["killed", "terminated", "ended"])
def test_it_ends_with_its_process(sent: signal.Signals | None) -> None:
    """Also if nothing stops it."""
    tests = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, ISR], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert tests.stdin is not None
    assert tests.stdout is not None
    with tests.stdin, tests.stdout:
        endpoint = tests.stdout.readline().decode().strip()
        assert answers(endpoint)
        if sent is None:
            tests.stdin.close()
        else:
            tests.send_signal(sent)
        tests.wait()
    eventually(lambda: not answers(endpoint))


def answers(endpoint: str) -> bool:
    host, port = endpoint.removeprefix("http://").split(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=30):
        return True
    return False


@needs_isr
def test_an_interrupt_of_the_tests_does_not_end_it() -> None:
    """It is in a session of its own, since a terminal interrupts all processes in the foreground."""
    with start_dynamodb(binary=ISR) as engine:
        assert os.getsid(engine._process.pid) != os.getsid(0)


@needs_isr
def test_threads_and_coroutines_share_one() -> None:
    with start_dynamodb(binary=ISR) as engine:
        rows = Table(ROWS, client=engine.client)
        rows.ensure_table()
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda n: rows.put(Row("thread", str(n))), range(40)))

        async def write() -> None:
            async with AsyncTable(rows) as table:
                await asyncio.gather(*(table.put(Row("task", str(n))) for n in range(40)))

        asyncio.run(write())
        assert rows.scan().count() == 80


@needs_isr
def test_variables_of_isr_are_not_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ISR_DYNAMODB_FAULT", "throttle=100%")
    monkeypatch.setenv("ISR_DYNAMODB_ACCESS_KEY", "another")
    monkeypatch.setenv("ISR_DYNAMODB_SECRET_KEY", "another")
    monkeypatch.setenv("ISR_LOG_LEVEL", "error")
    monkeypatch.setenv("ISR_BINARY", ISR)
    with start_dynamodb() as engine:
        Table(ROWS, client=engine.client).create_table()
    monkeypatch.delenv("ISR_BINARY")
    (tmp_path / "isr").symlink_to(ISR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with start_dynamodb() as engine:
        Table(ROWS, client=engine.client).create_table()


@pytest.mark.parametrize(
    ("binary", "message"),
    [
        ("no-such-isr", r"'no-such-isr' was not found: it is not in PATH\. Build it .* set ISR_BINARY"),
        ("/no/such/isr", r"it does not exist, or is not executable"),
        (ROOT / "README.md", r"it does not exist, or is not executable"),
        ("", "was not found"),
    ],
)
def test_missing_programs_are_named(binary: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        start_dynamodb(binary=binary)


def test_the_default_is_isr_in_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ISR_BINARY", raising=False)
    with pytest.raises(InvalidInputError, match="'isr' was not found"):
        start_dynamodb()
    monkeypatch.setenv("ISR_BINARY", "another-isr")
    with pytest.raises(InvalidInputError, match="'another-isr' was not found"):
        start_dynamodb()


@pytest.mark.parametrize("seconds", [0, -1, "30", None, True, float("nan")])
def test_timeouts_are_numbers(seconds: Any) -> None:
    with pytest.raises(InvalidInputError, match="timeout_seconds"):
        start_dynamodb(binary=sys.executable, timeout_seconds=seconds)


def script(folder: Path, text: str) -> Path:
    path = folder / "isr"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_program_that_ends_says_why(tmp_path: Path) -> None:
    before = threading.active_count()
    program = script(tmp_path, "yes no | head -100000 >&2; echo 'unknown flag --memory' >&2; exit 7")
    with pytest.raises(
        RuntimeError, match=r"(?s)isr dynamodb ended with status 7 before it answered: .*unknown flag --memory"
    ) as raised:
        start_dynamodb(binary=program)
    assert len(str(raised.value)) < 6000
    with pytest.raises(RuntimeError, match="no message"):
        start_dynamodb(binary=script(tmp_path, "exit 0"))
    assert threading.active_count() == before


def test_a_program_that_does_not_answer_is_ended(tmp_path: Path) -> None:
    program = script(tmp_path, f"echo $$ >{tmp_path}/pid; exec sleep 1000")
    with pytest.raises(TimeoutError, match=r"did not answer within 0\.5 seconds"):
        start_dynamodb(binary=program, timeout_seconds=0.5)
    written = tmp_path / "pid"
    if written.exists() and (pid := written.read_text().strip()):  # the program has begun in time
        assert not Path(f"/proc/{pid}").exists()
