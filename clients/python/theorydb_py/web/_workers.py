"""A bounded pool of threads."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class Workers:
    """Threads that run jobs, at most so many at a time; at most so many wait. Safe for concurrent use.

    Unlike the threads of concurrent.futures they are daemons: a call that hangs does not keep
    the process from ending. Each begins with an empty context (contextvars).
    """

    def __init__(self, name: str, threads: int, waiting: int) -> None:
        """Create a pool. Threads start with the first jobs, and stay."""
        self._name = name
        self._jobs: queue.Queue[Callable[[], None]] = queue.Queue(waiting)
        self._lock = threading.Lock()
        self._idle = 0  # guarded by _lock, like the next
        self._left = threads
        self._pid = os.getpid()

    def of_this_process(self) -> bool:
        """Return whether its threads run in this process: a fork has none of its parent's."""
        return self._pid == os.getpid()

    def submit(self, job: Callable[[], T]) -> Future[T] | None:
        """Run a job when a thread is free; None if too many wait."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = job()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            try:
                self._jobs.put_nowait(run)
            except queue.Full:
                return None
            if self._idle > 0:
                self._idle -= 1
            elif self._left > 0:
                self._left -= 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            self._jobs.get()()
            with self._lock:
                if self._jobs.empty():
                    self._idle += 1
