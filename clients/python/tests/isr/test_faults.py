"""Outcomes are reported truthfully under faults at every call, on real engines."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.clocks import Time
from tests.conftest import ENGINES, Engine
from tests.isr.faultplan import Fault, Faulty
from tests.isr.pages import KEY, Tokens, new_entry, new_store, publish, restore, rows
from theorydb_py.errors import (
    LeaseHeldError,
    LeaseLostError,
    MovedError,
    RequestCompletedError,
    TheorydbError,
    TransactionConflictError,
    UnknownOutcomeError,
)
from theorydb_py.isr import FaceTheoryIsrMetaStore, ReloadTarget
from theorydb_py.isr._advance import advance
from theorydb_py.isr._logrow import reload_target
from theorydb_py.isr._pages import read_sequence
from theorydb_py.isr._row import child, text
from theorydb_py.isr._transaction import Transaction

UNANSWERED = [Fault.LOST_REQUEST, Fault.LOST_REPLY, Fault.LATE, Fault.LAST, Fault.CONFLICT]
PLANS = [[], *([fault] for fault in Fault), *map(list, itertools.product(UNANSWERED, repeat=2))]
FEW = [[], *([fault] for fault in Fault), [Fault.LATE, Fault.CONFLICT], [Fault.CONFLICT, Fault.LOST_REPLY]]
FOREVER = float("inf")
READS_OF_ROLLBACK = 9
"""The reads before the transaction.

They are the versions, the page, SEQ, PURGE, the version, the newest rows of the log, two ranges of marks, and SEQ.
"""
READS_OF_PIN = 3
"""Two ranges of marks and SEQ."""


Rows = dict[str, dict[str, Any]]


@dataclass
class Stored:
    """The rows of the table at one moment."""

    rows: Rows
    pk: str

    def row(self, sk: str) -> dict[str, Any]:
        """Return a row of the page, empty if it does not exist."""
        return self.rows.get(f"{self.pk} {sk}", {})

    @property
    def meta(self) -> str:
        """The current generation."""
        return text(child(self.row("META"), "isr"), "generation_id")

    @property
    def lock(self) -> str:
        """The token of the lease."""
        return text(self.row("LOCK"), "lease_token")

    @property
    def request(self) -> str:
        """The status of the request record r."""
        return text(self.row("REQ#r"), "status")


@dataclass
class Fleet:
    """A store with faults, another one without, and their table."""

    table: str
    client: Any
    faulty: Faulty
    time: Time
    store: FaceTheoryIsrMetaStore
    rival: FaceTheoryIsrMetaStore

    def stored(self) -> Stored:
        """Read the rows of the page, with one request: a test makes hundreds of them."""
        return Stored(rows(self.client, self.table), self.rival.partition_key(KEY))


def prepared(client: Any, table: str, prepare: Callable[[Fleet], object]) -> Rows:
    """Return the rows that ``prepare`` writes, as a starting point of other fleets."""
    prepare(new_fleet(client, table))
    return rows(client, table)


def new_fleet(client: Any, table: str, begin: Rows | None = None) -> Fleet:
    """Return a fleet whose table has these rows."""
    restore(client, table, begin or {})
    time, faulty = Time(), Faulty(client)
    common: dict[str, Any] = {"now": time.wall, "retry": time.retry(), "settle_timeout_seconds": 15.0}
    return Fleet(
        table,
        client,
        faulty,
        time,
        new_store(faulty, table, **common, new_token=Tokens(["mine"])),
        new_store(client, table, **{**common, "lease_owner": "rival"}),
    )


def outcome(fleet: Fleet, call: Callable[..., object], *args: Any, **arguments: Any) -> Exception | None:
    """Make a call, then deliver all delayed calls, and return the call's error."""
    ended: Exception | None = None
    try:
        call(*args, **arguments)
    except Exception as error:
        ended = error
    fleet.faulty.deliver()
    return ended


@dataclass
class Scenario:
    """The faults of the calls of an operation: planned ones, and then an outage, which may end."""

    plan: list[Fault]
    outage: float
    """How long calls after the plan fail, in seconds."""

    def __str__(self) -> str:
        faults = [fault.value for fault in self.plan] + [f"{self.outage:g} s of outage"] * (self.outage > 0)
        return ", then ".join(faults) or "none"

    @property
    def ends(self) -> bool:
        return self.outage < FOREVER

    def begin(self, fleet: Fleet, before: Callable[[int], None] | None = None, *, ahead: int = 0) -> None:
        """Begin after so many successful calls."""
        end = fleet.time.passed + self.outage
        fleet.faulty.arm([Fault.NONE] * ahead + self.plan, down=lambda: fleet.time.passed < end, before=before)


Plans = list[list[Fault]]


@pytest.fixture
def plans(engine: Engine) -> Plans:
    """All pairs of faults on the first engine, few on the others: pairs do not depend on the engine."""
    return PLANS if is_first(engine) else FEW


def is_first(engine: Engine) -> bool:
    """Return whether tests are exhaustive on this engine."""
    return engine.name == ENGINES[0][0]


def scenarios(timeout: float, plans: Plans) -> Iterator[Scenario]:
    """Return the scenarios of an operation that retries, and settles its outcome, for so many seconds."""
    for outage in (0.0, timeout, FOREVER):
        for plan in plans:
            yield Scenario(plan, outage)


FOREVER_PINNED = 253402300799


def check_outcome(scenario: Scenario, error: Exception | None, committed: bool) -> None:
    """Assert that the reported outcome is true, and definite if the table was reachable."""
    if error is None:
        assert committed
    elif not isinstance(error, UnknownOutcomeError):
        assert not committed, f"it was reported as failed: {error!r}"
    assert not scenario.ends or not isinstance(error, UnknownOutcomeError), "it could be settled"


def log_entries(fleet: Fleet, after: int) -> int:
    """Return how often the page occurs in the log, which has no gap."""
    changes = fleet.rival.changes(after)
    assert [change.seq for change in changes] == list(range(after + 1, after + 1 + len(changes))), "no gap"
    return sum(1 for change in changes for target in change.reload if target.key == KEY)


def test_acquire(client: Any, table_name: str, plans: Plans, subtests: pytest.Subtests) -> None:
    for scenario in scenarios(4.9, plans):
        with subtests.test(str(scenario)):
            fleet = new_fleet(client, table_name)
            scenario.begin(fleet)
            error = outcome(fleet, fleet.store.acquire_lease, KEY)
            if error is None:
                assert fleet.stored().lock == "mine"
            elif not isinstance(error, UnknownOutcomeError) and scenario.ends:
                # If reading under the lease and releasing it both fail, it is left to
                # expire.
                assert fleet.stored().lock == "" or Fault.LAST in scenario.plan or scenario.plan == [Fault.NONE]
            assert not isinstance(error, LeaseHeldError), "there is no other holder"


@pytest.mark.parametrize("history", [False, True])
def test_publish(client: Any, table_name: str, history: bool, plans: Plans, subtests: pytest.Subtests) -> None:
    begin = prepared(client, table_name, lambda fleet: publish(fleet.rival, "g1", history=history))
    for scenario in scenarios(31, plans):
        with subtests.test(str(scenario)):
            fleet = new_fleet(client, table_name, begin)
            lease = fleet.store.acquire_lease(KEY, idempotency_key="r", request_hash="h")
            scenario.begin(fleet)
            how = {"history": history, "keep": 2}
            error = outcome(fleet, fleet.store.publish, lease, lease.record, new_entry("g2"), **how)
            stored = fleet.stored()
            committed = stored.meta == "g2"
            if error is None:
                assert committed
                assert stored.lock == ""
            elif not isinstance(error, UnknownOutcomeError):
                assert not committed, f"it was reported as failed: {error!r}"
            assert (stored.request == "COMPLETED") == committed
            assert bool(stored.row("VER#g2")) == (committed and history)
            assert not scenario.ends or not isinstance(error, UnknownOutcomeError), "it could be settled"


def test_publish_with_a_rival(engine: Engine, client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    """A rival publishes as soon as the lease is free: our generation was published before it, or never."""
    plans = [*([fault] for fault in Fault), [Fault.LOST_REPLY, Fault.CONFLICT], [Fault.LATE, Fault.CONFLICT]]
    begin = prepared(client, table_name, lambda fleet: publish(fleet.rival, "g1"))
    moments = (1, 2, 3) if is_first(engine) else (2,)
    for scenario, at in itertools.product(scenarios(31, plans), moments):
        with subtests.test(f"{scenario}, rival at call {at}"):
            fleet = new_fleet(client, table_name, begin)
            lease = fleet.store.acquire_lease(KEY)
            seen: list[str] = []

            def rival(call: int, at: int = at, fleet: Fleet = fleet, seen: list[str] = seen) -> None:
                if call < at or seen:
                    return
                taken = fleet.rival.try_acquire_lease(KEY)
                if taken is not None:
                    seen.append(fleet.stored().meta)
                    fleet.rival.publish(taken, taken.record, new_entry("rival"))

            scenario.begin(fleet, rival)
            error = outcome(fleet, fleet.store.publish, lease, lease.record, new_entry("g2"))
            committed = fleet.stored().meta == "g2" or seen == ["g2"]
            if error is None:
                assert committed
            elif not isinstance(error, UnknownOutcomeError):
                assert not committed, f"it was reported as failed: {error!r}"


def publish_two(fleet: Fleet) -> None:
    """Publish g1 and g2, and another page."""
    for generation in ("g1", "g2"):
        publish(fleet.rival, generation, history=True)
    other = fleet.rival.acquire_lease("another")
    fleet.rival.publish(other, other.record, new_entry("other", key="another"))


def append_to_log(store: FaceTheoryIsrMetaStore, page: str) -> None:
    """Commit a log entry alone, with two requests; a pin takes six."""
    connection = store._connection
    target = reload_target(ReloadTarget(tenant="", key=page))
    entry = advance(read_sequence(connection), connection.new_token(), [target], connection.now())
    Transaction(connection, entry).send()


def test_rollback(client: Any, table_name: str, plans: Plans, subtests: pytest.Subtests) -> None:
    begin = prepared(client, table_name, publish_two)
    for scenario in scenarios(15, plans):
        with subtests.test(str(scenario)):
            fleet = new_fleet(client, table_name, begin)
            record = fleet.store.read(KEY)
            scenario.begin(fleet, ahead=READS_OF_ROLLBACK)
            error = outcome(fleet, fleet.store.rollback, KEY, "g1", record=record)
            committed = fleet.stored().meta == "g1"
            if error is None:
                assert committed
            elif not isinstance(error, UnknownOutcomeError):
                assert not committed, f"it was reported as failed: {error!r}"
            reloads = [change for change in fleet.rival.changes(0) if change.reload]
            assert len(reloads) == int(committed), "one log entry"


def test_rollback_while_others_write_the_log(
    client: Any, table_name: str, plans: Plans, subtests: pytest.Subtests
) -> None:
    begin = prepared(client, table_name, publish_two)
    for scenario in scenarios(15, plans):
        with subtests.test(str(scenario)):
            fleet = new_fleet(client, table_name, begin)
            record = fleet.store.read(KEY)

            def rival(call: int, fleet: Fleet = fleet) -> None:
                if call in (READS_OF_ROLLBACK + 1, READS_OF_ROLLBACK + 3):  # after SEQ was read
                    append_to_log(fleet.rival, "another")

            scenario.begin(fleet, rival, ahead=READS_OF_ROLLBACK)
            error = outcome(fleet, fleet.store.rollback, KEY, "g1", record=record)
            committed = fleet.stored().meta == "g1"
            assert error is None or isinstance(error, UnknownOutcomeError) or not committed
            assert error is not None or committed
            changes = fleet.rival.changes(0)
            assert [change.seq for change in changes] == list(range(1, len(changes) + 1)), "no gap"
            assert sum(1 for c in changes for t in c.reload if t.key == KEY) == int(committed)


@pytest.mark.parametrize("end", ["pin", "unpin"])
def test_pin(client: Any, table_name: str, end: str, subtests: pytest.Subtests) -> None:

    def prepare(fleet: Fleet) -> None:
        publish(fleet.rival, "g1")
        if end == "unpin":
            fleet.rival.pin(KEY)

    begin = prepared(client, table_name, prepare)
    for scenario in scenarios(15, FEW):
        with subtests.test(str(scenario)):
            fleet = new_fleet(client, table_name, begin)
            record, known = fleet.store.read(KEY), fleet.rival.sequence().seq
            scenario.begin(fleet, ahead=READS_OF_PIN if end == "pin" else 1)
            error = outcome(fleet, getattr(fleet.store, end), KEY, record=record)
            entry = fleet.rival.read(KEY).entry
            committed = entry is not None and (entry.pinned_until == FOREVER_PINNED) == (end == "pin")
            check_outcome(scenario, error, committed)
            assert log_entries(fleet, known) == int(committed), "one log entry"


@pytest.mark.parametrize("history", [False, True])
def test_publish_over_a_pin(client: Any, table_name: str, history: bool, subtests: pytest.Subtests) -> None:

    def prepare(fleet: Fleet) -> None:
        publish(fleet.rival, "g1", history=history)
        fleet.rival.pin(KEY)

    begin = prepared(client, table_name, prepare)
    known = len([name for name in begin if " LOG#" in name])
    for scenario in scenarios(31, FEW):
        with subtests.test(str(scenario)):
            fleet = new_fleet(client, table_name, begin)
            lease = fleet.store.acquire_lease(KEY)
            scenario.begin(fleet, ahead=1)
            how = {"history": history, "unpin": True}
            error = outcome(fleet, fleet.store.publish, lease, lease.record, new_entry("g2"), **how)
            committed = fleet.stored().meta == "g2"
            check_outcome(scenario, error, committed)
            assert log_entries(fleet, known) == int(committed), "one log entry for the end of the pin"


@pytest.mark.parametrize("operation", ["pin", "publish"])
def test_sequence_is_read_after_the_backoff(client: Any, table_name: str, operation: str) -> None:
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
    assert fleet.faulty.calls == reads + 3, "one more read of SEQ, and one more transaction"


@pytest.mark.parametrize("clock", ["wall", "monotonic"])
def test_expired_client_token_is_not_repeated(client: Any, table_name: str, clock: str) -> None:
    """The process freezes for nine minutes after sending: the log proves the outcome."""
    fleet = new_fleet(client, table_name)
    publish(fleet.rival, "g1")
    frozen = [0.0]
    tokens: list[str] = []

    def record_token(params: Any, **_: Any) -> None:
        if len(params["TransactItems"]) > 2:  # not the transaction that settles it
            tokens.append(params["ClientRequestToken"])

    client.meta.events.register("provide-client-params.dynamodb.TransactWriteItems", record_token)
    store = new_store(
        fleet.faulty,
        table_name,
        settle_timeout_seconds=3600,
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
        assert len(tokens) == int(fault is Fault.LOST_REPLY), "sent once"
        assert (error is None) == (fault is Fault.LOST_REPLY)
        assert not isinstance(error, UnknownOutcomeError)
        assert log_entries(fleet, known) == int(error is None)


def test_publish_with_an_expired_client_token_is_unknown(client: Any, table_name: str) -> None:
    """It was applied, the process froze, and a rival has published since: the outcome is lost."""
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
    for scenario in scenarios(4.9, plans):
        with subtests.test(str(scenario)):
            fleet = new_fleet(client, table_name)
            scenario.begin(fleet, ahead=ahead)
            error = outcome(fleet, fleet.store.acquire_lease, KEY, idempotency_key="r", request_hash="h")
            stored = fleet.stored()
            if error is None:
                assert (stored.lock, stored.request) == ("mine", "STARTED")
            elif isinstance(error, UnknownOutcomeError) or not scenario.ends or Fault.LAST in scenario.plan:
                pass  # an unused lease may remain until it expires
            elif scenario.plan != [Fault.NONE]:  # reading under the lease may fail as well
                assert stored.lock == ""
                assert stored.request in ("", "FAILED")
            # Whatever happened, the request can be executed afterwards.
            fleet.time.advance(40)
            again = fleet.rival.acquire_lease(KEY, idempotency_key="r", request_hash="h")
            fleet.rival.publish(again, again.record, new_entry("g2"))
            assert fleet.stored().request == "COMPLETED"


def test_refresh(client: Any, table_name: str, plans: Plans, subtests: pytest.Subtests) -> None:
    for scenario in scenarios(4.9, plans):
        with subtests.test(str(scenario)):
            fleet = new_fleet(client, table_name)
            lease = fleet.store.acquire_lease(KEY)
            fleet.time.advance(10)
            scenario.begin(fleet)
            error = outcome(fleet, fleet.store.refresh_lease, lease)
            assert not isinstance(error, LeaseLostError), "it is still ours"
            assert not lease.lost
            ends = int(fleet.stored().row("LOCK")["lease_expires_at"]["N"])
            # A delayed refresh may arrive after a later one, and set the end back.
            assert Fault.LAST in scenario.plan or lease.lease_expires_at <= ends, "no later than the row"


@pytest.mark.parametrize("end", ["release", "back_off"])
def test_release_and_back_off(client: Any, table_name: str, end: str, plans: Plans, subtests: pytest.Subtests) -> None:
    for scenario in scenarios(4.9, plans):
        with subtests.test(str(scenario)):
            fleet = new_fleet(client, table_name)
            lease = fleet.store.acquire_lease(KEY)
            scenario.begin(fleet)
            if end == "release":
                error = outcome(fleet, fleet.store.release_lease, lease)
            else:
                error = outcome(fleet, fleet.store.back_off, lease, pause_ms=5000)
            if error is None:
                stored = fleet.stored()
                assert stored.lock != lease.lease_token
                failures = stored.row("LOCK").get("failures")
                assert failures == (None if end == "release" else {"N": "1"}), "counted once"


def test_break_lease(client: Any, table_name: str, plans: Plans, subtests: pytest.Subtests) -> None:
    for scenario in scenarios(4.9, plans):
        with subtests.test(str(scenario)):
            fleet = new_fleet(client, table_name)
            fleet.rival.acquire_lease(KEY)
            record = fleet.store.read(KEY)
            scenario.begin(fleet)
            error = outcome(fleet, fleet.store.break_lease, KEY, record=record)
            assert error is not None or fleet.stored().lock == ""
            assert not isinstance(error, MovedError), "there is no other process"


def test_break_lease_outcome_is_known_after_the_lease_was_taken(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)
    fleet.rival.acquire_lease(KEY)
    record = fleet.store.read(KEY)

    def take(call: int) -> None:
        if call == 2:  # the retry
            fleet.rival.acquire_lease(KEY)

    fleet.faulty.arm([Fault.LOST_REPLY], before=take)
    fleet.store.break_lease(KEY, record=record)
    assert fleet.stored().lock != ""
    with pytest.raises(MovedError, match="held by rival"):
        fleet.store.break_lease(KEY, record=record)


def test_persistent_conflict_is_raised(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)
    lease = fleet.store.acquire_lease(KEY, idempotency_key="r", request_hash="h")
    record = fleet.store.read(KEY)

    def conflict(_: int) -> None:
        response: Any = {
            "Error": {"Code": "TransactionCanceledException"},
            "CancellationReasons": [{"Code": "TransactionConflict"}],
        }
        raise ClientError(response, "TransactWriteItems")

    fleet.faulty.arm([], before=conflict)
    with pytest.raises(TransactionConflictError, match="refresh the lease"):
        fleet.store.refresh_lease(lease)
    with pytest.raises(TransactionConflictError, match="break the lease"):
        fleet.store.break_lease(KEY, record=record)
    assert not lease.lost


def test_late_publish_fails_after_a_rollback(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)
    for generation in ("g1", "g2"):
        publish(fleet.rival, generation, history=True)
    lease = fleet.store.acquire_lease(KEY)
    assert fleet.rival.rollback(KEY).generation_id == "g1"
    with pytest.raises(MovedError):
        fleet.store.publish(lease, lease.record, new_entry("g3"), history=True, unpin=True)
    assert fleet.stored().meta == "g1"
    assert "VER#g3" not in " ".join(rows(client, table_name))


def test_publish_fails_after_a_concurrent_pin(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)
    publish(fleet.rival, "g1")
    lease = fleet.store.acquire_lease(KEY)
    fleet.rival.pin(KEY)
    fleet.rival.unpin(KEY)
    with pytest.raises(MovedError):
        fleet.store.publish(lease, lease.record, new_entry("g2"))
    assert fleet.stored().meta == "g1"


def test_claim_overtaken_after_its_read(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)

    def complete(call: int) -> None:
        if call == 3:  # the transaction
            lease = fleet.rival.acquire_lease(KEY, idempotency_key="r", request_hash="h")
            fleet.rival.publish(lease, lease.record, new_entry("g1"))

    fleet.faulty.arm([], before=complete)
    with pytest.raises(RequestCompletedError):
        fleet.store.acquire_lease(KEY, idempotency_key="r", request_hash="h")
    stored = fleet.stored()
    assert (stored.lock, stored.request) == ("", "COMPLETED")


def test_claim_keeps_the_failure_count(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)

    def fail(call: int) -> None:
        if call == 3:  # the transaction
            fleet.rival.back_off(fleet.rival.acquire_lease(KEY), pause_ms=0)

    fleet.faulty.arm([], before=fail)
    assert fleet.store.acquire_lease(KEY, idempotency_key="r", request_hash="h").failures == 1


def test_unanswered_publish_after_losing_the_lease(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)
    lease = fleet.store.acquire_lease(KEY)
    fleet.rival.break_lease(KEY)
    fleet.faulty.arm([Fault.LOST_REQUEST])
    with pytest.raises(LeaseLostError):
        fleet.store.publish(lease, lease.record, new_entry("g1"))
    assert lease.lost
    with pytest.raises(LeaseLostError):
        fleet.store.refresh_lease(lease)


def test_invalid_arguments_are_refused_before_sending(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)
    lease = fleet.store.acquire_lease(KEY)
    other = replace(lease.record, fence=fleet.rival.read("another").fence)
    with pytest.raises(TheorydbError, match="read the page of the lease"):
        fleet.store.publish(lease, other, new_entry("g1"))
    with pytest.raises(TheorydbError, match="a lease that this store has acquired"):
        fleet.rival.publish(lease, lease.record, new_entry("g1"))
    assert fleet.stored().meta == ""
