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
from tests.isr.faulty import Faulty
from tests.isr.pages import fill, new_entry, new_store, rows
from tests.isr.test_settle import FEW, Fleet, is_first, new_fleet, prepared, troubles
from tests.waiting import BOUND, eventually
from theorydb_py.errors import (
    InvalidQueryError,
    MovedError,
    TransactionConflictError,
    UnknownOutcomeError,
)
from theorydb_py.isr import FOREVER, Assertion, FaceTheoryIsrMetaStore, ReloadTarget
from theorydb_py.isr.expressions import exists, update
from theorydb_py.isr.groupcommit import _Ticket
from theorydb_py.isr.items import key, string
from theorydb_py.isr.logcommit import LogChange, commit_together
from theorydb_py.isr.reassert import pin
from theorydb_py.isr.transaction import Action, Purpose, Refusal
from theorydb_py.outcome import Outcome, outcome_of


def fill_pages(client: Any, table: str, store: FaceTheoryIsrMetaStore, count: int) -> list[str]:
    """Write pages as they are after a publish, and return their cache keys."""
    pages = [f"example.com/{n}" for n in range(count)]
    with store.lease(pages[0]) as lease:
        store.publish(lease, lease.record, new_entry("g1", key=pages[0]))
    meta = rows(client, table)[f"{store.partition_key(pages[0])} META"]
    fill(client, table, ({**meta, "pk": {"S": store.partition_key(page)}} for page in pages[1:]))
    return pages


def logged(store: FaceTheoryIsrMetaStore) -> Counter[str]:
    """Return how often the log tells of each page, without a gap."""
    told: Counter[str] = Counter()
    last = 0
    while changes := store.changes(last):
        for change in changes:
            assert change.seq == last + 1, "no gap"
            last = change.seq
            told.update(target.key for target in change.reload)
    assert last == store.sequence().seq
    return told


def is_pinned(store: FaceTheoryIsrMetaStore, page: str) -> bool:
    entry = store.read(page).entry
    return entry is not None and entry.pinned_until == FOREVER


# --- Many at once ---------------------------------------------------------------


def test_a_thousand_pins_at_once(engine: Engine, table_name: str) -> None:
    """On the first engine; on the others 200, to save time."""
    threads, count = 100, 1000 if is_first(engine) else 200
    client = engine.client(max_pool_connections=threads)
    store = new_store(client, table_name, settle_timeout=60.0)
    pages = fill_pages(client, table_name, store, count)
    with ThreadPoolExecutor(threads) as pool:
        assert all(entry.pinned_until == FOREVER for entry in pool.map(store.pin, pages))
    assert logged(store) == Counter(dict.fromkeys(pages, 1))
    assert store.sequence().seq < len(pages), "they have shared transactions"
    pinned = [row for name, row in rows(client, table_name).items() if name.endswith(" META")]
    assert [row["isr"]["M"]["pinned_until"]["N"] for row in pinned] == [str(FOREVER)] * len(pages)
    client.close()


def test_no_process_starves(engine: Engine, table_name: str) -> None:
    """Two processes change the log as fast as they can, each by a queue of its own."""
    client = engine.client(max_pool_connections=20)
    stores = [new_store(client, table_name, settle_timeout=60.0) for _ in range(2)]
    pages = fill_pages(client, table_name, stores[0], 120)
    with ThreadPoolExecutor(20) as pool:
        jobs = [pool.submit(stores[n % 2].pin, page) for n, page in enumerate(pages)]
        assert [job.result().pinned_until for job in jobs] == [FOREVER] * len(pages)
    assert logged(stores[0]) == Counter(dict.fromkeys(pages, 1))
    client.close()


def test_changes_of_one_page_follow_each_other(engine: Engine, table_name: str) -> None:
    """They touch the same rows: the second is in another transaction, and is told that the page has moved."""
    client = engine.client(max_pool_connections=4)
    store = new_store(client, table_name, settle_timeout=60.0)
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


def test_no_thread_is_left_behind(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    before = threading.active_count()
    pages = fill_pages(client, table_name, store, 2)
    for page in pages:
        store.pin(page)
    assert threading.active_count() == before


# --- Waiting ----------------------------------------------------------------------


class Gate:
    """Holds up the next transaction of a client until it is opened."""

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


def test_what_waits_meanwhile_goes_together(client: Any, table_name: str) -> None:
    """But for a second change of a page: its transaction would be refused as a whole."""
    store = new_store(client, table_name, settle_timeout=60.0)
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


def test_a_change_that_waits_too_long_is_taken_back(client: Any, table_name: str) -> None:
    store = new_store(client, table_name, settle_timeout=60.0)
    pages = fill_pages(client, table_name, store, 2)
    gate = Gate(client)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(store.pin, pages[0])
        assert gate.reached.wait(BOUND)
        object.__setattr__(store._connection, "settle_timeout", 0.01)
        second = pool.submit(store.pin, pages[1])
        with pytest.raises(TransactionConflictError, match="nothing was written"):
            second.result(BOUND)
        gate.open()
        first.result(BOUND)
    assert logged(store) == Counter({pages[0]: 1})


def test_a_change_that_was_sent_is_not_waited_for_without_bound(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    (page,) = fill_pages(client, table_name, store, 1)
    log = store._log
    sent = _Ticket(pins(store, [page])[0], 1, threading.Condition(log._lock), until=0.0)
    with log._lock, pytest.raises(UnknownOutcomeError, match="there is no reply yet"):
        log._wait_locked(sent)


def test_an_interrupted_leader_leaves_nobody_waiting(client: Any, table_name: str) -> None:
    store = new_store(client, table_name, settle_timeout=60.0)
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


# --- Refusals -----------------------------------------------------------------------


class Collected:
    """Keeps the changes that a store wants to commit, without committing them."""

    def __init__(self) -> None:
        self.changes: list[LogChange] = []

    def commit(self, change: LogChange) -> None:
        self.changes.append(change)


def pins(store: FaceTheoryIsrMetaStore, pages: Iterable[str]) -> list[LogChange]:
    """Return the changes that pin pages, as they are now."""
    collected: Any = Collected()
    for page in pages:
        target = ReloadTarget(tenant="", key=page)
        assertion = Assertion(asserted_at=1_800_000_000, pinned_until=FOREVER)
        pin(store._connection, collected, store.read(page), target, assertion)
    changes: list[LogChange] = collected.changes
    return changes


class Broken:
    """A change that DynamoDB rejected as invalid."""

    pk = ""
    page = ReloadTarget(tenant="", key="broken")

    def name(self) -> str:
        return "broken"

    def actions(self) -> list[Action]:
        return [Action(Purpose.META, "Update", update(key("", "META"), {"a": string("b")}, exists()))]

    def judge(self, why: Refusal) -> Exception | None:
        raise AssertionError(f"no condition of it can be false: {why}")


def commit(store: FaceTheoryIsrMetaStore, changes: Sequence[LogChange]) -> dict[str, Exception | None]:
    """Commit changes together, and return their answers by their pages."""
    answers: dict[str, Exception | None] = {}

    def tell(change: LogChange, failure: Exception | None) -> None:
        assert change.page.key not in answers, "a change has one answer"
        answers[change.page.key] = failure

    commit_together(store._connection, changes, tell)
    assert len(answers) == len(changes)
    return answers


def test_a_change_whose_page_moved_leaves_and_the_others_go_on(client: Any, table_name: str) -> None:
    faulty = Faulty(client)
    store, rival = new_store(faulty, table_name), new_store(client, table_name)
    pages = fill_pages(client, table_name, rival, 4)
    changes = pins(store, pages)
    rival.unpin(pages[2])
    faulty.arm([])
    answers = commit(store, changes)
    assert isinstance(answers.pop(pages[2]), MovedError)
    assert answers == dict.fromkeys((pages[0], pages[1], pages[3]))
    assert faulty.calls == 4, "SEQ and the transaction, twice, without a pause"
    assert logged(rival) == Counter(pages)


def test_a_change_that_makes_no_sense_fails_no_others(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    pages = fill_pages(client, table_name, store, 3)
    first, *others = pins(store, pages)
    answers = commit(store, [first, Broken(), *others])
    assert isinstance(answers.pop("broken"), InvalidQueryError)
    assert answers == dict.fromkeys(pages)
    assert logged(store) == Counter(pages)


def test_a_log_that_others_change_all_the_time_is_told_as_it_is(client: Any, table_name: str) -> None:
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


def test_a_batch_has_an_answer_for_each(
    engine: Engine, client: Any, table_name: str, subtests: pytest.Subtests
) -> None:
    """Whatever becomes of requests and replies, with a page that moved and another process that changes the log."""
    pages: list[str] = []
    begin = prepared(client, table_name, lambda fleet: pages.extend(fill_pages(client, table_name, fleet.rival, 4)))
    moments = (0, 2) if is_first(engine) else (2,)
    for trouble, at in itertools.product(troubles(15, FEW), moments):
        with subtests.test(f"{trouble}, another process at call {at}"):
            fleet = new_fleet(client, table_name, begin)
            changes = pins(fleet.store, pages[:3])
            fleet.rival.unpin(pages[1])
            known = logged(fleet.rival)

            def change(call: int, fleet: Fleet = fleet, page: str = pages[3], at: int = at) -> None:
                if call == at:
                    fleet.rival.unpin(page)

            trouble.begin(fleet, change, ahead=1)
            answers = commit(fleet.store, changes)
            fleet.faulty.deliver()
            told = logged(fleet.rival) - known
            for page in pages[:3]:
                landed = is_pinned(fleet.rival, page)
                error = answers[page]
                assert error is not None or landed
                assert error is None or isinstance(error, UnknownOutcomeError) or not landed, repr(error)
                assert told[page] == int(landed)
                assert not trouble.ends or not isinstance(error, UnknownOutcomeError), "it could be settled"
            assert answers[pages[1]] is not None, "it had moved"
