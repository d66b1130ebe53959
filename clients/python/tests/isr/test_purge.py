"""Purges: their rows and log targets, their outcomes under faults, and the pages that marks cover."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from tests.clocks import NOW, Clock
from tests.conftest import Engine
from tests.isr.pages import KEY, fill, new_store, publish, rows
from tests.isr.test_faults import FEW, Fleet, check_outcome, is_first, new_fleet, outcome, prepared, scenarios
from tests.isr.test_log import Gate, fill_pages, waiting
from tests.polling import BOUND, eventually
from theorydb_py.errors import (
    InvalidInputError,
    InvalidKeyError,
    MalformedRowError,
    PurgedError,
    UnknownOutcomeError,
)
from theorydb_py.isr import (
    Change,
    FaceTheoryIsrMetaStore,
    Mark,
    PurgeState,
    PurgeTarget,
    Receipt,
    ReloadTarget,
    State,
    freshness,
    host_target,
)
from theorydb_py.isr._purgetarget import covers

DAY = 24 * 3600
EVERYTHING = [
    PurgeTarget(kind="key", value=KEY),
    PurgeTarget(kind="tag", value="posts"),
    PurgeTarget(kind="prefix", value="example.com/"),
    PurgeTarget(kind="tenant", tenant="acme"),
    PurgeTarget(kind="site"),
]
MARKS = 4
"""The targets of EVERYTHING that have a mark."""


def tag(name: str) -> PurgeTarget:
    return PurgeTarget(kind="tag", value=name)


# --- Targets ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "tenant", "value", "covered"),
    [
        ("key", "acme", "example.com/blog/a?page=2", True),
        ("key", "", "example.com/blog/a?page=2", False),
        ("tag", "acme", "posts", True),
        ("tag", "acme", "post", False),
        ("prefix", "acme", "example.com/blog/", True),
        ("prefix", "acme", "example.org/", False),
        ("prefix", "", "example.com/", False),
        ("tenant", "acme", "", True),
        ("tenant", "acme2", "", False),
        ("site", "", "", True),
        ("site", "acme2", "", False),
        ("moon", "acme", "", True),
        ("moon", "", "", False),
    ],
)
def test_a_target_covers_what_it_names(kind: str, tenant: str, value: str, covered: bool) -> None:
    page = ReloadTarget(tenant="acme", key="example.com/blog/a?page=2")
    assert covers(kind, tenant, value, page, ["post-1", "posts"]) is covered


def test_the_pages_of_a_host_are_a_prefix() -> None:
    assert host_target("Example.com.:443") == PurgeTarget(kind="prefix", value="example.com/")
    assert host_target("localhost:8080") == PurgeTarget(kind="prefix", value="localhost:8080/")
    for host in ("", "example.com/", "a b", "https://example.com", "x?y"):
        with pytest.raises((InvalidInputError, InvalidKeyError)):
            host_target(host)


REFUSED: list[Any] = [
    [],
    [tag(f"tag-{n}") for n in range(99)],
    [PurgeTarget(kind="prefix", value=f"{n}{'x' * 3000}") for n in range(98)],
    tag("x"),
    "posts",
    ["posts"],
    [PurgeTarget(kind="moon", value="x")],  # type: ignore[arg-type]
    [PurgeTarget(kind="key")],
    [PurgeTarget(kind="key", value="x", tenant="other")],
    [PurgeTarget(kind="key", value="x", pk="PURGE")],
    [PurgeTarget(kind="tag", value="x", pk="CACHE#x")],
    [tag("")],
    [tag("a\nb")],
    [tag("a\x7fb")],
    [tag("\ud800")],
    [tag("x" * 1025)],
    [PurgeTarget(kind="tag", value="x", tenant="a#b")],
    [PurgeTarget(kind="prefix", value="x" * 4097)],
    [PurgeTarget(kind="tenant", tenant="")],
    [PurgeTarget(kind="tenant", value="x")],
    [PurgeTarget(kind="site", tenant="acme")],
    [PurgeTarget(kind="site", value="x")],
]


def test_invalid_purges_write_nothing(client: Any, table_name: str) -> None:
    store = new_store(client, table_name, tenant="acme")
    for targets in REFUSED:
        with pytest.raises((InvalidInputError, InvalidKeyError)):
            store.purge(targets)
    with pytest.raises(InvalidInputError, match="90 days"):
        new_store(client, table_name, mark_lifetime_seconds=60)
    assert rows(client, table_name) == {}


# --- Rows -------------------------------------------------------------------------


def purge_rows(client: Any, table: str) -> dict[str, dict[str, Any]]:
    """Return the rows of the purge log and PURGE, by sort key without the digest."""
    return {
        item["sk"]["S"].rpartition("#")[0] or item["sk"]["S"]: {
            name: value for name, value in item.items() if name not in ("pk", "sk", "id")
        }
        for item in rows(client, table).values()
    }


def test_a_soft_purge_leaves_the_attributes_of_other_purges(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    store.purge([tag("posts")])
    (name,) = (name for name in rows(client, table_name) if " MARK#" in name)
    other = {"hard_seq": {"N": "1"}, "expire_seq": {"N": "2"}, "expire_at": {"N": "1900000000"}, "x": {"S": "kept"}}
    fill(client, table_name, [{**rows(client, table_name)[name], **other}])
    client.delete_item(TableName=table_name, Key={"pk": {"S": "PURGE"}, "sk": {"S": f"LOG#{1:020d}"}})
    assert store.purge(EVERYTHING, confirm=True) == Receipt(seq=2)
    at = {"N": str(int(NOW))}
    page = {"at": at, "seq": {"N": "2"}, "ttl": {"N": str(int(NOW) + 90 * DAY + 1)}}
    targets: list[dict[str, Any]] = [
        {"kind": {"S": "reload"}, "key": {"S": KEY}},
        {"kind": {"S": "tag"}, "value": {"S": "posts"}, "at": at},
        {"kind": {"S": "prefix"}, "value": {"S": "example.com/"}, "at": at},
        {"kind": {"S": "tenant"}, "tenant": {"S": "acme"}, "value": {"S": "acme"}, "at": at},
        {"kind": {"S": "site"}, "value": {"S": "*"}, "at": at},
        {"kind": {"S": "confirm"}},
    ]
    assert purge_rows(client, table_name) == {
        "SEQ": {"seq": {"N": "2"}, "mark_lifetime": {"N": str(90 * DAY)}},
        "PURGE": page,
        "MARK##tag": {**page, "value": {"S": "posts"}, **other},
        "MARK##prefix": {**page, "value": {"S": "example.com/"}},
        "MARK#acme#tenant": {**page, "value": {"S": "acme"}},
        "MARK##site": {**page, "value": {"S": "*"}},
        "LOG": {"ttl": {"N": str(int(NOW) + 3600)}, "targets": {"L": [{"M": target} for target in targets]}},
    }


def test_the_lifetime_of_marks_only_grows(client: Any, table_name: str) -> None:
    long = new_store(client, table_name, mark_lifetime_seconds=202 * DAY)
    long.purge([tag("a")])
    assert long.sequence().mark_lifetime == 202 * DAY
    assert new_store(client, table_name).purge([tag("b")]) == Receipt(seq=2)
    assert long.sequence().mark_lifetime == 202 * DAY
    assert purge_rows(client, table_name)["MARK##tag"]["ttl"]["N"] == str(int(NOW) + 202 * DAY + 1)


def test_the_lifetime_of_marks_is_only_raised_explicitly(client: Any, table_name: str) -> None:
    """Pages that are kept for longer than marks expire: marks that exist would not outlive a raised lifetime."""
    store = new_store(client, table_name, meta_ttl_seconds=200 * DAY)
    publish(store)
    store.purge([tag("a")])
    assert store.sequence().mark_lifetime == 90 * DAY
    record = store.read(KEY)
    assert record.entry is not None
    purges = record.purges.merge(store.covering(KEY, record.entry.tags))
    pinned = replace(record.entry, pinned_until=int(NOW) + 300 * DAY)
    assert freshness(pinned, purges, NOW + 88 * DAY) is State.FRESH
    assert freshness(pinned, purges, NOW + 90 * DAY) is State.EXPIRED


def test_concurrent_purges_share_a_transaction(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    pages = fill_pages(client, table_name, store, 1)
    gate = Gate(client)
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(store.purge, [tag("first")])
        assert gate.reached.wait(BOUND)
        others = [
            pool.submit(store.purge, [tag("posts"), tag("posts"), PurgeTarget(kind="key", value=KEY)]),
            pool.submit(store.purge, [tag("posts")], hard=True),
            pool.submit(store.purge, [PurgeTarget(kind="key", value=KEY), tag("posts")], confirm=True),
        ]
        pinned = pool.submit(store.pin, pages[0])
        assert eventually(lambda: waiting(store) == len(others) + 1)
        gate.open()
        assert first.result(BOUND) == Receipt(seq=1)
        assert [job.result(BOUND) for job in others] == [Receipt(seq=2)] * len(others)
        pinned.result(BOUND)
    change = store.changes(1)[0]
    assert change == Change(
        seq=2,
        reload=(ReloadTarget(tenant="", key=pages[0]), ReloadTarget(tenant="", key=KEY)),
        marks=(Mark(kind="tag", value="posts", seq=2, hard_seq=2, at=int(NOW)),),
        confirm=True,
    )
    assert "hard_seq" not in rows(client, table_name)[f"{store.partition_key(KEY)} PURGE"]


def test_98_targets_need_one_transaction(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    assert store.purge([tag(f"tag-{n}") for n in range(98)], hard=True) == Receipt(seq=1)
    assert sorted(mark.value for mark in store.marks()) == sorted(f"tag-{n}" for n in range(98))


# --- Marks ------------------------------------------------------------------------


def test_marks_and_the_pages_that_they_cover(client: Any, table_name: str) -> None:
    clock = Clock()
    acme = new_store(client, table_name, now=clock, tenant="acme")
    other = new_store(client, table_name, now=clock)
    other.purge([tag("posts"), PurgeTarget(kind="tenant", tenant="acme2")])
    acme.purge([tag("news"), PurgeTarget(kind="prefix", value="example.org/")], hard=True)
    lifetime, at = 90 * DAY, int(NOW)
    assert acme.covering(KEY, ["posts", "news-1"]) == PurgeState(mark_lifetime=lifetime)
    assert other.covering(KEY, ["posts"]) == PurgeState(seq=1, at=at, mark_lifetime=lifetime)
    assert acme.covering(KEY, ["news"]) == PurgeState(seq=2, hard_seq=2, at=at, mark_lifetime=lifetime)
    clock.now += 5
    acme.purge([PurgeTarget(kind="prefix", value="example.com/")])
    assert acme.covering(KEY) == PurgeState(seq=3, at=at + 5, mark_lifetime=lifetime)
    acme.purge([PurgeTarget(kind="tenant")], hard=True)
    assert acme.covering(KEY).hard_seq == 4
    other.purge([PurgeTarget(kind="site")])
    assert [store.covering(KEY).seq for store in (acme, other)] == [5, 5]
    marks = [(mark.tenant, mark.kind, mark.value, mark.seq, mark.hard_seq) for mark in acme.marks()]
    assert sorted(marks) == [
        ("", "site", "", 5, 0),
        ("", "tag", "posts", 1, 0),
        ("acme", "prefix", "example.com/", 3, 0),
        ("acme", "prefix", "example.org/", 2, 2),
        ("acme", "tag", "news", 2, 2),
        ("acme", "tenant", "", 4, 4),
        ("acme2", "tenant", "", 1, 0),
    ]


def test_malformed_marks_are_errors(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    mark = {"pk": {"S": "PURGE"}, "sk": {"S": "MARK##moon#0"}, "value": {"S": "x"}, "seq": {"N": "1"}, "at": {"N": "1"}}
    fill(client, table_name, [mark])
    assert store.marks() == [Mark(kind="moon", value="x", seq=1, at=1)]
    assert store.covering(KEY).seq == 1, "an unknown kind covers every page"
    changes: list[dict[str, Any]] = [{"value": {"N": "1"}}, {"seq": {"S": "1"}}, {"at": {"NULL": True}}]
    for change in changes:
        fill(client, table_name, [{**mark, **change}])
        for call in (store.marks, lambda: store.covering(KEY)):
            with pytest.raises(MalformedRowError):
                call()
    fill(client, table_name, [mark, {**mark, "sk": {"S": "MARK#x"}}])
    with pytest.raises(MalformedRowError):
        store.marks()


def test_a_purge_ends_freshness_and_a_rollback_respects_it(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    publish(store, "g1", history=True, tags=("posts",))

    def state() -> str:
        record = store.read(KEY)
        assert record.entry is not None
        purges = record.purges.merge(store.covering(KEY, record.entry.tags))
        return freshness(record.entry, purges, NOW)

    assert state() == "fresh"
    store.purge([PurgeTarget(kind="key", value=KEY)])
    assert state() == "stale"
    publish(store, "g2", history=True, tags=("posts",))
    assert state() == "fresh"
    store.purge([tag("posts")], hard=True)
    assert state() == "purged"
    with pytest.raises(PurgedError):
        store.rollback(KEY, "g1")


# --- Builds -----------------------------------------------------------------------


def test_processes_agree_on_the_sequence_of_a_build(client: Any, table_name: str) -> None:
    stores = [new_store(client, table_name) for _ in range(4)]
    with ThreadPoolExecutor(len(stores)) as pool:
        assert set(pool.map(lambda store: store.build("b1"), stores)) == {1}
    assert stores[0].build("b2") == 2
    assert stores[1].build("b1") == 3


def test_another_build_that_is_deployed_meanwhile_comes_first(client: Any, table_name: str) -> None:
    fleet = new_fleet(client, table_name)

    def deploy(call: int) -> None:
        if call == 2:  # BUILD was read
            assert fleet.rival.build("b1") == 1

    fleet.faulty.arm([], before=deploy)
    assert fleet.store.build("b2") == 2
    assert fleet.rival.build("b2") == 2


def test_a_page_keeps_its_build_and_is_stale_for_a_newer_one(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    first = store.build("b1")
    for generation in ("g1", "g2"):
        publish(store, generation, history=True, build=first)

    def state(build: int) -> str:
        entry = store.read(KEY).entry
        assert entry is not None
        assert entry.build == first
        return freshness(entry, PurgeState(build=build), NOW)

    second = store.build("b2")
    assert (state(first), state(second)) == ("fresh", "stale")
    store.rollback(KEY, "g1")
    assert state(second) == "fresh", "it was asserted after the deployment"


# --- Faults -----------------------------------------------------------------------


def test_purge(engine: Engine, client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    """At every call, and with another process that changes the log."""
    begin = prepared(client, table_name, lambda fleet: fleet.rival.purge([tag("earlier")]))
    moments = (0, 2, 3) if is_first(engine) else (2,)
    for scenario, at in itertools.product(scenarios(15, FEW), moments):
        with subtests.test(f"{scenario}, another process at call {at}"):
            fleet = new_fleet(client, table_name, begin)
            scenario.begin(fleet, _at(at, fleet.rival))
            receipts: list[Receipt] = []
            error = outcome(fleet, _purge_into, receipts, fleet.store)
            committed = [change.seq for change in fleet.rival.changes(0) if len(change.marks) == MARKS]
            check_outcome(scenario, error, bool(committed))
            assert [receipt.seq for receipt in receipts] == (committed if error is None else [])
            assert len(committed) <= 1, "once"
            hard = {mark.hard_seq for mark in fleet.rival.marks() if mark.value not in ("earlier", "rival")}
            assert hard == set(committed)
            assert (fleet.rival.read(KEY).purges.hard_seq or None) == next(iter(committed), None)


def _purge_into(receipts: list[Receipt], store: FaceTheoryIsrMetaStore) -> None:
    receipts.append(store.purge(EVERYTHING, hard=True))


def _at(moment: int, rival: FaceTheoryIsrMetaStore) -> Callable[[int], None]:
    def change(call: int) -> None:
        if call == moment:
            rival.purge([tag("rival")])

    return change


def test_an_unreachable_table_leaves_a_purge_unknown(client: Any, table_name: str) -> None:
    fleet: Fleet = new_fleet(client, table_name)
    fleet.faulty.arm([], down=lambda: fleet.faulty.calls > 1)
    with pytest.raises(UnknownOutcomeError):
        fleet.store.purge([tag("posts")])
