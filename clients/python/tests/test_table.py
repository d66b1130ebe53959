"""Tables on real engines."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from tests.conftest import Engine
from tests.lostreplies import Faults
from tests.polling import eventually
from theorydb_py import (
    ConditionFailedError,
    Index,
    InvalidInputError,
    InvalidModelError,
    InvalidQueryError,
    ItemNotFoundError,
    MalformedRowError,
    ModelDefinition,
    Outcome,
    Retry,
    SortKeyCondition,
    Table,
    TableNotFoundError,
    ThrottledError,
    UnknownOutcomeError,
    UpdateAdd,
    UpdateSetIfNotExists,
    VersionConflictError,
    gsi,
    lsi,
    outcome_of,
    theorydb_field,
    where,
)

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


@dataclass(frozen=True)
class Note:
    pk: str = theorydb_field(roles=["pk"])
    sk: str = theorydb_field(roles=["sk"])
    value: int = theorydb_field(default=0)
    tag: str | None = theorydb_field(omitempty=True, default=None)
    words: set[str] = theorydb_field(default_factory=set)
    share: Decimal = theorydb_field(name="part", default=Decimal(0))


@dataclass(frozen=True)
class Counted:
    pk: str = theorydb_field(roles=["pk"])
    sk: str = theorydb_field(roles=["sk"])
    text: str = ""
    version: int = theorydb_field(roles=["version"], name="v", default=0)


@dataclass(frozen=True)
class Strict:
    pk: str = theorydb_field(roles=["pk"])
    sk: str = theorydb_field(roles=["sk"])
    needed: str = theorydb_field()
    hits: int = 0


NOTES = ModelDefinition.from_dataclass(Note)
COUNTED = ModelDefinition.from_dataclass(Counted)


@pytest.fixture
def notes(client: DynamoDBClient, table_name: str) -> Table[Note]:
    return Table(NOTES, client=client, table_name=table_name)


@pytest.fixture
def counted(client: DynamoDBClient, table_name: str) -> Table[Counted]:
    return Table(COUNTED, client=client, table_name=table_name)


def test_put_get_delete(notes: Table[Note]) -> None:
    note = Note("A", "B", 1, "t", {"x", "y"}, Decimal("0.5"))
    assert notes.put(note) == note
    assert notes.get("A", "B") == note
    notes.delete("A", "B")
    with pytest.raises(ItemNotFoundError, match="read Note pk='A' sk='B' in table"):
        notes.get("A", "B")
    notes.delete("A", "B")  # again


def test_put_replaces_the_item(notes: Table[Note]) -> None:
    notes.put(Note("A", "B", 1, "t"))
    notes.put(Note("A", "B", 2))
    assert notes.get("A", "B") == Note("A", "B", 2)


def test_create_does_not_replace(notes: Table[Note]) -> None:
    notes.create(Note("A", "B", 1))
    with pytest.raises(ConditionFailedError, match="create Note pk='A' sk='B'") as failed:
        notes.create(Note("A", "B", 2))
    assert failed.value.item is not None
    assert NOTES.unmarshal(failed.value.item) == Note("A", "B", 1)


def test_conditions_are_enforced(notes: Table[Note]) -> None:
    absent: dict[str, Any] = {
        "condition_expression": "attribute_not_exists(#pk)",
        "expression_attribute_names": {"#pk": "pk"},
    }
    notes.put(Note("A", "B", 1), **absent)
    with pytest.raises(ConditionFailedError):
        notes.put(Note("A", "B", 2), **absent)
    one: dict[str, Any] = {
        "condition_expression": "#v = :v OR contains(words, :w)",
        "expression_attribute_names": {"#v": "value"},
    }
    with pytest.raises(ConditionFailedError):
        notes.delete("A", "B", **one, expression_attribute_values={":v": 2.5, ":w": "z"})
    notes.delete("A", "B", **one, expression_attribute_values={":v": 1, ":w": "z"})


def test_failed_condition_on_a_missing_item(notes: Table[Note]) -> None:
    with pytest.raises(ConditionFailedError, match="there is no item") as failed:
        notes.delete("A", "B", condition_expression="attribute_exists(pk)")
    assert failed.value.item is None


def test_update_changes_only_the_named_fields(notes: Table[Note]) -> None:
    notes.put(Note("A", "B", 1, "t", {"x"}, Decimal(2)))
    after = notes.update("A", "B", {"value": 2, "part": Decimal("2.5")})
    assert after == Note("A", "B", 2, "t", {"x"}, Decimal("2.5"))
    assert notes.update("A", "B", {"tag": None, "words": set()}) == Note("A", "B", 2, None, set(), Decimal("2.5"))
    assert "tag" not in notes._client.get_item(TableName=notes.table_name, Key=NOTES.key("A", "B"))["Item"]


def test_update_adds(notes: Table[Note]) -> None:
    changes = {"value": UpdateAdd(5), "words": UpdateAdd({"x"}), "tag": UpdateSetIfNotExists("first")}
    assert notes.upsert("A", "B", changes) == Note("A", "B", 5, "first", {"x"})
    changes = {"value": UpdateAdd(-2), "words": UpdateAdd({"y"}), "tag": UpdateSetIfNotExists("second")}
    assert notes.update("A", "B", changes) == Note("A", "B", 3, "first", {"x", "y"})


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ({}, "at least one field"),
        ({"pk": "C"}, "keys, the version"),
        ({"share": Decimal(1), "part": Decimal(2)}, "updated twice"),
        ({"tag": UpdateAdd("x")}, "a number or a set"),
    ],
)
def test_inconsistent_updates_are_refused(notes: Table[Note], updates: Any, message: str) -> None:
    with pytest.raises(InvalidQueryError, match=message):
        notes.update("A", "B", updates)


@pytest.mark.parametrize(
    ("updates", "message"),
    [({"values": 1}, "no field 'values'"), ({"value": "1"}, "expected an int"), ({"value": UpdateAdd(0.5)}, "an int")],
)
def test_updates_of_the_wrong_type_are_refused(notes: Table[Note], updates: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        notes.update("A", "B", updates)


def test_update_of_a_malformed_item_is_applied(client: DynamoDBClient, table_name: str) -> None:
    table = Table(ModelDefinition.from_dataclass(Strict, table_name=table_name), client=client)
    with pytest.raises(MalformedRowError, match="needed"):
        table.upsert("A", "B", {"hits": UpdateAdd(1)})
    assert client.get_item(TableName=table_name, Key={"pk": {"S": "A"}, "sk": {"S": "B"}})["Item"]["hits"] == {"N": "1"}


# --- Versions ---------------------------------------------------------------


def test_writes_increment_the_version(counted: Table[Counted]) -> None:
    first = counted.put(Counted("A", "B", "one"))
    assert first.version == 1
    second = counted.put(replace(first, text="two"))
    assert counted.get("A", "B") == second == Counted("A", "B", "two", 2)


def test_stale_version_raises_a_conflict(counted: Table[Counted]) -> None:
    first = counted.put(Counted("A", "B", "one"))
    counted.update("A", "B", {"text": "interleaved"})
    with pytest.raises(VersionConflictError, match="it has version 2") as conflict:
        counted.put(replace(first, text="two"))
    assert conflict.value.item is not None
    with pytest.raises(VersionConflictError):
        counted.put(Counted("A", "B", "as if it did not exist"))
    with pytest.raises(VersionConflictError):
        counted.update("A", "B", {"text": "x"}, expected_version=1)
    with pytest.raises(VersionConflictError):
        counted.delete("A", "B", expected_version=1)
    assert counted.get("A", "B").text == "interleaved"
    assert counted.update("A", "B", {"text": "x"}, expected_version=2).version == 3
    counted.delete("A", "B", expected_version=3)
    with pytest.raises(VersionConflictError, match="there is no item"):
        counted.put(Counted("A", "B", "three", 3))


def test_other_failed_conditions_are_not_version_conflicts(counted: Table[Counted]) -> None:
    first = counted.put(Counted("A", "B", "one"))
    with pytest.raises(ConditionFailedError) as failed:
        counted.put(first, condition_expression="attribute_exists(nothing)")
    assert not isinstance(failed.value, VersionConflictError)


def test_create_sets_version_one(counted: Table[Counted]) -> None:
    assert counted.create(Counted("A", "B")).version == 1
    assert counted.create(Counted("A", "C", version=7)).version == 7


def test_version_cannot_be_updated(counted: Table[Counted], notes: Table[Note]) -> None:
    with pytest.raises(InvalidQueryError, match="keys, the version"):
        counted.update("A", "B", {"version": 9})
    with pytest.raises(InvalidQueryError, match="Note has no version field"):
        notes.update("A", "B", {"value": 9}, expected_version=1)


def test_concurrent_updates_are_not_lost(counted: Table[Counted]) -> None:
    counted.put(Counted("A", "B"))

    def append(word: str) -> None:
        while True:
            seen = counted.get("A", "B")
            try:
                counted.put(replace(seen, text=seen.text + word))
            except VersionConflictError:
                continue
            else:
                return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, "abcdefghijklmnop"))
    after = counted.get("A", "B")
    assert sorted(after.text) == list("abcdefghijklmnop")
    assert after.version == 17


# --- Queries ----------------------------------------------------------------


@pytest.fixture
def filled(notes: Table[Note]) -> Table[Note]:
    notes.batch_write(puts=[Note("P", f"{i:03}", i, "even" if i % 2 == 0 else None) for i in range(30)])
    notes.put(Note("Q", "000", 1000))
    return notes


def keys(items: list[Note]) -> list[int]:
    return [int(item.sk) for item in items]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        (None, range(30)),
        (SortKeyCondition.eq("007"), [7]),
        (SortKeyCondition.lt("003"), [0, 1, 2]),
        (SortKeyCondition.lte("003"), [0, 1, 2, 3]),
        (SortKeyCondition.gt("027"), [28, 29]),
        (SortKeyCondition.gte("027"), [27, 28, 29]),
        (SortKeyCondition.between("010", "012"), [10, 11, 12]),
        (SortKeyCondition.begins_with("01"), range(10, 20)),
    ],
)
def test_sort_keys(filled: Table[Note], sort: SortKeyCondition | None, expected: Any) -> None:
    assert keys(filled.query("P", sort=sort).all()) == list(expected)


@pytest.mark.parametrize("forward", [True, False])
def test_pages(filled: Table[Note], forward: bool) -> None:
    pages = list(filled.query("P", limit=7, scan_forward=forward).pages())
    assert [len(page.items) for page in pages[:5]] == [7, 7, 7, 7, 2]
    seen = [key for page in pages for key in keys(page.items)]
    assert seen == sorted(range(30), reverse=not forward)
    assert pages[-1].next_cursor is None


def test_filters_apply_after_the_limit(filled: Table[Note]) -> None:
    page = filled.query(
        "P",
        limit=4,
        filter_expression="#t = :even AND #v > :least",
        expression_attribute_names={"#t": "tag", "#v": "value"},
        expression_attribute_values={":even": "even", ":least": 0},
    ).page()
    assert keys(page.items) == [2]
    assert page.next_cursor


def test_pages_are_read_on_demand(engine: Engine, filled: Table[Note]) -> None:
    client = engine.client()
    faults = Faults(client)
    table = Table(NOTES, client=client, table_name=filled.table_name)
    for _ in table.query("P", limit=5):
        break
    assert faults.sent["Query"] == 1


def test_cursor_is_bound_to_its_query(filled: Table[Note]) -> None:
    cursor = filled.query("P", limit=3).page().next_cursor
    assert cursor is not None
    assert keys(filled.query("P", limit=2).page(cursor).items) == [3, 4]
    for wrong in (cursor[:-2], cursor + "!", "", "x" * 10_000, "e30", "W10", cursor.swapcase()):
        with pytest.raises(InvalidQueryError, match="cursor"):
            filled.query("P").page(wrong)
    with pytest.raises(InvalidQueryError, match="cursor"):
        filled.query("Q").page(cursor)
    with pytest.raises(InvalidQueryError, match="cursor"):
        filled.query("P", scan_forward=False).page(cursor)


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "1"])
def test_invalid_limits_are_refused(notes: Table[Note], limit: Any) -> None:
    with pytest.raises(InvalidQueryError, match="limit"):
        notes.query("P", limit=limit)


# --- Batches ----------------------------------------------------------------


def test_batches_of_any_size(notes: Table[Note]) -> None:
    items = [Note("P", f"{i:03}", i) for i in range(230)]
    notes.batch_write(puts=items)
    wanted = [("P", f"{i * 7 % 240:03}") for i in range(240)]
    found = notes.batch_get([*wanted, *wanted])
    assert found == [items[int(sk)] if int(sk) < 230 else None for _, sk in wanted] * 2
    notes.batch_write(puts=[Note("P", "new")], deletes=[("P", f"{i:03}") for i in range(230)])
    assert notes.query("P").all() == [Note("P", "new")]


def test_empty_batches(notes: Table[Note]) -> None:
    assert notes.batch_get([]) == []
    notes.batch_write()


def test_batches_increment_versions(counted: Table[Counted]) -> None:
    first = counted.put(Counted("A", "B", "one"))
    counted.batch_write(puts=[replace(first, text="two")])
    with pytest.raises(VersionConflictError):
        counted.put(first)


class Sparing:
    """Make a client's batches incomplete, as a throttled table does: so many items per request."""

    def __init__(self, client: DynamoDBClient, allowed: list[int]) -> None:
        self._allowed = allowed
        self._left: dict[str, Any] = {}
        events = client.meta.events
        for operation in ("BatchWriteItem", "BatchGetItem"):
            events.register(f"provide-client-params.dynamodb.{operation}", self._cut)
            events.register(f"after-call.dynamodb.{operation}", self._tell)

    def _cut(self, params: Any, **_: Any) -> Any:
        """Send only the first items, and record the rest."""
        ((table, asked),) = params["RequestItems"].items()
        some = self._allowed.pop(0) if self._allowed else 100
        keys = asked["Keys"] if isinstance(asked, dict) else asked
        send, left = keys[: max(some, 1)], keys[some:]
        wrap = (lambda part: {**asked, "Keys": part}) if isinstance(asked, dict) else (lambda part: part)
        self._left = {table: wrap(left)} if left else {}
        return {**params, "RequestItems": {table: wrap(send)}}

    def _tell(self, parsed: Any, event_name: str, **_: Any) -> None:
        member = "UnprocessedKeys" if event_name.endswith("BatchGetItem") else "UnprocessedItems"
        parsed[member] = self._left


def test_unprocessed_items_are_retried(engine: Engine, table_name: str) -> None:
    client = engine.client()
    table = Table(
        NOTES, client=client, table_name=table_name, retry=Retry(first_backoff_seconds=0.001, timeout_seconds=60)
    )
    items = [Note("P", f"{i:03}", i) for i in range(60)]
    allowed = [10, 0, 0, 0, 0, 0, 0, 3]
    Sparing(client, allowed)
    table.batch_write(puts=items)
    assert allowed == []
    assert table.query("P").all() == items
    allowed += [50, 0, 1]
    assert table.batch_get([("P", f"{i:03}") for i in range(60)]) == items
    assert allowed == []


def test_persistently_unprocessed_items_raise(engine: Engine, table_name: str) -> None:
    client = engine.client()
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    patience = Retry(timeout_seconds=5, sleep=sleep, monotonic=lambda: now)
    table = Table(NOTES, client=client, table_name=table_name, retry=patience)
    Sparing(client, [10] + [0] * 1000)
    with pytest.raises(ThrottledError, match=r"10 of 60 are written, .*: 15 items") as failed:
        table.batch_write(puts=[Note("P", f"{i:03}", i) for i in range(60)])
    assert now <= 5
    assert failed.value.unprocessed is not None
    assert failed.value.unprocessed.puts == tuple(Note("P", f"{i:03}", i) for i in range(10, 60))
    table.batch_write()


def test_duplicate_items_in_a_batch_are_refused(notes: Table[Note]) -> None:
    with pytest.raises(InvalidQueryError, match="twice"):
        notes.batch_write(puts=[Note("A", "B")], deletes=[("A", "B")])


@pytest.mark.parametrize("key", ["A", ("A",), ("A", "B", "C"), ("A", 1), None])
def test_invalid_batch_keys_are_refused(notes: Table[Note], key: Any) -> None:
    with pytest.raises(InvalidInputError):
        notes.batch_get([key])


# --- Errors -----------------------------------------------------------------


def test_missing_table(client: DynamoDBClient) -> None:
    table = Table(NOTES, client=client, table_name="there-is-none")
    for do in (
        lambda: table.get("A", "B"),
        lambda: table.put(Note("A", "B")),
        lambda: table.query("A").all(),
        lambda: table.batch_get([("A", "B")]),
        lambda: table.batch_write(puts=[Note("A", "B")]),
    ):
        with pytest.raises(TableNotFoundError, match="there-is-none"):
            do()


def test_dynamodb_rejections(notes: Table[Note]) -> None:
    with pytest.raises(InvalidQueryError, match="DynamoDB rejected") as refused:
        notes.put(Note("A", "B"), condition_expression="value = ")
    assert outcome_of(refused.value) is Outcome.REFUSED


@pytest.mark.parametrize(
    "wrong",
    [
        {"expression_attribute_values": {":v": 1}},
        {"condition_expression": " "},
        {"condition_expression": "x = :v", "expression_attribute_values": {"v": 1}},
        {"condition_expression": "#n = x", "expression_attribute_names": {"#n": ""}},
    ],
)
def test_invalid_expressions_are_refused(notes: Table[Note], wrong: Any) -> None:
    with pytest.raises(InvalidQueryError):
        notes.put(Note("A", "B"), **wrong)


def test_values_of_expressions_are_exact(notes: Table[Note]) -> None:
    with pytest.raises(InvalidInputError, match=r":v at \[0\]"):
        notes.put(Note("A", "B"), condition_expression="x = :v", expression_attribute_values={":v": [float("nan")]})


def test_placeholders_do_not_collide(counted: Table[Counted]) -> None:
    first = counted.put(Counted("A", "B", "one"))
    demand: dict[str, Any] = {
        "condition_expression": "#td1 = :td1",  # our own placeholders after one name and one value
        "expression_attribute_names": {"#td1": "text"},
    }
    with pytest.raises(ConditionFailedError):
        counted.put(first, **demand, expression_attribute_values={":td1": "two"})
    assert counted.put(first, **demand, expression_attribute_values={":td1": "one"}).version == 2


@pytest.fixture
def faulty(engine: Engine, table_name: str) -> tuple[Faults, Table[Counted]]:
    client = engine.client(retries={"total_max_attempts": 1})
    return Faults(client), Table(
        COUNTED, client=client, table_name=table_name, retry=Retry(first_backoff_seconds=0.001, timeout_seconds=60)
    )


def test_write_without_a_reply_is_unknown(faulty: tuple[Faults, Table[Counted]]) -> None:
    faults, table = faulty
    faults.lose("PutItem")
    with pytest.raises(UnknownOutcomeError, match="put Counted pk='A' sk='B'"):
        table.put(Counted("A", "B"))
    assert table.get("A", "B").version == 1
    faults.drop("DeleteItem")
    with pytest.raises(UnknownOutcomeError):
        table.delete("A", "B")
    assert table.get("A", "B").version == 1


def test_batches_are_retried(faulty: tuple[Faults, Table[Counted]]) -> None:
    faults, table = faulty
    faults.lose("BatchWriteItem", 2)
    table.batch_write(puts=[Counted("A", f"{i}") for i in range(30)])
    faults.drop("BatchGetItem", 2)
    assert len(table.batch_get([("A", f"{i}") for i in range(30)])) == 30


def test_unanswered_batch_reports_how_much_is_written(faulty: tuple[Faults, Table[Counted]]) -> None:
    faults, table = faulty
    written = 0

    def then_lose(**_: Any) -> None:
        nonlocal written
        written += 1
        if written == 1:
            faults.lose("BatchWriteItem", 100)

    table._client.meta.events.register_last("response-received.dynamodb.BatchWriteItem", then_lose)
    with pytest.raises(UnknownOutcomeError, match="25 of 30 are written"):
        table.batch_write(puts=[Counted("A", f"{i}") for i in range(30)])


# --- Reads and provisioning -------------------------------------------------


def test_scan_in_segments_leaves_no_thread(filled: Table[Note]) -> None:
    before = threading.active_count()
    assert sorted(keys(filled.scan(segments=40, limit=2).all())) == [0, *range(30)]  # one of another partition
    reader = iter(filled.scan(segments=4, limit=1))
    next(reader)
    del reader
    assert threading.active_count() == before
    with pytest.raises(InvalidQueryError, match="no single page"):
        filled.scan(segments=2).page()
    with pytest.raises(InvalidQueryError, match="segments"):
        filled.scan(segments=0)


def test_pages_of_a_scan(filled: Table[Note]) -> None:
    first = filled.scan(limit=10).page()
    assert first.next_cursor is not None
    rest = filled.scan().page(first.next_cursor)
    assert sorted(keys([*first.items, *rest.items])) == [0, *range(30)]


def test_invalid_filters_are_refused(filled: Table[Note]) -> None:
    for wrong in (("tag", "like", "x"), ("tag", "between", 1), ("tag", "exists", 1), ("tag", "in")):
        with pytest.raises(InvalidQueryError, match="expected"):
            where(*wrong)
    with pytest.raises(InvalidQueryError, match="&"):
        bool(where("tag", "exists"))
    with pytest.raises(InvalidInputError, match="no field 'values'"):
        filled.query("P", filter=where("values", "=", 1))
    with pytest.raises(InvalidInputError, match="an int"):
        filled.query("P", filter=where("value", "=", "1"))
    with pytest.raises(InvalidQueryError, match="no index"):
        filled.query("P", index="by-tag")


@dataclass(frozen=True)
class Letter:
    pk: str = theorydb_field(roles=["pk"])
    sk: str = theorydb_field(roles=["sk"])
    sender: str = theorydb_field(omitempty=True, default="")
    day: int | None = theorydb_field(omitempty=True, default=None)
    expires: int | None = theorydb_field(roles=["ttl"], omitempty=True, default=None)


def ensured(table: Table[Letter]) -> bool:
    """Ensure a table. DynamoDB Local sometimes fails to add an index, with an internal error, on a busy machine."""
    try:
        table.ensure_table(timeout_seconds=600)
    except ClientError as error:
        if error.response["Error"]["Code"] != "InternalFailure":
            raise
        return False
    return True


def test_ensure_table_adapts_an_existing_table(client: DynamoDBClient) -> None:
    name = f"python-{uuid.uuid4().hex}"
    Table(ModelDefinition.from_dataclass(Note), client=client, table_name=name).ensure_table()
    indexes = [gsi("by-sender", partition="sender", sort="day")]
    letters = Table(ModelDefinition.from_dataclass(Letter, indexes=indexes), client=client, table_name=name)
    try:
        assert eventually(lambda: ensured(letters))
        letters.ensure_table()  # again
        letters.put(Letter("A", "1", "Ada", 3))
        letters.put(Letter("A", "2", "Ada", 2))
        letters.put(Letter("A", "3"))
        assert [letter.day for letter in letters.query("Ada", index="by-sender")] == [2, 3]
        ttl = client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
        assert ttl.get("AttributeName") == "expires"
        local = ModelDefinition.from_dataclass(Letter, indexes=[lsi("by-day", sort="day")])
        with pytest.raises(InvalidModelError, match="only a new table"):
            Table(local, client=client, table_name=name).ensure_table()
        other = ModelDefinition.from_dataclass(Letter, indexes=[gsi("by-sender", partition="sender")])
        with pytest.raises(InvalidModelError, match="has the keys"):
            Table(other, client=client, table_name=name).ensure_table()
    finally:
        client.delete_table(TableName=name)


def test_local_index(client: DynamoDBClient) -> None:
    model = ModelDefinition.from_dataclass(Letter, indexes=[lsi("by-day", sort="day")])
    letters = Table(model, client=client, table_name=f"python-{uuid.uuid4().hex}")
    letters.create_table()
    try:
        for i in range(5):
            letters.put(Letter("A", str(i), day=9 - i))
        found = letters.query("A", index="by-day", sort=SortKeyCondition.gt(6), consistent_read=True, limit=1)
        assert [letter.day for letter in found] == [7, 8, 9]
    finally:
        client.delete_table(TableName=letters.table_name)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (gsi("by", partition="sender"), "3 to 255"),
        (gsi("by-x", partition="nothing"), "no field"),
        (gsi("by-x", partition="sender", sort="sender"), "both"),
    ],
)
def test_invalid_indexes_are_refused(index: Index, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        ModelDefinition.from_dataclass(Letter, indexes=[index])


def test_type_checkers_know_required_fields() -> None:
    """Run mypy on wrong programs: it rejects each line that is marked so, and no other."""
    program = Path(__file__).parent / "rejected" / "wrong.py"
    expected = {i for i, line in enumerate(program.read_text().splitlines(), 1) if "# rejected" in line}
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, program],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found = {int(line.split(":")[1]) for line in run.stdout.splitlines() if ": error:" in line}
    assert expected
    assert found == expected, run.stdout
