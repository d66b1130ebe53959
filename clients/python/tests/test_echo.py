"""Writes with lost replies that boto3 itself has retried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from tests.clocks import Time
from tests.conftest import Engine
from tests.isr.vectors import item_from, load
from tests.lostreplies import Faults
from theorydb_py import (
    ConditionFailedError,
    ModelDefinition,
    Outcome,
    Table,
    TransactUpsert,
    UnknownOutcomeError,
    UpdateAdd,
    UpdateSetIfNotExists,
    VersionConflictError,
    outcome_of,
    theorydb_field,
)

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


@dataclass(frozen=True)
class Person:
    pk: str = theorydb_field(roles=["pk"])
    sk: str = theorydb_field(roles=["sk"])
    name: str = theorydb_field(omitempty=True, default="")
    marks: set[str] = theorydb_field(omitempty=True, default_factory=set)
    count: int = theorydb_field(omitempty=True, default=0)
    version: int = theorydb_field(roles=["version"], omitempty=True, default=0)


@dataclass(frozen=True)
class Counter:
    pk: str = theorydb_field(roles=["pk"])
    sk: str = theorydb_field(roles=["sk"])
    hits: int = 0


@dataclass(frozen=True)
class Unversioned:
    pk: str = theorydb_field(roles=["pk"])
    sk: str = theorydb_field(roles=["sk"])
    name: str = theorydb_field(omitempty=True, default="")
    marks: set[str] = theorydb_field(omitempty=True, default_factory=set)
    count: int = theorydb_field(omitempty=True, default=0)


PEOPLE = ModelDefinition.from_dataclass(Person)
UNVERSIONED = ModelDefinition.from_dataclass(Unversioned)
COUNTERS = ModelDefinition.from_dataclass(Counter)


# --- The specification ------------------------------------------------------


class Answering:
    """A client whose conditional writes are all refused by the reply to the last of several attempts."""

    def __init__(self, attempts: int, stored: Mapping[str, Any] | None) -> None:
        self._attempts, self._stored = attempts, stored

    def __getattr__(self, operation: str) -> Any:
        def call(**_: Any) -> Any:
            response: Any = {
                "Error": {"Code": "ConditionalCheckFailedException", "Message": "?"},
                "ResponseMetadata": {"HTTPStatusCode": 400, "RetryAttempts": self._attempts - 1},
            }
            if self._stored is not None:
                response["Item"] = self._stored
            raise ClientError(response, operation)

        return call


def write(client: Answering, vector: dict[str, Any]) -> object:
    item = item_from(vector["item"])
    if "version" not in item and vector["write"] != "delete":
        return write_unversioned(client, vector)
    table = Table(PEOPLE, client=client, table_name="people")
    person = PEOPLE.unmarshal(item)
    match vector["write"]:
        case "put":
            return table.put(replace(person, version=person.version - 1))
        case "create":
            return table.create(person)
        case "update":
            return table.update(person.pk, person.sk, updates(vector), expected_version=person.version - 1)
    table.delete(person.pk, person.sk, expected_version=1)
    return None


def write_unversioned(client: Answering, vector: dict[str, Any]) -> object:
    table = Table(UNVERSIONED, client=client, table_name="people")
    thing = UNVERSIONED.unmarshal(item_from(vector["item"]))
    condition = {"condition_expression": "attribute_not_exists(done)"}
    if vector["write"] == "put":
        return table.put(thing, **condition)  # type: ignore[arg-type]
    return table.update(thing.pk, thing.sk, updates(vector), **condition)  # type: ignore[arg-type]


def updates(vector: dict[str, Any]) -> dict[str, Any]:
    """Return the changes of an update; empty values are removed."""
    item = PEOPLE.unmarshal(item_from(vector["item"]))
    changed = {name: getattr(item, name) for name in vector["item"] if name not in ("pk", "sk", "version")}
    removed = {name: getattr(Person("", ""), name) for name in vector.get("removed", [])}
    return {**changed, **removed, **{name: UpdateAdd(1) for name in vector.get("computed", [])}}


@pytest.mark.parametrize("vector", [pytest.param(v, id=v["name"]) for v in load("outcomes.json")["echoes"]])
def test_echoes_of_the_specification(vector: dict[str, Any]) -> None:
    stored = item_from(vector["stored"]) if "stored" in vector else None
    client = Answering(vector["attempts"], stored)
    if vector["outcome"] == "applied":
        assert stored is not None
        model = PEOPLE if "version" in stored else UNVERSIONED
        assert write(client, vector) == model.unmarshal(stored)
        return
    with pytest.raises((ConditionFailedError, UnknownOutcomeError)) as failed:
        write(client, vector)
    assert outcome_of(failed.value).value == vector["outcome"]


# --- Real engines, real retries ----------------------------------------------


@pytest.fixture
def retrying(engine: Engine, table_name: str) -> tuple[Faults, Table[Person]]:
    """A table whose client retries, like boto3's default."""
    client = engine.client(retries={"mode": "standard", "total_max_attempts": 3})
    return Faults(client), Table(PEOPLE, client=client, table_name=table_name)


def test_versioned_write_with_a_lost_reply_succeeds(retrying: tuple[Faults, Table[Person]]) -> None:
    faults, people = retrying
    faults.lose("PutItem")
    first = people.create(Person("p", "s", "Ada", {"b", "a"}))
    assert (first.version, faults.sent["PutItem"]) == (1, 2)
    faults.lose("PutItem")
    second = people.put(first)
    assert (second.version, faults.sent["PutItem"]) == (2, 4)
    faults.lose("UpdateItem")
    third = people.update("p", "s", {"name": "Eve", "marks": set()}, expected_version=2)
    assert third == Person("p", "s", "Eve", version=3)
    assert people.get("p", "s", consistent_read=True) == third


def test_dropped_request_is_retried(retrying: tuple[Faults, Table[Person]]) -> None:
    faults, people = retrying
    faults.drop("PutItem")
    assert people.create(Person("p", "s", "Ada")).version == 1
    faults.drop("DeleteItem")
    people.delete("p", "s", expected_version=1)
    assert faults.sent == {"PutItem": 1, "DeleteItem": 1}


def test_refused_retry_without_an_echo_is_unknown(retrying: tuple[Faults, Table[Person]]) -> None:
    faults, people = retrying
    first = people.create(Person("p", "s", "Ada"))
    faults.lose("DeleteItem")
    with pytest.raises(UnknownOutcomeError, match="delete Person"):
        people.delete("p", "s", expected_version=1)
    people.create(Person("p", "s", "Eve", version=2))
    faults.drop("PutItem")  # it never arrived, but the reply to the retry does not tell
    with pytest.raises(UnknownOutcomeError) as failed:
        people.put(first)
    assert outcome_of(failed.value) is Outcome.UNKNOWN
    with pytest.raises(VersionConflictError):
        people.put(first)


def test_derived_values_cannot_be_compared(retrying: tuple[Faults, Table[Person]]) -> None:
    faults, people = retrying
    people.create(Person("p", "s", "Ada"))
    changes: list[dict[str, Any]] = [
        {"count": UpdateAdd(1)},
        {"marks": UpdateAdd({"a"})},
        {"name": UpdateSetIfNotExists("")},
    ]
    for version, change in enumerate(changes, start=1):
        faults.lose("UpdateItem")
        with pytest.raises(UnknownOutcomeError):
            people.update("p", "s", change, expected_version=version)
    assert people.get("p", "s", consistent_read=True) == Person("p", "s", "Ada", {"a"}, 1, 4)


@pytest.fixture
def counters(engine: Engine, table_name: str) -> tuple[Faults, Table[Counter]]:
    client = engine.client(retries={"mode": "standard", "total_max_attempts": 3})
    return Faults(client), Table(COUNTERS, client=client, table_name=table_name)


def test_update_add_counts_once(counters: tuple[Faults, Table[Counter]]) -> None:
    faults, table = counters
    faults.lose("UpdateItem", 2)
    faults.lose("TransactWriteItems", 2)
    assert table.upsert("p", "s", {"hits": UpdateAdd(5)}) == Counter("p", "s", 5)
    faults.drop("TransactWriteItems")
    at_least_five: dict[str, Any] = {
        "condition_expression": "hits >= :least",
        "expression_attribute_values": {":least": 5},
    }
    assert table.update("p", "s", {"hits": UpdateAdd(-5)}, **at_least_five) == Counter("p", "s", 0)
    faults.lose("TransactWriteItems")
    with pytest.raises(ConditionFailedError, match="update Counter pk='p' sk='s'") as failed:
        table.update("p", "s", {"hits": UpdateAdd(-5)}, **at_least_five)
    assert failed.value.item == {"pk": {"S": "p"}, "sk": {"S": "s"}, "hits": {"N": "0"}}


def test_update_add_is_applied_if_the_read_fails(
    counters: tuple[Faults, Table[Counter]],
) -> None:
    faults, table = counters
    faults.drop("GetItem", 100)
    with pytest.raises(UnknownOutcomeError, match="it was applied, but the item could not be read"):
        table.upsert("p", "s", {"hits": UpdateAdd(1)})
    faults.drop("GetItem", 0)
    assert table.get("p", "s", consistent_read=True).hits == 1


def test_sets_and_defaults_are_single_updates(client: DynamoDBClient, table_name: str) -> None:
    faults, people = Faults(client), Table(PEOPLE, client=client, table_name=table_name)
    people.upsert("p", "s", {"marks": UpdateAdd({"a"}), "name": UpdateSetIfNotExists("Ada")})
    assert faults.sent == {"UpdateItem": 1}


# --- Token age -----------------------------------------------------------------


@pytest.mark.parametrize("clock", ["wall", "monotonic"])
def test_expired_client_token_is_not_repeated(engine: Engine, table_name: str, clock: str) -> None:
    """The process freezes for nine minutes between two attempts; only one of its clocks notices."""
    client = engine.client(retries={"total_max_attempts": 1})
    faults, time = Faults(client), Time()
    frozen = [0.0]
    table = Table(
        COUNTERS,
        client=client,
        table_name=table_name,
        retry=time.retry(monotonic=lambda: time.passed + (frozen[0] if clock == "monotonic" else 0), timeout=3600),
        now=lambda: time.wall() + (frozen[0] if clock == "wall" else 0),
    )

    def freeze(**_: Any) -> None:
        frozen[0] = 540

    client.meta.events.register_first("before-send.dynamodb.*", freeze)
    faults.lose("TransactWriteItems")
    with pytest.raises(UnknownOutcomeError):
        table.transact_write([TransactUpsert("p", "s", {"hits": UpdateAdd(1)})])
    assert faults.sent["TransactWriteItems"] == 1
    frozen[0] = 0
    assert table.get("p", "s", consistent_read=True).hits == 1
    client.close()
