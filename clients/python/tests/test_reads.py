"""Counts, and filters and projections under the names of TableTheory."""

from __future__ import annotations

import asyncio
import pickle
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ConnectionClosedError

from tests.conftest import Engine
from theorydb_py import (
    Filter,
    FilterBuilder,
    FilterCondition,
    FilterGroup,
    InvalidInputError,
    InvalidQueryError,
    ModelDefinition,
    Query,
    SortKeyCondition,
    Table,
    TableNotFoundError,
    gsi,
    theorydb_field,
    theorydb_model,
    where,
)
from theorydb_py.aio import AsyncTable

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


@theorydb_model
class Visit:
    pk: str = theorydb_field(roles=["pk"])
    sk: str = theorydb_field(roles=["sk"])
    kind: str = theorydb_field(omitempty=True, default="")
    n: int | None = theorydb_field(omitempty=True, default=None)
    tags: list[str] = theorydb_field(omitempty=True, default_factory=list)
    body: str = theorydb_field(default="")


VISITS = ModelDefinition.from_dataclass(Visit, indexes=[gsi("by-kind", partition="kind")])


class Recorded:
    """A client that records the requests of reads."""

    def __init__(self, client: DynamoDBClient) -> None:
        self._client = client
        self.requests: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        if name not in ("query", "scan"):
            return call

        def record(**request: Any) -> Any:
            self.requests.append(request)
            return call(**request)

        return record


@pytest.fixture
def recorded(client: DynamoDBClient) -> Any:
    return Recorded(client)


Filled = Callable[..., Table[Visit]]


@pytest.fixture
def filled(recorded: Any) -> Iterator[Filled]:
    """Make a table with the items ``log 00`` to ``log 29`` of three kinds, and one of another partition."""
    names: list[str] = []

    def fill(size: int = 10) -> Table[Visit]:
        name = f"python-reads-{uuid.uuid4().hex}"
        table = Table(VISITS, client=recorded, table_name=name)
        table.create_table()
        names.append(name)
        visits = [Visit("log", f"log {n:02}", "abc"[n % 3], n, [str(n)], "x" * size) for n in range(30)]
        table.batch_write(puts=[*visits, Visit("other", "one")])
        recorded.requests.clear()
        return table

    yield fill
    for name in names:
        recorded.delete_table(TableName=name)


def kept(query: Query[Visit]) -> list[int | None]:
    """Return which items a filter keeps."""
    return [visit.n for visit in query]


def test_count_counts_all_pages_and_reads_no_item(filled: Filled, recorded: Any) -> None:
    table = filled(100_000)
    assert table.query("log").count() == 30
    assert len(recorded.requests) >= 3, "three pages of 1 MB at least"
    assert table.scan().count() == 31
    assert table.scan(segments=4).count() == 31
    assert table.query("none").count() == 0
    assert (table.query_count("log"), table.scan_count(), table.scan_count(segments=3)) == (30, 31, 31)
    assert all(request["Select"] == "COUNT" for request in recorded.requests)


def test_count_respects_what_is_read(filled: Filled, recorded: Any) -> None:
    """It respects keys, filters, indexes and cursors, and neither limits nor projections."""
    table = filled()
    between = SortKeyCondition.between("log 05", "log 09")
    assert table.query("log", sort=between).count() == table.query_count("log", sort=between) == 5
    few = where("kind", "=", "a") & where("n", "<", 10)
    assert table.query("log", filter=few).count() == table.query_count("log", filter=few) == 4
    assert table.query("log", filter_expression="n < :n", expression_attribute_values={":n": 3}).count() == 3
    assert table.scan(filter=where("n", "not_exists")).count() == table.scan_count(filter=where("n", "not_exists")) == 1
    assert table.query("b", index="by-kind").count() == table.query_count("b", index="by-kind") == 10
    assert table.scan(index="by-kind", segments=2).count() == table.scan_count(index="by-kind", segments=2) == 30
    recorded.requests.clear()
    assert table.query("log", limit=1, scan_forward=False).select("n").count() == 30
    assert len(recorded.requests) == 1, "a limit does not make more pages"
    assert "ProjectionExpression" not in recorded.requests[0]
    assert table.query("log", limit=1).filter("kind", "=", "a").projection(["body"]).count() == 10
    cursor = table.query("log", limit=20).page().next_cursor
    assert table.query("log").count(cursor) == table.query_count("log", cursor=cursor) == 10
    assert len(table.query("log", limit=7).all()) == 30
    cursor = table.scan(limit=20).page().next_cursor
    assert table.scan_count(cursor=cursor) == 11


def test_count_fails_like_a_read(filled: Filled, client: DynamoDBClient) -> None:
    table = filled()
    with pytest.raises(InvalidInputError, match="no strongly consistent reads"):
        table.query_count("a", index="by-kind", consistent_read=True)
    with pytest.raises(InvalidQueryError, match="segments has no single page"):
        table.scan(segments=2).count("x")
    with pytest.raises(InvalidQueryError, match="cursor is damaged"):
        table.query("log").count("x")
    with pytest.raises(InvalidQueryError, match="no index"):
        table.scan_count(index="none")
    missing = Table(VISITS, client=client, table_name="no-such-table")
    with pytest.raises(TableNotFoundError):
        missing.query("log").count()
    with pytest.raises(TableNotFoundError):
        missing.scan(segments=2).count()


@pytest.mark.parametrize("segments", [1, 2])
def test_a_count_is_complete_or_an_error(filled: Filled, engine: Engine, segments: int) -> None:
    table = filled(100_000)
    client = engine.client(retries={"total_max_attempts": 1})
    arrived: list[object] = []

    def drop_the_third(**sent: object) -> None:
        arrived.append(sent)
        if len(arrived) == 3:
            raise ConnectionClosedError(endpoint_url=engine.url)

    client.meta.events.register("before-send.dynamodb.Scan", drop_the_third)
    broken = Table(VISITS, client=client, table_name=table.table_name)
    with pytest.raises(ConnectionClosedError):
        broken.scan(segments=segments).count()
    assert broken.scan(segments=segments).count() == 31
    client.close()


def test_filters_join_as_the_contract_says(filled: Filled) -> None:
    """An alternative is one to all filters before it."""
    table = filled()
    log = table.query("log")
    few = log.filter("n", "<", 6)  # kinds a b c a b c
    assert kept(few.filter("kind", "=", "a").or_filter("n", "=", 20)) == [0, 3, 20]
    assert kept(few.or_filter("n", "=", 20).filter("kind", "=", "c")) == [2, 5, 20]
    assert kept(log.or_filter("n", "=", 7)) == [7]
    assert kept(few.filter_group(lambda g: g.filter("kind", "=", "a").or_filter("kind", "=", "b"))) == [0, 1, 3, 4]

    def late(group: FilterBuilder) -> None:
        group.filter("n", ">", 26)  # what the function returns does not matter
        group.filter("kind", "<>", "b")

    assert kept(few.filter("kind", "=", "b").or_filter_group(late)) == [1, 4, 27, 29]
    nested = log.filter_group(
        lambda g: g.filter_group(lambda h: h.filter("n", "=", 1).or_filter("n", "=", 2)).or_filter_group(
            lambda h: h.filter("n", ">=", 28).filter_group(lambda i: i.filter("kind", "in", "a", "c"))
        )
    )
    assert kept(nested) == [1, 2, 29]
    assert kept(log.or_filter(~where("n", ">", 0))) == [0]
    assert kept(few) == [0, 1, 2, 3, 4, 5], "a query is not changed by what is built on it"
    assert kept(table.query("log", filter=where("n", "<", 2)).or_filter(where("n", "=", 9))) == [0, 1, 9]
    assert table.scan().filter("n", "<", 1).or_filter_group(lambda g: g.filter("n", "not_exists")).count() == 2
    assert [part["sk"] for part in few.projection(["sk"])][:2] == ["log 00", "log 01"]
    assert list(table.scan(segments=3).filter("n", "=", 3).projection(["n", "kind"])) == [{"n": 3, "kind": "a"}]
    raw = table.query("log", filter_expression="n < :n", expression_attribute_values={":n": 9})
    assert kept(raw.filter("kind", "=", "a")) == [0, 3, 6]


OF_PEER: dict[str, tuple[Filter, list[int]]] = {
    "eq": (FilterCondition.eq("n", 3), [3]),
    "ne": (FilterCondition.ne("kind", "a") & FilterCondition.lt("n", 4), [1, 2]),
    "lt": (FilterCondition.lt("n", 2), [0, 1]),
    "lte": (FilterCondition.lte("n", 1), [0, 1]),
    "gt": (FilterCondition.gt("n", 28), [29]),
    "gte": (FilterCondition.gte("n", 28), [28, 29]),
    "between": (FilterCondition.between("n", 4, 6), [4, 5, 6]),
    "begins_with": (FilterCondition.begins_with("kind", "b") & FilterCondition.lt("n", 9), [1, 4, 7]),
    "contains": (FilterCondition.contains("tags", "17"), [17]),
    "in_": (FilterCondition.in_("n", [1, 5, 99]), [1, 5]),
    "exists": (FilterGroup.and_(FilterCondition.exists("tags"), FilterCondition.eq("n", 1)), [1]),
    "not_exists": (FilterCondition.not_exists("n"), []),
    "and_": (FilterGroup.and_(FilterCondition.eq("kind", "a"), FilterCondition.lt("n", 5)), [0, 3]),
    "or_": (FilterGroup.or_(FilterCondition.eq("n", 2), FilterCondition.eq("n", 4)), [2, 4]),
    "nested": (
        FilterGroup.and_(
            FilterGroup.or_(FilterCondition.eq("n", 2), FilterCondition.eq("n", 4)), FilterCondition.eq("kind", "b")
        ),
        [4],
    ),
    "one": (FilterGroup.or_(FilterCondition.eq("n", 2)), [2]),
    "constructed": (FilterCondition(field="kind", op="!=", values=("a",)) & FilterCondition("n", "in", ([3, 4],)), [4]),
    "inverted": (~FilterCondition.gte("n", 2), [0, 1]),
    "combined with where": (FilterCondition.eq("n", 2) | where("n", "=", 3), [2, 3]),
}


def test_filters_by_the_names_of_the_peer(filled: Filled, subtests: pytest.Subtests) -> None:
    table = filled()
    for name, (condition, expected) in OF_PEER.items():
        with subtests.test(name):
            assert kept(table.query("log", filter=condition)) == expected
            assert table.query("log").filter(condition).count() == len(expected)
            assert kept(table.query("log", filter=pickle.loads(pickle.dumps(condition)))) == expected  # noqa: S301 our own


XOR: Any = "XOR"
TEXT: Any = "n = 1"


@pytest.mark.parametrize(
    "make",
    [
        lambda q: q.filter_group(lambda _: None),
        lambda q: q.filter_group(None),
        lambda q: q.filter_group("n = 1"),
        lambda q: q.or_filter_group(lambda _: None),
        lambda q: q.filter_group(lambda g: g.filter_group(lambda _: None)),
        lambda q: q.filter("n"),
        lambda q: q.filter(where("n", "=", 1), "="),
        lambda q: q.filter("n", "like", "x"),
        lambda q: q.filter("n", "between", 1),
        lambda q: q.filter(7),
        lambda q: q.projection([]),
        lambda q: q.projection("n"),
        lambda _: FilterGroup.and_(),
        lambda _: FilterGroup.or_(),
        lambda _: FilterGroup(XOR, (where("n", "=", 1),)),
        lambda _: FilterGroup.and_(TEXT),
        lambda _: FilterCondition("n", "between", (1,)),
        lambda _: FilterCondition.in_("n", []),
        lambda _: FilterCondition("n", "~", (1,)),
    ],
)
def test_filters_that_are_none_are_refused(engine: Engine, make: Any) -> None:
    table = Table(VISITS, client=engine.client(), table_name="unused")
    with pytest.raises(InvalidQueryError):
        make(table.query("log"))


def test_unknown_fields_are_refused(engine: Engine) -> None:
    log = Table(VISITS, client=engine.client(), table_name="unused").query("log")
    calls: list[Callable[[], object]] = [
        lambda: log.filter("none", "=", 1),
        lambda: log.or_filter_group(lambda g: g.filter("none", "exists")),
        lambda: log.filter(FilterCondition.eq("none", 1)),
        lambda: log.projection(["none"]),
        lambda: log.filter("n", "=", "text"),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError):
            call()


def test_filters_and_counts_under_asyncio(filled: Filled) -> None:
    async def read(table: AsyncTable[Visit]) -> Any:
        log = table.query("log")
        few = log.filter("n", "<", 6)
        cursor = (await table.query("log", limit=20).page()).next_cursor
        return await asyncio.gather(
            few.or_filter("n", "=", 20).count(),
            log.filter_group(lambda g: g.filter("n", "=", 1).or_filter("n", "=", 2)).all(),
            few.or_filter_group(lambda g: g.filter("n", ">", 28)).projection(["n"]).all(),
            table.scan(segments=3).count(),
            few.select("n").count(),
            log.count(cursor),
        )

    async def run() -> Any:
        async with AsyncTable(filled()) as table:
            return await read(table)

    counted, group, parts, scanned, selected, rest = asyncio.run(run())
    assert (counted, [visit.n for visit in group], scanned, selected, rest) == (7, [1, 2], 31, 6, 10)
    assert parts == [{"n": n} for n in (0, 1, 2, 3, 4, 5, 29)]


def test_a_query_is_shared_by_threads(filled: Filled) -> None:
    log = filled().query("log").filter("n", "<", 20)
    with ThreadPoolExecutor(8) as threads:
        counts = list(threads.map(lambda n: log.filter("n", ">=", n).count(), range(20)))
    assert counts == [20 - n for n in range(20)]
