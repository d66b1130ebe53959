"""Whatever becomes of requests and replies, answers are true: on real engines, with faults at every call."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.isr.faulty import Fault, Faulty, Time
from tests.isr.pages import KEY, Tokens, clear, new_entry, new_store, publish, row, rows
from theorydb_py.errors import (
    LeaseHeldError,
    LeaseLostError,
    MovedError,
    TheorydbError,
    UnknownOutcomeError,
)
from theorydb_py.isr import FaceTheoryIsrMetaStore
from theorydb_py.isr.items import child, text

PLANS = [[], *([fault] for fault in Fault), *map(list, itertools.product(list(Fault)[1:6], repeat=2))]


@dataclass
class Fleet:
    """A store whose calls fail, another that is well, and the table as it is."""

    table: str
    client: Any
    faulty: Faulty
    time: Time
    store: FaceTheoryIsrMetaStore
    rival: FaceTheoryIsrMetaStore

    def meta(self) -> str:
        """Return which generation is current."""
        return text(child(row(self.client, self.table, self.rival, "META"), "isr"), "generation_id")

    def lock(self) -> str:
        """Return whose lease it is."""
        return text(row(self.client, self.table, self.rival, "LOCK"), "lease_token")

    def requested(self) -> str:
        """Return how far the request r has come."""
        return text(row(self.client, self.table, self.rival, "REQ#r"), "status")


def new_fleet(client: Any, table: str) -> Fleet:
    clear(client, table)
    time, faulty = Time(), Faulty(client)
    common: dict[str, Any] = {"now": time.wall, "retry": time.retry(), "settle_timeout": 15.0}
    return Fleet(
        table,
        client,
        faulty,
        time,
        new_store(faulty, table, **common, new_token=Tokens(["mine"])),
        new_store(client, table, **{**common, "lease_owner": "rival"}),
    )


def outcome(fleet: Fleet, call: Callable[..., object], *args: Any, **arguments: Any) -> Exception | None:
    """Make a call, then deliver all that was late, and return how it ended."""
    ended: Exception | None = None
    try:
        call(*args, **arguments)
    except Exception as error:
        ended = error
    fleet.faulty.deliver()
    return ended


def plans(longest: int = 2) -> Iterator[tuple[str, list[Fault], bool]]:
    for down in (False, True):
        for plan in (plan for plan in PLANS if len(plan) <= longest):
            yield " then ".join(f.value for f in plan) + (" then down" if down else ""), plan, down


def test_acquire(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    for name, plan, down in plans():
        with subtests.test(name):
            fleet = new_fleet(client, table_name)
            fleet.faulty.arm(plan, down=down)
            error = outcome(fleet, fleet.store.acquire_lease, KEY)
            if error is None:
                assert fleet.lock() == "mine"
            elif not isinstance(error, UnknownOutcomeError) and not down:
                assert fleet.lock() == "" or Fault.LAST in plan
            assert not isinstance(error, LeaseHeldError), "nobody else has it"


@pytest.mark.parametrize("history", [False, True])
def test_publish(client: Any, table_name: str, history: bool, subtests: pytest.Subtests) -> None:
    for name, plan, down in plans():
        with subtests.test(name):
            fleet = new_fleet(client, table_name)
            publish(fleet.rival, "g1", history=history)
            lease = fleet.store.acquire_lease(KEY, idempotency_key="r", request_hash="h")
            fleet.faulty.arm(plan, down=down)
            how = {"history": history, "keep": 2}
            error = outcome(fleet, fleet.store.publish, lease, lease.record, new_entry("g2"), **how)
            landed = fleet.meta() == "g2"
            if error is None:
                assert landed
                assert fleet.lock() == ""
            elif not isinstance(error, UnknownOutcomeError):
                assert not landed, f"it was said that it had failed: {error!r}"
            assert (fleet.requested() == "COMPLETED") == landed
            assert bool(row(client, table_name, fleet.rival, "VER#g2")) == (landed and history)
            if error is None or not down:
                assert isinstance(error, UnknownOutcomeError | None) is (error is None)


def test_publish_with_a_rival(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    """Somebody publishes as soon as the lease is free: our generation was there before, or never."""
    for (name, plan, down), at in itertools.product(plans(longest=1), (1, 2, 3, 4)):
        with subtests.test(f"{name}, rival at call {at}"):
            fleet = new_fleet(client, table_name)
            publish(fleet.rival, "g1")
            lease = fleet.store.acquire_lease(KEY)
            seen: list[str] = []

            def rival(call: int, at: int = at, fleet: Fleet = fleet, seen: list[str] = seen) -> None:
                if call < at or seen:
                    return
                taken = fleet.rival.try_acquire_lease(KEY)
                if taken is not None:
                    seen.append(fleet.meta())
                    fleet.rival.publish(taken, taken.record, new_entry("rival"))

            fleet.faulty.arm(plan, down=down, before=rival)
            error = outcome(fleet, fleet.store.publish, lease, lease.record, new_entry("g2"))
            landed = fleet.meta() == "g2" or seen == ["g2"]
            if error is None:
                assert landed
            elif not isinstance(error, UnknownOutcomeError):
                assert not landed, f"it was said that it had failed: {error!r}"


def test_rollback(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    for name, plan, down in plans():
        with subtests.test(name):
            fleet = new_fleet(client, table_name)
            for generation in ("g1", "g2"):
                publish(fleet.rival, generation, history=True)
            record = fleet.store.read(KEY)
            fleet.faulty.arm(plan, down=down)
            error = outcome(fleet, fleet.store.rollback, KEY, "g1", record=record)
            landed = fleet.meta() == "g1"
            if error is None:
                assert landed
            elif not isinstance(error, UnknownOutcomeError):
                assert not landed, f"it was said that it had failed: {error!r}"
            reloads = [change for change in fleet.rival.changes(0) if change.reload]
            assert len(reloads) == int(landed), "the log tells of it once"


def test_rollback_while_others_write_the_log(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    for name, plan, down in plans():
        with subtests.test(name):
            fleet = new_fleet(client, table_name)
            for generation in ("g1", "g2"):
                publish(fleet.rival, generation, history=True)
            record = fleet.store.read(KEY)
            other = fleet.rival.acquire_lease("another")
            page = new_entry("other", key="another")
            fleet.rival.publish(other, other.record, page)

            def rival(call: int, fleet: Fleet = fleet) -> None:
                if call in (5, 6):  # about when the transaction is sent
                    fleet.rival.pin("another", pin_seconds=call)

            fleet.faulty.arm(plan, down=down, before=rival)
            error = outcome(fleet, fleet.store.rollback, KEY, "g1", record=record)
            landed = fleet.meta() == "g1"
            assert error is None or isinstance(error, UnknownOutcomeError) or not landed
            assert error is not None or landed
            changes = fleet.rival.changes(0)
            assert [change.seq for change in changes] == list(range(1, len(changes) + 1)), "no gap"
            assert sum(1 for c in changes for t in c.reload if t.key == KEY) == int(landed)


def test_claim(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    for name, plan, down in plans():
        with subtests.test(name):
            fleet = new_fleet(client, table_name)
            fleet.faulty.arm(plan, down=down)
            error = outcome(fleet, fleet.store.acquire_lease, KEY, idempotency_key="r", request_hash="h")
            if error is None:
                assert (fleet.lock(), fleet.requested()) == ("mine", "STARTED")
            elif not isinstance(error, UnknownOutcomeError) and not down and Fault.LAST not in plan:
                assert fleet.lock() == ""
                assert fleet.requested() in ("", "FAILED")
            # Whatever happened, it can be carried out once that is over.
            fleet.time.sleep(40)
            again = fleet.rival.acquire_lease(KEY, idempotency_key="r", request_hash="h")
            fleet.rival.publish(again, again.record, new_entry("g2"))
            assert fleet.requested() == "COMPLETED"


def test_refresh(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    for name, plan, down in plans():
        with subtests.test(name):
            fleet = new_fleet(client, table_name)
            lease = fleet.store.acquire_lease(KEY)
            fleet.time.sleep(10)
            fleet.faulty.arm(plan, down=down)
            error = outcome(fleet, fleet.store.refresh_lease, lease)
            assert not isinstance(error, LeaseLostError), "it is still ours"
            assert not lease.lost
            ends = int(row(client, table_name, fleet.rival, "LOCK")["lease_expires_at"]["N"])
            # A refresh that arrives after the next one sets the end back by the time between them.
            assert Fault.LAST in plan or lease.lease_expires_at <= ends, "we believe no more than is so"


@pytest.mark.parametrize("end", ["release", "back_off"])
def test_giving_up(client: Any, table_name: str, end: str, subtests: pytest.Subtests) -> None:
    for name, plan, down in plans():
        with subtests.test(name):
            fleet = new_fleet(client, table_name)
            lease = fleet.store.acquire_lease(KEY)
            fleet.faulty.arm(plan, down=down)
            if end == "release":
                error = outcome(fleet, fleet.store.release_lease, lease)
            else:
                error = outcome(fleet, fleet.store.back_off, lease, pause_ms=5000)
            if error is None:
                assert fleet.lock() != lease.lease_token
                failures = row(client, table_name, fleet.rival, "LOCK").get("failures")
                assert failures == (None if end == "release" else {"N": "1"}), "counted once"


def test_break_lease(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    for name, plan, down in plans():
        with subtests.test(name):
            fleet = new_fleet(client, table_name)
            fleet.rival.acquire_lease(KEY)
            record = fleet.store.read(KEY)
            fleet.faulty.arm(plan, down=down)
            error = outcome(fleet, fleet.store.break_lease, KEY, record=record)
            assert error is not None or fleet.lock() == ""
            assert not isinstance(error, MovedError), "nobody else was there"


def test_a_late_publish_cannot_land_after_a_rollback(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)
    for generation in ("g1", "g2"):
        publish(fleet.rival, generation, history=True)
    lease = fleet.store.acquire_lease(KEY)
    assert fleet.rival.rollback(KEY).generation_id == "g1"
    with pytest.raises(MovedError):
        fleet.store.publish(lease, lease.record, new_entry("g3"), history=True, unpin=True)
    assert fleet.meta() == "g1"
    assert "VER#g3" not in " ".join(rows(client, table_name))


def test_an_unanswered_publish_is_reported_as_it_is_if_the_lease_is_gone(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)
    lease = fleet.store.acquire_lease(KEY)
    fleet.rival.break_lease(KEY)
    fleet.faulty.arm([Fault.LOST_REQUEST])
    with pytest.raises(LeaseLostError):
        fleet.store.publish(lease, lease.record, new_entry("g1"))
    assert lease.lost
    with pytest.raises(LeaseLostError):
        fleet.store.refresh_lease(lease)


def test_what_was_never_sent_is_refused_at_once(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)
    lease = fleet.store.acquire_lease(KEY)
    other = replace(lease.record, fence=fleet.rival.read("another").fence)
    with pytest.raises(TheorydbError, match="read the page that the lease is for"):
        fleet.store.publish(lease, other, new_entry("g1"))
    with pytest.raises(TheorydbError, match="one that this store has acquired"):
        fleet.rival.publish(lease, lease.record, new_entry("g1"))
    assert fleet.meta() == ""
