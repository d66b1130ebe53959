"""A DynamoDB for tests: the embedded engine of ``isr``, in memory, in a process of its own.

It is the engine, not a mock. A fixture of pytest:

    @pytest.fixture(scope="session")
    def dynamodb():
        with start_dynamodb() as engine:
            yield engine

    def test_songs(dynamodb):
        songs = Table(SONGS, client=dynamodb.client, table_name="songs")
        songs.ensure_table()

Tests that use different names of tables can share one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO, Any, Self

import boto3
from botocore.config import Config

from theorydb_py._client import DynamoDB
from theorydb_py.errors import InvalidInputError

__all__ = ["LocalDynamoDB", "start_dynamodb"]

_SCRIPT = (
    'exec 3<&0; "$0" "$@" </dev/null 3<&- & engine=$!; { cat <&3; kill "$engine"; } >/dev/null 2>&1 & wait "$engine"'
)
"""Runs the engine until its standard input ends: when this process ends, however it does, the engine ends too.

The shell exits with the status of the engine.
"""

_SERVING = re.compile(r"serving DynamoDB on (http://[\d.]+:\d+)")
_KEPT = 4000
"""How much of the program's output is kept for an error, in characters."""
_CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
_REGION = "us-east-1"
_STOPPING_SECONDS = 30


class LocalDynamoDB:
    """A running engine, which has no tables at first. Safe for concurrent use.

    ``stop``, the end of ``with``, or the end of this process ends it, with its tables.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: _Log, endpoint: str) -> None:
        """start_dynamodb makes it."""
        self._process = process
        self._log = log
        self.endpoint = endpoint
        """``http://127.0.0.1:`` and a port that was free."""
        self.environment: Mapping[str, str] = MappingProxyType(
            {
                **{name.upper(): value for name, value in _CREDENTIALS.items()},
                "AWS_REGION": _REGION,
                "AWS_DEFAULT_REGION": _REGION,
                "AWS_ENDPOINT_URL_DYNAMODB": endpoint,
            }
        )
        """The variables by which programs of any language find it with an SDK of AWS."""
        self._lock = threading.Lock()
        self._client: Any = None  # guarded by _lock

    @property
    def client(self) -> DynamoDB:
        """A boto3 client of it, always the same, which ``stop`` closes."""
        with self._lock:
            if self._client is None:
                make: Any = boto3.client  # with and without stubs
                self._client = make(
                    "dynamodb",
                    endpoint_url=self.endpoint,
                    region_name=_REGION,
                    config=Config(connect_timeout=10, read_timeout=60),
                    **_CREDENTIALS,
                )
            client: DynamoDB = self._client
            return client

    def stop(self) -> None:
        """End it, with all of its tables. May be called repeatedly, from any thread."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None
            _end(self._process, self._log)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_dynamodb(*, binary: str | Path | None = None, timeout_seconds: float = 30) -> LocalDynamoDB:
    """Start the engine on a free port of 127.0.0.1, and return once it answers.

    ``binary`` is the program ``isr`` (``go build ./cmd/isr``): a path, or a name that is
    looked up in PATH (default: the environment variable ISR_BINARY, else ``isr``). It
    needs a POSIX shell. Tests that use different names of tables can share one; workers
    of pytest-xdist start one each.

    Raises:
        InvalidInputError: the program is not found, or the timeout is not above 0.
        RuntimeError: it ended before it answered; the message has its output.
        TimeoutError: it did not answer in time.
    """
    if isinstance(timeout_seconds, bool) or not isinstance(timeout_seconds, int | float) or not timeout_seconds > 0:
        raise InvalidInputError(f"timeout_seconds is {timeout_seconds!r:.60}: expected a number above 0")
    program = _find(str(os.environ.get("ISR_BINARY") or "isr" if binary is None else binary))
    flags = ("dynamodb", "--memory", "--listen=127.0.0.1:0", "--log-level=info")
    process = subprocess.Popen(  # noqa: S603 what the caller names
        ["/bin/sh", "-c", _SCRIPT, program, *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith("ISR_")},
        start_new_session=True,  # an interrupt from the terminal is for the tests, which then stop it
    )
    assert process.stderr is not None  # noqa: S101 a pipe, above
    log = _Log(process.stderr)
    try:
        return LocalDynamoDB(process, log, log.endpoint(process, program, timeout_seconds))
    except BaseException:
        _end(process, log)
        raise


class _Log:
    """The program's output, read until it ends: the program must not wait for a full pipe."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._said = ""  # guarded by _changed, like what follows
        self._ended = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, name="theorydb_py.testkit", daemon=True)
        self._reader.start()

    def endpoint(self, process: subprocess.Popen[bytes], program: str, timeout_seconds: float) -> str:
        """Wait for the endpoint, which the program logs once it answers."""
        deadline = time.monotonic() + timeout_seconds
        with self._changed:
            while (found := _SERVING.search(self._said)) is None:
                if self._ended:
                    status, said = process.wait(), self._said.strip() or "no message"
                    raise RuntimeError(f"{program} dynamodb ended with status {status} before it answered: {said}")
                if not self._changed.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                    raise TimeoutError(f"{program} dynamodb did not answer within {timeout_seconds} seconds")
        return found[1]

    def close(self) -> None:
        """Wait until all is read, once the program has ended."""
        self._reader.join()
        self._stream.close()

    def _read(self) -> None:
        for line in iter(lambda: self._stream.readline(_KEPT), b""):
            with self._changed:
                self._said = (self._said + line.decode(errors="replace"))[-_KEPT:]
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def _end(process: subprocess.Popen[bytes], log: _Log) -> None:
    if process.stdin is not None and not process.stdin.closed:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_STOPPING_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()


def _find(name: str) -> str:
    found = shutil.which(name)
    if found is not None:
        return found
    where = "it does not exist, or is not executable" if os.sep in name else "it is not in PATH"
    raise InvalidInputError(
        f"the program {name!r:.200} was not found: {where}. Build it in a checkout (go build ./cmd/isr), "
        "and pass its path as binary, or set ISR_BINARY"
    )
