"""Decoding of stored rows, against the vectors of the specification, on real engines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clocks import Clock
from tests.isr.pages import new_store, replace_rows
from tests.isr.vectors import entry_to_vector, item_from, load, purges_from
from theorydb_py.errors import LeaseHeldError, MalformedRowError, TheorydbError

ITEMS, MARKS = load("items.json"), load("marks.json")
KEY = ITEMS["cache_key"]


def error_fields(error: TheorydbError | None) -> dict[str, str] | None:
    if not isinstance(error, MalformedRowError):
        return None
    return {"pk": error.pk, "sk": error.sk, "attribute": error.attribute}


def expected(vector: dict[str, Any]) -> dict[str, str] | None:
    malformed = vector.get("malformed")
    return malformed and {name: malformed[name] for name in ("pk", "sk", "attribute")}


def test_reads(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    store = new_store(client, table_name)
    assert store.partition_key(KEY) == ITEMS["pk"]
    for vector in ITEMS["reads"] + load("build.json")["reads"]:
        with subtests.test(vector["name"]):
            replace_rows(client, table_name, map(item_from, vector["rows"]))
            record = store.read(KEY)
            assert error_fields(record.malformed) == expected(vector)
            assert entry_to_vector(record.entry) == vector.get("entry")
            assert record.purges == purges_from(vector.get("cover"))
            lock = record.lock and {name: value for name, value in vars(record.lock).items() if value}
            assert lock == vector.get("lock")


def test_versions(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    store = new_store(client, table_name)
    for vector in ITEMS["versions"]:
        with subtests.test(vector["name"]):
            replace_rows(client, table_name, map(item_from, vector["rows"]))
            versions = store.versions(KEY)
            assert [entry_to_vector(entry) for entry in versions] == vector["entries"]


def test_requests(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    clock = Clock()
    store = new_store(client, table_name, now=clock)
    for vector in ITEMS["requests"]:
        with subtests.test(vector["name"]):
            clock.now = vector["now_ms"] / 1000
            replace_rows(client, table_name, [item_from(vector["row"])])
            request, malformed = None, None
            try:
                request = store.request(KEY, vector["key"])
            except MalformedRowError as error:
                malformed = error
            assert error_fields(malformed) == expected(vector)
            members = request and {n: v for n, v in vars(request).items() if v and n != "key"}
            assert members == vector.get("request")


def test_sequences(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    store = new_store(client, table_name)
    for vector in ITEMS["sequences"]:
        with subtests.test(vector["name"]):
            stored = [] if vector["row"] is None else [item_from(vector["row"])]
            replace_rows(client, table_name, stored)
            found, malformed = None, None
            try:
                found = store.sequence()
            except MalformedRowError as error:
                malformed = error
            assert error_fields(malformed) == expected(vector)
            if found is not None:
                assert (found.seq, found.mark_lifetime) == (vector.get("seq", 0), vector.get("mark_lifetime", 0))


def test_logs(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    store = new_store(client, table_name)
    for vector in ITEMS["logs"] + MARKS["logs"]:
        with subtests.test(vector["name"]):
            replace_rows(client, table_name, map(item_from, vector["rows"]))
            changes = store.changes(vector.get("after", 0))
            malformed = next((change.malformed for change in changes if change.malformed), None)
            assert error_fields(malformed) == expected(vector)
            assert [_said_change(vars(change)) for change in changes if not change.malformed] == [
                {"seq": c["seq"], "reload": [], "marks": [], "confirm": False, **c} for c in vector["changes"]
            ]


def _said_change(change: dict[str, Any]) -> dict[str, Any]:
    targets = {
        kind: [{name: value for name, value in vars(target).items() if value} for target in change[kind]]
        for kind in ("reload", "marks")
    }
    return {"seq": change["seq"], **targets, "confirm": change["confirm"]}


def test_marks(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    store = new_store(client, table_name)
    for vector in MARKS["marks"]:
        with subtests.test(vector["name"]):
            replace_rows(client, table_name, map(item_from, vector["rows"]))
            marks, malformed = None, None
            try:
                marks = [{name: value for name, value in vars(mark).items() if value} for mark in store.marks()]
            except MalformedRowError as error:
                malformed = error
            assert error_fields(malformed) == expected(vector)
            assert malformed or marks == vector["marks"]


def test_covering(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    clock = Clock()
    for vector in MARKS["covering"]:
        with subtests.test(vector["name"]):
            clock.now = vector["now_ms"] / 1000
            store = new_store(client, table_name, now=clock, tenant=vector.get("tenant", ""))
            replace_rows(client, table_name, map(item_from, vector["rows"]))
            cover, malformed = None, None
            try:
                cover = store.covering(vector["key"], vector.get("tags") or ())
            except MalformedRowError as error:
                malformed = error
            assert error_fields(malformed) == expected(vector)
            assert malformed or cover == purges_from(vector.get("cover"))


def test_locks(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    clock = Clock()
    store = new_store(client, table_name, now=clock)
    for vector in load("lease-arithmetic.json")["locks"]:
        with subtests.test(vector["name"]):
            clock.now = vector["now_ms"] / 1000
            pk = {"S": store.partition_key(KEY)}
            stored = [] if vector["item"] is None else [{**item_from(vector["item"]), "pk": pk}]
            replace_rows(client, table_name, stored)
            lock = store.read(KEY).lock
            held = False
            try:
                store.acquire_lease(KEY)
            except LeaseHeldError:
                held = True
            assert held is vector["held"]
            found = None if lock is None else {name: value for name, value in vars(lock).items() if value}
            assert found == vector["lock"]
