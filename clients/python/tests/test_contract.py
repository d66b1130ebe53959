"""The vectors of the contract that the mappers of all languages share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.clocks import NOW
from tests.isr.pages import replace_rows
from tests.isr.vectors import comparable, item_from, load
from theorydb_py import (
    Filter,
    ModelDefinition,
    Query,
    Reader,
    SortKeyCondition,
    Table,
    TheorydbError,
    Update,
    gsi,
    theorydb_field,
    where,
)
from theorydb_py.encryption import DataKey
from theorydb_py.encryption._envelope import seal, unseal
from theorydb_py.encryption._location import Location

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


@dataclass(frozen=True)
class Thing:
    pk: str = theorydb_field(roles=["pk"])
    sk: str = theorydb_field(roles=["sk"])
    name: str = theorydb_field(omitempty=True, default="")
    count: int | None = theorydb_field(omitempty=True, default=None)
    tags: set[str] = field(default_factory=set)
    lines: list[str] = theorydb_field(omitempty=True, default_factory=list)
    secret: str = theorydb_field(omitempty=True, encrypted=True, default="")
    codes: list[str] = theorydb_field(omitempty=True, encrypted=True, default_factory=list)
    version: int = theorydb_field(roles=["version"], omitempty=True, default=0)
    created_at: datetime | None = theorydb_field(roles=["created_at"], omitempty=True, default=None)
    updated_at: int = theorydb_field(roles=["updated_at"], omitempty=True, default=0)


THINGS = ModelDefinition.from_dataclass(Thing, indexes=[gsi("by-name", partition="name", sort="sk")])


class OneKey:
    """The provider of the vectors, which always returns the same data key."""

    def new_data_key(self) -> DataKey:
        return DataKey(bytes([1] * 32), b"sealed")

    def open_data_key(self, sealed: bytes) -> bytes:
        assert sealed == b"sealed"
        return self.new_data_key().plain


class Clock:
    """The instant at which it stands, in epoch seconds."""

    now = NOW


CLOCK = Clock()


@pytest.fixture
def things(client: DynamoDBClient) -> Iterator[Table[Thing]]:
    name = f"python-contract-{uuid.uuid4().hex}"
    table = Table(THINGS, client=client, keys=OneKey(), table_name=name, now=lambda: CLOCK.now)
    table.create_table()
    yield table
    client.delete_table(TableName=name)


@pytest.mark.parametrize("file", ["reads", "writes", "encryption"])
def test_contract(things: Table[Thing], client: DynamoDBClient, file: str, subtests: pytest.Subtests) -> None:
    for vector in load(f"contract/{file}.json")["calls"]:
        with subtests.test(vector["name"]):
            name = things.table_name
            replace_rows(client, name, [encrypted(name, item_from(item)) for item in vector["before"]])
            CLOCK.now = vector.get("now_ms", NOW * 1000) / 1000
            result, error = None, None
            try:
                result = call(things, vector["do"], vector["arguments"])
            except TheorydbError as raised:
                error = raised.code
            assert error == vector.get("error")
            assert comparable(result) == comparable(expected(vector.get("result")))
            after = sorted((decrypted(name, item) for item in stored_items(client, name)), key=key_of)
            assert comparable(after) == comparable([item_from(item) for item in vector["after"]])


def call(things: Table[Thing], do: str, given: Mapping[str, Any]) -> Any:  # noqa: C901 a call each
    """Execute the call; return its result in DynamoDB's format."""
    version = given.get("expected_version")
    match do:
        case "get":
            return encoded(things.get(*key_of(given["key"])))
        case "get_or_none":
            return encoded(things.get_or_none(*key_of(given["key"])))
        case "create":
            return encoded(things.create(THINGS.unmarshal(item_from(given["item"]))))
        case "put":
            return encoded(things.put(THINGS.unmarshal(item_from(given["item"]))))
        case "update":
            return encoded(things.update(*key_of(given["key"]), update_of(given), expected_version=version))
        case "upsert":
            return encoded(things.upsert(*key_of(given["key"]), update_of(given), expected_version=version))
        case "delete":
            return things.delete(*key_of(given["key"]), expected_version=version)
        case "batch_get":
            return [encoded(found) for found in things.batch_get([key_of(key) for key in given.get("keys", [])])]
        case "query":
            return results(query_of(things, given), given)
        case "pages":
            return [[encoded(item) for item in page.items] for page in query_of(things, given).pages()]
        case "scan":
            options: dict[str, Any] = {"index": given.get("index"), "segments": given.get("segments", 1)}
            found = results(things.scan(**options, filter=filter_of(given.get("filter"))), given)
            return sorted(found, key=lambda item: [item[name]["S"] for name in ("pk", "sk") if name in item])
    raise AssertionError(do)


def query_of(things: Table[Thing], given: Mapping[str, Any]) -> Query[Thing]:
    sort = None
    if "sort" in given:
        operator = "BETWEEN" if given["sort"]["operator"] == "between" else given["sort"]["operator"]
        sort = SortKeyCondition(operator, tuple(plain(value) for value in given["sort"]["values"]))
    return things.query(
        plain(given["partition"]),
        sort=sort,
        index=given.get("index"),
        filter=filter_of(given.get("filter")),
        limit=given.get("limit"),
        scan_forward=not given.get("descending", False),
        consistent_read=given.get("consistent_read"),
    )


def results(reader: Query[Thing], given: Mapping[str, Any]) -> list[Any]:
    if "fields" not in given:
        return [encoded(item) for item in reader]
    parts: Reader[dict[str, Any]] = reader.select(*given["fields"])
    return [{name: THINGS.marshal_field(THINGS.field(name), value) for name, value in part.items()} for part in parts]


def filter_of(given: Mapping[str, Any] | None) -> Filter | None:
    if given is None:
        return None
    if "not" in given:
        return ~group(given["not"])
    for name in ("and", "or"):
        if name in given:
            first, *others = map(group, given[name])
            for other in others:
                first = first & other if name == "and" else first | other
            return first
    return where(given["attribute"], given["operator"], *map(plain, given.get("values", [])))


def group(given: Mapping[str, Any]) -> Filter:
    made = filter_of(given)
    assert made is not None
    return made


def update_of(given: Mapping[str, Any]) -> Update:
    update = Update()
    for name, value in given.get("set", {}).items():
        update = update.set(name, plain(value))
    for name in given.get("remove", []):
        update = update.remove(name)
    for name, value in given.get("add", {}).items():
        update = update.add(name, plain(value))
    for name, value in given.get("if_not_exists", {}).items():
        update = update.if_not_exists(name, plain(value))
    for name, value in given.get("append", {}).items():
        update = update.append(name, plain(value))
    for name, value in given.get("delete", {}).items():
        update = update.delete(name, plain(value))
    return update


def plain(value: Mapping[str, Any]) -> Any:
    """Return the Python value of an attribute of a Thing."""
    kind, content = next(iter(value.items()))
    match kind:
        case "N":
            return int(content)
        case "SS":
            return set(content)
        case "L":
            return [plain(element) for element in content]
    return content


def expected(result: Any) -> Any:
    """Return a vector's result in boto3's format."""
    if isinstance(result, list):
        return [expected(one) for one in result]
    return None if result is None else item_from(result)


def encoded(item: Thing | None) -> Any:
    return None if item is None else THINGS.marshal(item)


def key_of(item: Mapping[str, Any]) -> tuple[str, str]:
    return item["pk"]["S"], item["sk"]["S"]


def stored_items(client: DynamoDBClient, table: str) -> list[Any]:
    return list(client.scan(TableName=table, ConsistentRead=True)["Items"])


def encrypted(table: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Encrypt what a vector marks by ``{"M": {"encrypted": VALUE}}``."""
    marked = {n: v["M"]["encrypted"] for n, v in item.items() if "encrypted" in v.get("M", {})}
    return {**item, **seal(OneKey(), location_of(table, item), marked)}


def decrypted(table: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Decrypt what is encrypted, and mark it."""
    sealed = {n: v for n, v in item.items() if "edk" in v.get("M", {})}
    opened = unseal(OneKey(), location_of(table, item), sealed)
    return {**item, **{n: {"M": {"encrypted": v}} for n, v in opened.items()}}


def location_of(table: str, item: Mapping[str, Any]) -> Location:
    return Location(table, {n: item[n] for n in ("pk", "sk")})
