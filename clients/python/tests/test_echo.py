"""Writes with lost replies that boto3 itself has retried."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError, ReadTimeoutError
from botocore.hooks import HierarchicalEmitter

from tests.clocks import Time
from tests.conftest import Engine
from tests.isr.vectors import item_from, load
from tests.lostreplies import Faults
from theorydb_py import (
    ConditionFailedError,
    ModelDefinition,
    Outcome,
    Table,
    ThrottledError,
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
        self.meta = SimpleNamespace(events=HierarchicalEmitter())

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
    faults.drop("PutItem")  # it never arrived, but the reply to the retry does not show that
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


class Body(io.BytesIO):
    """The body of a reply, as botocore reads it."""

    def stream(self) -> Iterator[bytes]:
        yield self.read()


@dataclass
class Reply:
    """Replies of DynamoDB that local engines do not give; they replace the next replies to UpdateItem."""

    client: DynamoDBClient
    status: int
    code: str
    times: int = 1
    applied: bool = False
    sent: int = 0

    def __post_init__(self) -> None:
        events: Any = self.client.meta.events
        events.register("before-send.dynamodb.UpdateItem", self._reply)

    def _reply(self, request: Any, **_: Any) -> AWSResponse | None:
        self.sent += 1
        if self.times == 0:
            return None
        self.times -= 1
        body = json.dumps({"__type": self.code, "message": "?"}).encode()
        if self.applied:
            session: Any = self.client._endpoint.http_session  # type: ignore[attr-defined]
            body = session.send(request).content
        headers: Any = {"x-amz-crc32": "1"} if self.applied else {}
        return AWSResponse(request.url, self.status, headers, Body(body))


@pytest.fixture(params=["legacy", "standard"])
def counters(engine: Engine, table_name: str, request: pytest.FixtureRequest) -> tuple[DynamoDBClient, Table[Counter]]:
    client = engine.client(retries={"mode": request.param, "total_max_attempts": 3})
    Table(COUNTERS, client=client, table_name=table_name)  # another one of the same client
    return client, Table(COUNTERS, client=client, table_name=table_name)


def test_addition_without_a_reply_is_not_repeated(counters: tuple[DynamoDBClient, Table[Counter]]) -> None:
    client, table = counters
    faults = Faults(client)
    faults.lose("UpdateItem")
    with pytest.raises(UnknownOutcomeError, match=r"upsert Counter pk='p' sk='s'.*no reply") as lost:
        table.upsert("p", "s", {"hits": UpdateAdd(5)})
    assert isinstance(lost.value.__cause__, ReadTimeoutError)
    assert table.get("p", "s").hits == 5
    faults.drop("UpdateItem")
    with pytest.raises(UnknownOutcomeError):
        table.update("p", "s", {"hits": UpdateAdd(5)})
    assert table.get("p", "s").hits == 5
    assert faults.sent["UpdateItem"] == 1
    assert table.update("p", "s", {"hits": UpdateAdd(5)}).hits == 10
    faults.lose("UpdateItem", 2)
    assert table.update("p", "s", {"hits": 7}).hits == 7  # idempotent: boto3 repeats it


@pytest.mark.parametrize(
    ("status", "code", "applied"),
    [(500, "InternalServerError", False), (503, "ServiceUnavailable", False), (200, "", True)],
    ids=["internal error", "unavailable", "wrong checksum"],
)
def test_addition_with_an_uncertain_reply_is_not_repeated(
    counters: tuple[DynamoDBClient, Table[Counter]], status: int, code: str, applied: bool
) -> None:
    client, table = counters
    table.create(Counter("p", "s"))
    replies = Reply(client, status, code, applied=applied)
    with contextlib.suppress(UnknownOutcomeError):  # the standard mode does not read checksums
        assert table.update("p", "s", {"hits": UpdateAdd(5)}).hits == 5
        assert applied
    assert replies.sent == 1
    assert table.get("p", "s").hits == (5 if applied else 0)


def test_throttled_addition_is_repeated(counters: tuple[DynamoDBClient, Table[Counter]]) -> None:
    client, table = counters
    replies = Reply(client, 400, "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException", times=2)
    assert table.upsert("p", "s", {"hits": UpdateAdd(5)}).hits == 5
    assert replies.sent == 3
    replies.times = 1
    with pytest.raises(ConditionFailedError) as failed:  # and not of an unknown outcome
        table.update("p", "s", {"hits": UpdateAdd(-5)}, condition_expression="attribute_not_exists(hits)")
    assert failed.value.item == {"pk": {"S": "p"}, "sk": {"S": "s"}, "hits": {"N": "5"}}
    replies.times = 3
    with pytest.raises(ThrottledError):
        table.update("p", "s", {"hits": UpdateAdd(1)})
    assert table.get("p", "s").hits == 5


def test_concurrent_additions_return_distinct_values(client: DynamoDBClient, table_name: str) -> None:
    table = Table(COUNTERS, client=client, table_name=table_name)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: table.upsert("p", "s", {"hits": UpdateAdd(1)}).hits, range(40)))
    assert sorted(found) == list(range(1, 41))


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
        retry=time.retry(
            monotonic=lambda: time.passed + (frozen[0] if clock == "monotonic" else 0), timeout_seconds=3600
        ),
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
