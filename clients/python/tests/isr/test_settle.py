"""Whatever becomes of requests and replies, answers are true: on real engines, with faults at every call."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.clocks import Time
from tests.conftest import ENGINES, Engine
from tests.isr.faulty import Fault, Faulty
from tests.isr.pages import KEY, Tokens, new_entry, new_store, publish, restore, row, rows
from theorydb_py.errors import (
    LeaseHeldError,
    LeaseLostError,
    MovedError,
    RequestCompletedError,
    TheorydbError,
    TransactionConflictError,
    UnknownOutcomeError,
)
from theorydb_py.isr import FaceTheoryIsrMetaStore
from theorydb_py.isr.items import child, text

UNANSWERED = [Fault.LOST_REQUEST, Fault.LOST_REPLY, Fault.LATE, Fault.LAST, Fault.CONFLICT]
PLANS = [[], *([fault] for fault in Fault), *map(list, itertools.product(UNANSWERED, repeat=2))]
FEW = [[], *([fault] for fault in Fault), [Fault.LATE, Fault.CONFLICT], [Fault.CONFLICT, Fault.LOST_REPLY]]
FOREVER = float("inf")
READS_OF_ROLLBACK = 8
"""The versions, the page, SEQ, PURGE, the version, two ranges of marks and SEQ, before the transaction is sent."""
READS_OF_PIN = 3
"""Two ranges of marks and SEQ."""


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


Rows = dict[str, dict[str, Any]]


def prepared(client: Any, table: str, prepare: Callable[[Fleet], object]) -> Rows:
    """Return the rows that a fleet leaves behind, from which others can begin."""
    prepare(new_fleet(client, table))
    return rows(client, table)


def new_fleet(client: Any, table: str, begin: Rows | None = None) -> Fleet:
    """Return a fleet whose table has these rows, none unless they are said."""
    restore(client, table, begin or {})
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


@dataclass
class Trouble:
    """What happens to the calls of an operation: faults in order, and then an outage, which may end."""

    plan: list[Fault]
    outage: float
    """Seconds until the calls after the plan get through."""

    def __str__(self) -> str:
        faults = [fault.value for fault in self.plan] + [f"{self.outage:g} s of outage"] * (self.outage > 0)
        return ", then ".join(faults) or "none"

    @property
    def ends(self) -> bool:
        return self.outage < FOREVER

    def begin(self, fleet: Fleet, before: Callable[[int], None] | None = None, *, ahead: int = 0) -> None:
        """Begin after so many calls that get through."""
        end = fleet.time.passed + self.outage
        fleet.faulty.arm([Fault.NONE] * ahead + self.plan, down=lambda: fleet.time.passed < end, before=before)


Plans = list[list[Fault]]


@pytest.fixture
def plans(engine: Engine) -> Plans:
    """All pairs of faults on the first engine, few on the others: what differs between engines needs no pairs."""
    return PLANS if is_first(engine) else FEW


def is_first(engine: Engine) -> bool:
    """Whether an engine is the one on which tests are thorough."""
    return engine.name == ENGINES[0][0]


def troubles(patience: float, plans: Plans) -> Iterator[Trouble]:
    """Return all troubles of an operation that gives up, and looks what became of it, after so many seconds."""
    for outage in (0.0, patience, FOREVER):
        for plan in plans:
            yield Trouble(plan, outage)


FOREVER_PINNED = 253402300799


def judge(trouble: Trouble, error: Exception | None, landed: bool) -> None:
    """Assert that an answer is true, and definite if the table could be asked."""
    if error is None:
        assert landed
    elif not isinstance(error, UnknownOutcomeError):
        assert not landed, f"it was said that it had failed: {error!r}"
    assert not trouble.ends or not isinstance(error, UnknownOutcomeError), "it could be settled"


def told(fleet: Fleet, after: int) -> int:
    """Return how often the log tells of the page, without a gap."""
    changes = fleet.rival.changes(after)
    assert [change.seq for change in changes] == list(range(after + 1, after + 1 + len(changes))), "no gap"
    return sum(1 for change in changes for target in change.reload if target.key == KEY)


def test_acquire(client: Any, table_name: str, plans: Plans, subtests: pytest.Subtests) -> None:
    for trouble in troubles(4.9, plans):
        with subtests.test(str(trouble)):
            fleet = new_fleet(client, table_name)
            trouble.begin(fleet)
            error = outcome(fleet, fleet.store.acquire_lease, KEY)
            if error is None:
                assert fleet.lock() == "mine"
            elif not isinstance(error, UnknownOutcomeError) and trouble.ends:
                # Where nothing can be read under it, and it cannot be given back, it expires.
                assert fleet.lock() == "" or Fault.LAST in trouble.plan or trouble.plan == [Fault.NONE]
            assert not isinstance(error, LeaseHeldError), "nobody else has it"


@pytest.mark.parametrize("history", [False, True])
def test_publish(client: Any, table_name: str, history: bool, plans: Plans, subtests: pytest.Subtests) -> None:
    begin = prepared(client, table_name, lambda fleet: publish(fleet.rival, "g1", history=history))
    for trouble in troubles(31, plans):
        with subtests.test(str(trouble)):
            fleet = new_fleet(client, table_name, begin)
            lease = fleet.store.acquire_lease(KEY, idempotency_key="r", request_hash="h")
            trouble.begin(fleet)
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
            assert not trouble.ends or not isinstance(error, UnknownOutcomeError), "it could be settled"


def test_publish_with_a_rival(engine: Engine, client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    """Somebody publishes as soon as the lease is free: our generation was there before, or never."""
    plans = [*([fault] for fault in Fault), [Fault.LOST_REPLY, Fault.CONFLICT], [Fault.LATE, Fault.CONFLICT]]
    begin = prepared(client, table_name, lambda fleet: publish(fleet.rival, "g1"))
    moments = (1, 2, 3) if is_first(engine) else (2,)
    for trouble, at in itertools.product(troubles(31, plans), moments):
        with subtests.test(f"{trouble}, rival at call {at}"):
            fleet = new_fleet(client, table_name, begin)
            lease = fleet.store.acquire_lease(KEY)
            seen: list[str] = []

            def rival(call: int, at: int = at, fleet: Fleet = fleet, seen: list[str] = seen) -> None:
                if call < at or seen:
                    return
                taken = fleet.rival.try_acquire_lease(KEY)
                if taken is not None:
                    seen.append(fleet.meta())
                    fleet.rival.publish(taken, taken.record, new_entry("rival"))

            trouble.begin(fleet, rival)
            error = outcome(fleet, fleet.store.publish, lease, lease.record, new_entry("g2"))
            landed = fleet.meta() == "g2" or seen == ["g2"]
            if error is None:
                assert landed
            elif not isinstance(error, UnknownOutcomeError):
                assert not landed, f"it was said that it had failed: {error!r}"


def publish_two(fleet: Fleet) -> None:
    """Publish g1 and g2, and another page."""
    for generation in ("g1", "g2"):
        publish(fleet.rival, generation, history=True)
    other = fleet.rival.acquire_lease("another")
    fleet.rival.publish(other, other.record, new_entry("other", key="another"))


def test_rollback(client: Any, table_name: str, plans: Plans, subtests: pytest.Subtests) -> None:
    begin = prepared(client, table_name, publish_two)
    for trouble in troubles(15, plans):
        with subtests.test(str(trouble)):
            fleet = new_fleet(client, table_name, begin)
            record = fleet.store.read(KEY)
            trouble.begin(fleet, ahead=READS_OF_ROLLBACK)
            error = outcome(fleet, fleet.store.rollback, KEY, "g1", record=record)
            landed = fleet.meta() == "g1"
            if error is None:
                assert landed
            elif not isinstance(error, UnknownOutcomeError):
                assert not landed, f"it was said that it had failed: {error!r}"
            reloads = [change for change in fleet.rival.changes(0) if change.reload]
            assert len(reloads) == int(landed), "the log tells of it once"


def test_rollback_while_others_write_the_log(
    client: Any, table_name: str, plans: Plans, subtests: pytest.Subtests
) -> None:
    begin = prepared(client, table_name, publish_two)
    for trouble in troubles(15, plans):
        with subtests.test(str(trouble)):
            fleet = new_fleet(client, table_name, begin)
            record = fleet.store.read(KEY)

            def rival(call: int, fleet: Fleet = fleet) -> None:
                if call in (READS_OF_ROLLBACK + 1, READS_OF_ROLLBACK + 3):  # SEQ was read, and is not what it was
                    fleet.rival.pin("another", pin_seconds=call)

            trouble.begin(fleet, rival, ahead=READS_OF_ROLLBACK)
            error = outcome(fleet, fleet.store.rollback, KEY, "g1", record=record)
            landed = fleet.meta() == "g1"
            assert error is None or isinstance(error, UnknownOutcomeError) or not landed
            assert error is not None or landed
            changes = fleet.rival.changes(0)
            assert [change.seq for change in changes] == list(range(1, len(changes) + 1)), "no gap"
            assert sum(1 for c in changes for t in c.reload if t.key == KEY) == int(landed)


@pytest.mark.parametrize("end", ["pin", "unpin"])
def test_pin(client: Any, table_name: str, end: str, subtests: pytest.Subtests) -> None:

    def prepare(fleet: Fleet) -> None:
        publish(fleet.rival, "g1")
        if end == "unpin":
            fleet.rival.pin(KEY)

    begin = prepared(client, table_name, prepare)
    for trouble in troubles(15, FEW):
        with subtests.test(str(trouble)):
            fleet = new_fleet(client, table_name, begin)
            record, known = fleet.store.read(KEY), fleet.rival.sequence().seq
            trouble.begin(fleet, ahead=READS_OF_PIN if end == "pin" else 1)
            error = outcome(fleet, getattr(fleet.store, end), KEY, record=record)
            entry = fleet.rival.read(KEY).entry
            landed = entry is not None and (entry.pinned_until == FOREVER_PINNED) == (end == "pin")
            judge(trouble, error, landed)
            assert told(fleet, known) == int(landed), "the log tells of it once"


@pytest.mark.parametrize("history", [False, True])
def test_publish_over_a_pin(client: Any, table_name: str, history: bool, subtests: pytest.Subtests) -> None:

    def prepare(fleet: Fleet) -> None:
        publish(fleet.rival, "g1", history=history)
        fleet.rival.pin(KEY)

    begin = prepared(client, table_name, prepare)
    known = len([name for name in begin if " LOG#" in name])
    for trouble in troubles(31, FEW):
        with subtests.test(str(trouble)):
            fleet = new_fleet(client, table_name, begin)
            lease = fleet.store.acquire_lease(KEY)
            trouble.begin(fleet, ahead=1)
            how = {"history": history, "unpin": True}
            error = outcome(fleet, fleet.store.publish, lease, lease.record, new_entry("g2"), **how)
            landed = fleet.meta() == "g2"
            judge(trouble, error, landed)
            assert told(fleet, known) == int(landed), "the log tells of the end of the pin, once"


@pytest.mark.parametrize("operation", ["pin", "publish"])
def test_the_sequence_is_read_after_the_pause(client: Any, table_name: str, operation: str) -> None:
    """Another process changes the log before the first request and during every backoff; every change still commits."""
    fleet = new_fleet(client, table_name)
    publish(fleet.rival, "g1")
    fleet.rival.pin(KEY)
    other = fleet.rival.acquire_lease("another")
    fleet.rival.publish(other, other.record, new_entry("other", key="another"))

    def change() -> None:
        fleet.rival.pin("another")

    def pause(seconds: float) -> None:
        change()
        fleet.time.advance(seconds)

    store = new_store(fleet.faulty, table_name, now=fleet.time.wall, retry=fleet.time.retry(sleep=pause))

    lease, record = store.acquire_lease(KEY), store.read(KEY)
    reads = 1 if operation == "publish" else READS_OF_PIN
    fleet.faulty.arm([], before=lambda call: change() if call == reads + 1 else None)
    if operation == "publish":
        store.publish(lease, record, new_entry("g2"), unpin=True)
    else:
        store.pin(KEY, record=record)
    assert fleet.faulty.calls == reads + 3, "one more reading of SEQ, and one more transaction"


@pytest.mark.parametrize("clock", ["wall", "monotonic"])
def test_a_token_that_may_be_forgotten_is_not_repeated(client: Any, table_name: str, clock: str) -> None:
    """The process froze for nine minutes after it had sent: the log tells what became of that."""
    fleet = new_fleet(client, table_name)
    publish(fleet.rival, "g1")
    frozen = [0.0]
    tokens: list[str] = []

    def remember(params: Any, **_: Any) -> None:
        if len(params["TransactItems"]) > 2:  # and not of what settles it
            tokens.append(params["ClientRequestToken"])

    client.meta.events.register("provide-client-params.dynamodb.TransactWriteItems", remember)
    store = new_store(
        fleet.faulty,
        table_name,
        settle_timeout=3600,
        now=lambda: fleet.time.wall() + (frozen[0] if clock == "wall" else 0),
        retry=fleet.time.retry(monotonic=lambda: fleet.time.passed + (frozen[0] if clock == "monotonic" else 0)),
    )

    def freeze(call: int) -> None:
        if call == READS_OF_PIN + 1:
            frozen[0] = 540

    for fault in (Fault.LOST_REPLY, Fault.LOST_REQUEST):
        record, known = store.read(KEY), store.sequence().seq
        frozen[0] = 0
        tokens.clear()
        fleet.faulty.arm([Fault.NONE] * READS_OF_PIN + [fault], before=freeze)
        error = outcome(fleet, store.pin, KEY, record=record)
        assert len(tokens) == int(fault is Fault.LOST_REPLY), "it was sent once"
        assert (error is None) == (fault is Fault.LOST_REPLY)
        assert not isinstance(error, UnknownOutcomeError)
        assert told(fleet, known) == int(error is None)


def test_a_publish_is_not_repeated_under_a_token_that_may_be_forgotten(client: Any, table_name: str) -> None:
    """It was carried out, the process froze, and another has published since: nothing tells any more."""
    fleet = new_fleet(client, table_name)
    lease = fleet.store.acquire_lease(KEY)

    def freeze(call: int) -> None:
        if call == 2:  # the deletion of LOCK, which settles it
            taken = fleet.rival.acquire_lease(KEY)
            fleet.rival.publish(taken, taken.record, new_entry("rival"))

    fleet.faulty.arm([Fault.LOST_REPLY], before=freeze)
    pause = fleet.store._connection.retry.sleep
    object.__setattr__(fleet.store._connection.retry, "sleep", lambda seconds: (pause(seconds), pause(540)))
    sent: list[str] = []
    client.meta.events.register(
        "provide-client-params.dynamodb.TransactWriteItems",
        lambda params, **_: sent.append(params["ClientRequestToken"]),
    )
    with pytest.raises(UnknownOutcomeError, match="reading the table failed"):
        fleet.store.publish(lease, lease.record, new_entry("g1"))
    assert len(set(sent)) == len(sent) == 2, "ours and the rival's, once each"


@pytest.mark.parametrize("ahead", [0, 2])
def test_claim(client: Any, table_name: str, ahead: int, plans: Plans, subtests: pytest.Subtests) -> None:
    for trouble in troubles(4.9, plans):
        with subtests.test(str(trouble)):
            fleet = new_fleet(client, table_name)
            trouble.begin(fleet, ahead=ahead)
            error = outcome(fleet, fleet.store.acquire_lease, KEY, idempotency_key="r", request_hash="h")
            if error is None:
                assert (fleet.lock(), fleet.requested()) == ("mine", "STARTED")
            elif isinstance(error, UnknownOutcomeError) or not trouble.ends or Fault.LAST in trouble.plan:
                pass  # a lease may remain, which expires
            elif trouble.plan != [Fault.NONE]:  # where nothing can be read under it, too
                assert fleet.lock() == ""
                assert fleet.requested() in ("", "FAILED")
            # Whatever happened, it can be carried out once that is over.
            fleet.time.advance(40)
            again = fleet.rival.acquire_lease(KEY, idempotency_key="r", request_hash="h")
            fleet.rival.publish(again, again.record, new_entry("g2"))
            assert fleet.requested() == "COMPLETED"


def test_refresh(client: Any, table_name: str, plans: Plans, subtests: pytest.Subtests) -> None:
    for trouble in troubles(4.9, plans):
        with subtests.test(str(trouble)):
            fleet = new_fleet(client, table_name)
            lease = fleet.store.acquire_lease(KEY)
            fleet.time.advance(10)
            trouble.begin(fleet)
            error = outcome(fleet, fleet.store.refresh_lease, lease)
            assert not isinstance(error, LeaseLostError), "it is still ours"
            assert not lease.lost
            ends = int(row(client, table_name, fleet.rival, "LOCK")["lease_expires_at"]["N"])
            # A refresh that arrives after the next one sets the end back by the time between them.
            assert Fault.LAST in trouble.plan or lease.lease_expires_at <= ends, "we believe no more than is so"


@pytest.mark.parametrize("end", ["release", "back_off"])
def test_giving_up(client: Any, table_name: str, end: str, plans: Plans, subtests: pytest.Subtests) -> None:
    for trouble in troubles(4.9, plans):
        with subtests.test(str(trouble)):
            fleet = new_fleet(client, table_name)
            lease = fleet.store.acquire_lease(KEY)
            trouble.begin(fleet)
            if end == "release":
                error = outcome(fleet, fleet.store.release_lease, lease)
            else:
                error = outcome(fleet, fleet.store.back_off, lease, pause_ms=5000)
            if error is None:
                assert fleet.lock() != lease.lease_token
                failures = row(client, table_name, fleet.rival, "LOCK").get("failures")
                assert failures == (None if end == "release" else {"N": "1"}), "counted once"


def test_break_lease(client: Any, table_name: str, plans: Plans, subtests: pytest.Subtests) -> None:
    for trouble in troubles(4.9, plans):
        with subtests.test(str(trouble)):
            fleet = new_fleet(client, table_name)
            fleet.rival.acquire_lease(KEY)
            record = fleet.store.read(KEY)
            trouble.begin(fleet)
            error = outcome(fleet, fleet.store.break_lease, KEY, record=record)
            assert error is not None or fleet.lock() == ""
            assert not isinstance(error, MovedError), "nobody else was there"


def test_a_break_is_known_though_another_took_the_lease(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)
    fleet.rival.acquire_lease(KEY)
    record = fleet.store.read(KEY)

    def take(call: int) -> None:
        if call == 2:  # the repetition
            fleet.rival.acquire_lease(KEY)

    fleet.faulty.arm([Fault.LOST_REPLY], before=take)
    fleet.store.break_lease(KEY, record=record)
    assert fleet.lock() != ""
    with pytest.raises(MovedError, match="held by rival"):
        fleet.store.break_lease(KEY, record=record)


def test_a_conflict_that_lasts_is_one(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)
    lease = fleet.store.acquire_lease(KEY, idempotency_key="r", request_hash="h")
    record = fleet.store.read(KEY)

    def conflict(_: int) -> None:
        said: Any = {
            "Error": {"Code": "TransactionCanceledException"},
            "CancellationReasons": [{"Code": "TransactionConflict"}],
        }
        raise ClientError(said, "TransactWriteItems")

    fleet.faulty.arm([], before=conflict)
    with pytest.raises(TransactionConflictError, match="refresh the lease"):
        fleet.store.refresh_lease(lease)
    with pytest.raises(TransactionConflictError, match="break the lease"):
        fleet.store.break_lease(KEY, record=record)
    assert not lease.lost


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


def test_a_pin_in_between_moves_the_page(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)
    publish(fleet.rival, "g1")
    lease = fleet.store.acquire_lease(KEY)
    fleet.rival.pin(KEY)
    fleet.rival.unpin(KEY)
    with pytest.raises(MovedError):
        fleet.store.publish(lease, lease.record, new_entry("g2"))
    assert fleet.meta() == "g1"


def test_a_claim_that_was_overtaken_after_it_had_looked(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)

    def complete(call: int) -> None:
        if call == 3:  # the transaction
            lease = fleet.rival.acquire_lease(KEY, idempotency_key="r", request_hash="h")
            fleet.rival.publish(lease, lease.record, new_entry("g1"))

    fleet.faulty.arm([], before=complete)
    with pytest.raises(RequestCompletedError):
        fleet.store.acquire_lease(KEY, idempotency_key="r", request_hash="h")
    assert (fleet.lock(), fleet.requested()) == ("", "COMPLETED")


def test_a_claim_counts_the_failures_of_the_lease_that_it_replaces(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)

    def fail(call: int) -> None:
        if call == 3:  # the transaction
            fleet.rival.back_off(fleet.rival.acquire_lease(KEY), pause_ms=0)

    fleet.faulty.arm([], before=fail)
    assert fleet.store.acquire_lease(KEY, idempotency_key="r", request_hash="h").failures == 1


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
    with pytest.raises(TheorydbError, match="read the page of the lease"):
        fleet.store.publish(lease, other, new_entry("g1"))
    with pytest.raises(TheorydbError, match="a lease that this store has acquired"):
        fleet.rival.publish(lease, lease.record, new_entry("g1"))
    assert fleet.meta() == ""
