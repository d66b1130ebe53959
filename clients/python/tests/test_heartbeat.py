"""The heartbeat of a lease, with a fake clock."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from tests.clocks import Time
from tests.polling import BOUND, eventually
from theorydb_py._heartbeat import STOP_TIMEOUT, Heartbeat
from theorydb_py.errors import LeaseLostError

LOG = logging.getLogger("tests")


@pytest.fixture
def time() -> Time:
    return Time()


def begin(time: Time, refresh: Callable[[], None]) -> Heartbeat:
    return Heartbeat(
        refresh, name="k", seconds=30, acquired_at=-2.0, logger=LOG, monotonic=time.monotonic, wait=time.wait
    )


def test_refreshes_after_each_third_of_the_duration(time: Time) -> None:
    beats = []
    heartbeat = begin(time, lambda: beats.append(time.passed))
    assert time.next_wait() == pytest.approx(8)  # the acquisition took two seconds
    time.advance(8)
    assert time.next_wait() == pytest.approx(10)
    time.advance(10)
    assert time.next_wait() == pytest.approx(10)
    assert heartbeat.stop() is False
    assert beats == [8, 18]


def test_lost_lease_is_reported(time: Time) -> None:
    def refresh() -> None:
        raise LeaseLostError("held by another process")

    heartbeat = begin(time, refresh)
    time.next_wait()
    assert not heartbeat.lost
    time.advance(8)
    assert eventually(lambda: heartbeat.lost)
    assert heartbeat.stop() is True


def test_unreachable_table_is_retried_until_the_deadline(time: Time) -> None:
    beats = []

    def refresh() -> None:
        beats.append(time.passed)
        raise ConnectionError("unreachable")

    heartbeat = begin(time, refresh)
    for wait in (8, 3, 3, 3, 3, 3, 3, 2):
        assert time.next_wait() == pytest.approx(wait)
        assert not heartbeat.lost
        time.advance(wait)
    assert eventually(lambda: len(beats) == 8)
    assert heartbeat.stop() is True
    assert beats == [8, 11, 14, 17, 20, 23, 26, 28]


def test_hanging_refresh_does_not_hide_the_loss(time: Time) -> None:
    began, go_on = threading.Event(), threading.Event()

    def refresh() -> None:
        began.set()
        assert go_on.wait(BOUND)

    heartbeat = begin(time, refresh)
    time.next_wait()
    time.advance(8)
    assert began.wait(BOUND)
    time.advance(19.9)
    assert not heartbeat.lost
    time.advance(0.2)
    assert heartbeat.lost
    go_on.set()  # its success comes too late: the loss has been reported
    assert eventually(lambda: not heartbeat._thread.is_alive()), "it refreshes a lost lease"
    assert heartbeat.stop() is True


def test_stop_before_the_first_refresh(time: Time) -> None:
    heartbeat = begin(time, lambda: pytest.fail("a refresh after the end"))
    time.next_wait()
    assert heartbeat.stop() is False
    assert heartbeat.stop() is False


def test_stop_wait_for_a_hanging_refresh_is_bounded(time: Time) -> None:
    began, go_on = threading.Event(), threading.Event()

    def refresh() -> None:
        began.set()
        assert go_on.wait(BOUND)
        raise LeaseLostError("it was released by another call")

    heartbeat = begin(time, refresh)
    time.next_wait()
    time.advance(8)
    assert began.wait(BOUND)
    answers: list[bool] = []
    stopping = threading.Thread(target=lambda: answers.append(heartbeat.stop()), daemon=True)
    stopping.start()
    assert time.next_wait() == STOP_TIMEOUT
    assert answers == []
    time.advance(STOP_TIMEOUT)
    stopping.join(BOUND)
    assert answers == [False]
    # The refresh in progress ends, and its thread with it. The release caused its
    # refusal: no loss.
    go_on.set()
    assert eventually(lambda: not heartbeat._thread.is_alive())
    assert heartbeat.stop() is False
    assert not heartbeat.lost
