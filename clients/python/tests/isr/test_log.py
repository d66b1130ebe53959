"""Group commit of the purge log, on real engines."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.conftest import Engine
from tests.isr.faultplan import Faulty
from tests.isr.pages import fill, new_entry, new_store, rows
from tests.isr.test_faults import FEW, Fleet, is_first, new_fleet, prepared, scenarios
from tests.polling import BOUND, eventually
from theorydb_py._outcome import Outcome, outcome_of
from theorydb_py.errors import (
    InvalidQueryError,
    MovedError,
    TransactionConflictError,
    UnknownOutcomeError,
)
from theorydb_py.isr import FOREVER, Assertion, FaceTheoryIsrMetaStore, ReloadTarget
from theorydb_py.isr._expression import exists, update
from theorydb_py.isr._groupcommit import _Waiter
from theorydb_py.isr._logcommit import LogChange, commit_together
from theorydb_py.isr._rollback import pin
from theorydb_py.isr._row import key, string
from theorydb_py.isr._transaction import Action, Purpose, Refusal


def fill_pages(client: Any, table: str, store: FaceTheoryIsrMetaStore, count: int) -> list[str]:
    """Write pages as a publish leaves them, and return their cache keys."""
    pages = [f"example.com/{n}" for n in range(count)]
    with store.lease(pages[0]) as lease:
        store.publish(lease, lease.record, new_entry("g1", key=pages[0]))
    meta = rows(client, table)[f"{store.partition_key(pages[0])} META"]
    fill(client, table, ({**meta, "pk": {"S": store.partition_key(page)}} for page in pages[1:]))
    return pages


def logged(store: FaceTheoryIsrMetaStore) -> Counter[str]:
    """Return how often each page occurs in the log, which has no gap."""
    counts: Counter[str] = Counter()
    last = 0
    while changes := store.changes(last):
        for change in changes:
            assert change.seq == last + 1, "no gap"
            last = change.seq
            counts.update(target.key for target in change.reload)
    assert last == store.sequence().seq
    return counts


def is_pinned(store: FaceTheoryIsrMetaStore, page: str) -> bool:
    entry = store.read(page).entry
    return entry is not None and entry.pinned_until == FOREVER


# --- Concurrency ----------------------------------------------------------------


def test_a_thousand_concurrent_pins(engine: Engine, table_name: str) -> None:
    """1,000 pins on the first engine; 200 on the others, to save time."""
    threads, count = 100, 1000 if is_first(engine) else 200
    client = engine.client(max_pool_connections=threads)
    store = new_store(client, table_name)
    pages = fill_pages(client, table_name, store, count)
    with ThreadPoolExecutor(threads) as pool:
        assert all(entry.pinned_until == FOREVER for entry in pool.map(store.pin, pages))
    assert logged(store) == Counter(dict.fromkeys(pages, 1))
    assert store.sequence().seq < len(pages), "pins share transactions"
    pinned = [row for name, row in rows(client, table_name).items() if name.endswith(" META")]
    assert [row["isr"]["M"]["pinned_until"]["N"] for row in pinned] == [str(FOREVER)] * len(pages)
    client.close()


def test_contending_processes_all_make_progress(engine: Engine, table_name: str) -> None:
    """Two processes, each with its own queue, change the log concurrently."""
    client = engine.client(max_pool_connections=20)
    stores = [new_store(client, table_name) for _ in range(2)]
    pages = fill_pages(client, table_name, stores[0], 120)
    with ThreadPoolExecutor(20) as pool:
        jobs = [pool.submit(stores[n % 2].pin, page) for n, page in enumerate(pages)]
        assert [job.result().pinned_until for job in jobs] == [FOREVER] * len(pages)
    assert logged(stores[0]) == Counter(dict.fromkeys(pages, 1))
    client.close()


def test_changes_of_one_page_use_separate_transactions(engine: Engine, table_name: str) -> None:
    """They touch the same rows: the second change uses another transaction and fails because the page has moved."""
    client = engine.client(max_pool_connections=4)
    store = new_store(client, table_name)
    (page,) = fill_pages(client, table_name, store, 1)
    record = store.read(page)

    def attempt(_: int) -> str:
        try:
            store.pin(page, record=record)
        except MovedError:
            return "moved"
        return "pinned"

    with ThreadPoolExecutor(4) as pool:
        assert Counter(pool.map(attempt, range(4))) == Counter({"pinned": 1, "moved": 3})
    assert logged(store) == Counter({page: 1})
    client.close()


def test_group_commit_starts_no_threads(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    before = threading.active_count()
    pages = fill_pages(client, table_name, store, 2)
    for page in pages:
        store.pin(page)
    assert threading.active_count() == before


# --- Waiting ----------------------------------------------------------------------


class Gate:
    """Blocks the next transaction of a client until it is opened."""

    def __init__(self, client: Any) -> None:
        self.reached, self._open = threading.Event(), threading.Event()
        self.passed = 0
        client.meta.events.register("provide-client-params.dynamodb.TransactWriteItems", self._hold)

    def open(self) -> None:
        self._open.set()

    def _hold(self, **_: Any) -> None:
        self.reached.set()
        assert self._open.wait(BOUND)
        self.passed += 1


def waiting(store: FaceTheoryIsrMetaStore) -> int:
    return len(store._log._queue)


def test_queued_changes_share_a_transaction(client: Any, table_name: str) -> None:
    """Except for a second change of a page: it would fail the whole transaction."""
    store = new_store(client, table_name)
    pages = fill_pages(client, table_name, store, 6)
    record = store.read(pages[1])
    gate = Gate(client)
    with ThreadPoolExecutor(len(pages) + 1) as pool:
        first = pool.submit(store.pin, pages[0])
        assert gate.reached.wait(BOUND)
        others = [pool.submit(store.pin, page) for page in pages[1:]]
        assert eventually(lambda: waiting(store) == len(others))
        second = pool.submit(store.pin, pages[1], record=record)
        assert eventually(lambda: waiting(store) == len(others) + 1)
        gate.open()
        for job in (first, *others):
            assert job.result(BOUND).pinned_until == FOREVER
        assert isinstance(second.exception(BOUND), MovedError)
    assert [len(change.reload) for change in store.changes(0)] == [1, 5]
    assert gate.passed == 3
    assert store._log._leader is None


def test_a_change_queued_too_long_is_withdrawn(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    pages = fill_pages(client, table_name, store, 2)
    gate = Gate(client)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(store.pin, pages[0])
        assert gate.reached.wait(BOUND)
        object.__setattr__(store._connection, "settle_timeout_seconds", 0.01)
        second = pool.submit(store.pin, pages[1])
        with pytest.raises(TransactionConflictError, match="nothing was written"):
            second.result(BOUND)
        gate.open()
        first.result(BOUND)
    assert logged(store) == Counter({pages[0]: 1})


def test_waiting_for_a_sent_change_is_bounded(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    (page,) = fill_pages(client, table_name, store, 1)
    log = store._log
    sent = _Waiter(pins(store, [page])[0], 1, threading.Condition(log._lock), until=0.0)
    with log._lock, pytest.raises(UnknownOutcomeError, match="there is no reply yet"):
        log._wait_locked(sent)


def test_an_interrupted_leader_hands_over(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    pages = fill_pages(client, table_name, store, 3)
    reached, go_on = threading.Event(), threading.Event()

    def interrupt(**_: Any) -> None:
        if not reached.is_set():
            reached.set()
            assert go_on.wait(BOUND)
            raise KeyboardInterrupt

    client.meta.events.register("provide-client-params.dynamodb.TransactWriteItems", interrupt)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(store.pin, pages[0])
        assert reached.wait(BOUND)
        others = [pool.submit(store.pin, page) for page in pages[1:]]
        assert eventually(lambda: waiting(store) == len(others))
        go_on.set()
        assert isinstance(first.exception(BOUND), KeyboardInterrupt)
        for job in others:
            assert job.result(BOUND).pinned_until == FOREVER
    assert logged(store) == Counter(dict.fromkeys(pages[1:], 1))
    store.pin(pages[0])


# --- Failed conditions --------------------------------------------------------------


class Collected:
    """Collects the changes that a store wants to commit, without committing them."""

    def __init__(self) -> None:
        self.changes: list[LogChange] = []

    def commit(self, change: LogChange) -> None:
        self.changes.append(change)


def pins(store: FaceTheoryIsrMetaStore, pages: Iterable[str]) -> list[LogChange]:
    """Return changes that pin pages as they are now."""
    collected: Any = Collected()
    for page in pages:
        target = ReloadTarget(tenant="", key=page)
        assertion = Assertion(asserted_at=1_800_000_000, pinned_until=FOREVER)
        pin(store._connection, collected, store.read(page), target, assertion)
    changes: list[LogChange] = collected.changes
    return changes


class Broken:
    """A change that DynamoDB rejects as invalid."""

    pk = ""
    reload = (ReloadTarget(tenant="", key="broken"),)
    purges = ()
    confirm = False
    mark_lifetime = 0

    def name(self) -> str:
        return "broken"

    def actions(self, _seq: int) -> list[Action]:
        return [Action(Purpose.META, "Update", update(key("", "META"), {"a": string("b")}, exists()))]

    def classify(self, why: Refusal) -> Exception | None:
        raise AssertionError(f"it has no condition that can fail: {why}")


def commit(store: FaceTheoryIsrMetaStore, changes: Sequence[LogChange]) -> dict[str, Exception | None]:
    """Commit changes together, and return the results by page."""
    answers: dict[str, Exception | None] = {}

    def on_result(change: LogChange, result: int | Exception) -> None:
        (page,) = change.reload
        assert page.key not in answers, "one result per change"
        answers[page.key] = result if isinstance(result, Exception) else None

    commit_together(store._connection, changes, on_result)
    assert len(answers) == len(changes)
    return answers


def test_a_moved_page_fails_only_its_own_change(client: Any, table_name: str) -> None:
    faulty = Faulty(client)
    store, rival = new_store(faulty, table_name), new_store(client, table_name)
    pages = fill_pages(client, table_name, rival, 4)
    changes = pins(store, pages)
    rival.unpin(pages[2])
    faulty.arm([])
    answers = commit(store, changes)
    assert isinstance(answers.pop(pages[2]), MovedError)
    assert answers == dict.fromkeys((pages[0], pages[1], pages[3]))
    assert faulty.calls == 4, "SEQ and the transaction, twice, without a backoff"
    assert logged(rival) == Counter(pages)


def test_an_invalid_change_fails_only_itself(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    pages = fill_pages(client, table_name, store, 3)
    first, *others = pins(store, pages)
    answers = commit(store, [first, Broken(), *others])
    assert isinstance(answers.pop("broken"), InvalidQueryError)
    assert answers == dict.fromkeys(pages)
    assert logged(store) == Counter(pages)


def test_a_permanently_contended_log_raises_a_conflict(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)
    pages = fill_pages(client, table_name, fleet.rival, 3)
    changes = pins(fleet.store, pages[:2])

    def change(call: int) -> None:
        if call % 2 == 0:  # SEQ was read
            fleet.rival.unpin(pages[2])

    fleet.faulty.arm([], before=change)
    answers = commit(fleet.store, changes)
    for page in pages[:2]:
        assert isinstance(answers[page], TransactionConflictError)
        assert outcome_of(answers[page]) is Outcome.CANCELLED
        assert not is_pinned(fleet.rival, page)
    assert pages[0] not in logged(fleet.rival)


def test_every_change_of_a_batch_is_answered_under_faults(
    engine: Engine, client: Any, table_name: str, subtests: pytest.Subtests
) -> None:
    """With faults, a page that has moved, and another process that changes the log."""
    pages: list[str] = []
    begin = prepared(client, table_name, lambda fleet: pages.extend(fill_pages(client, table_name, fleet.rival, 4)))
    moments = (0, 2) if is_first(engine) else (2,)
    for scenario, at in itertools.product(scenarios(15, FEW), moments):
        with subtests.test(f"{scenario}, another process at call {at}"):
            fleet = new_fleet(client, table_name, begin)
            changes = pins(fleet.store, pages[:3])
            fleet.rival.unpin(pages[1])
            known = logged(fleet.rival)

            def change(call: int, fleet: Fleet = fleet, page: str = pages[3], at: int = at) -> None:
                if call == at:
                    fleet.rival.unpin(page)

            scenario.begin(fleet, change, ahead=1)
            answers = commit(fleet.store, changes)
            fleet.faulty.deliver()
            logged_now = logged(fleet.rival) - known
            for page in pages[:3]:
                committed = is_pinned(fleet.rival, page)
                error = answers[page]
                assert error is not None or committed
                assert error is None or isinstance(error, UnknownOutcomeError) or not committed, repr(error)
                assert logged_now[page] == int(committed)
                assert not scenario.ends or not isinstance(error, UnknownOutcomeError), "it could be settled"
            assert answers[pages[1]] is not None, "it had moved"
