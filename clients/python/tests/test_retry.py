"""Retries, with a fake clock."""

from __future__ import annotations

import pytest
from botocore.exceptions import ConnectionClosedError, ParamValidationError

from theorydb_py._retry import Retry
from theorydb_py.errors import InvalidInputError


class Clock:
    """Advanced by sleeping, and by calls that take time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def retry(
        self, attempts: int = 4, timeout: float = 5.0, first_backoff_seconds: float = 0.1, random: float = 0.5
    ) -> Retry:
        return Retry(attempts, timeout, first_backoff_seconds, lambda: random, self.sleep, lambda: self.now)


def lost() -> ConnectionClosedError:
    return ConnectionClosedError(endpoint_url="http://table")


def test_backoff_doubles_up_to_a_bound() -> None:
    clock = Clock()
    retry = clock.retry(timeout=3600)
    for attempt in range(1, 9):
        assert retry.pause(attempt, 3600)
    assert clock.slept == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2, 3.2])


@pytest.mark.parametrize(("drawn", "seconds"), [(0.0, 0.0), (0.999, 0.1998)])
def test_backoff_is_jittered_around_the_mean(drawn: float, seconds: float) -> None:
    clock = Clock()
    clock.retry(random=drawn).pause(1, 10)
    assert clock.slept == pytest.approx([seconds], abs=0.001)


def test_unanswered_calls_are_retried() -> None:
    clock, calls = Clock(), 0

    def do() -> None:
        nonlocal calls
        calls += 1
        raise lost()

    with pytest.raises(ConnectionClosedError):
        clock.retry(attempts=3).bounded(do)
    assert calls == 3


def test_definite_results_are_not_retried() -> None:
    clock = Clock()

    def do() -> None:
        raise ParamValidationError(report="wrong")

    with pytest.raises(ParamValidationError):
        clock.retry().bounded(do)
    assert clock.slept == []


def test_no_attempt_begins_after_the_timeout() -> None:
    clock, calls = Clock(), 0

    def do() -> None:
        nonlocal calls
        calls += 1
        clock.now += 3  # the call hung
        raise lost()

    with pytest.raises(ConnectionClosedError):
        clock.retry(attempts=100).bounded(do)
    assert calls == 2
    assert clock.now < 7


def test_until_retries_to_its_deadline() -> None:
    clock, calls = Clock(), 0

    def do() -> str:
        nonlocal calls
        calls += 1
        if calls < 20:
            raise lost()
        return "answered"

    assert clock.retry().until(3600, do) == "answered"
    assert calls == 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"timeout_seconds": -1.0},
        {"timeout_seconds": float("inf")},
        {"first_backoff_seconds": float("nan")},
    ],
)
def test_bounds(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        Retry(**wrong)  # type: ignore[arg-type]
