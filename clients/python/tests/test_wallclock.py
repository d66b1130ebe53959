"""Wall clocks in another unit, and unknown options, are refused: both cost mutual exclusion silently."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tests.clocks import NOW, Clock
from tests.conftest import Engine
from theorydb_py import FaceTheoryIsrMetaStore, LeaseManager, ModelDefinition, Table, theorydb_field, theorydb_model
from theorydb_py.aio import AsyncLeases, AsyncTable
from theorydb_py.errors import InvalidInputError, LeaseHeldError

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


@theorydb_model
class Stamped:
    pk: str = theorydb_field(roles=["pk"])
    sk: str = theorydb_field(roles=["sk"])
    updated_at: int = theorydb_field(roles=["updated_at"], default=0)


STAMPED = ModelDefinition.from_dataclass(Stamped, table_name="t")

Maker = Callable[..., Any]

UNUSED = Engine("none", "http://127.0.0.1:1").client()
"""A client that must not send anything."""

MAKERS: dict[str, Maker] = {
    "leases": lambda now: LeaseManager(UNUSED, table_name="t", now=now),
    "pages": lambda now: FaceTheoryIsrMetaStore(UNUSED, "t", now=now),
    "items": lambda now: Table(STAMPED, client=UNUSED, now=now),
}

OTHER_UNITS = {
    "milliseconds": 1.8e12,
    "microseconds": 1.8e15,
    "nanoseconds": 1_800_000_000_000_000_000,
    "since the machine started": 123456.7,
    "since the start of a test": 0.0,
    "minutes": 3e7,
    "days": 20833,
    "negative": -1.0,
    "infinite": math.inf,
    "not a number": math.nan,
    "text, as TableTheory's Table": "2027-01-15T08:00:00Z",
    "a datetime": datetime(2027, 1, 15, tzinfo=UTC),
    "a Decimal": Decimal("1.8e9"),
    "a bool": True,
    "nothing": None,
}


@pytest.mark.parametrize("reading", OTHER_UNITS.values(), ids=OTHER_UNITS)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_clocks_in_other_units_are_refused_at_once(make: Maker, reading: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"now\(\) is .* expected epoch seconds"):
        make(lambda: reading)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_clocks_are_functions(make: Maker) -> None:
    with pytest.raises(InvalidInputError, match=r"now is 1800000000.0: expected a function"):
        make(NOW)


@pytest.mark.parametrize("now", [None, time.time, lambda: int(time.time()), lambda: 100_000_000, lambda: 253402300799])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_clocks_in_seconds_are_accepted(make: Maker, now: Any) -> None:
    assert make(now) is not None


def test_messages_say_what_to_do() -> None:
    with pytest.raises(InvalidInputError, match="divide milliseconds by 1000"):
        LeaseManager(UNUSED, table_name="t", now=lambda: time.time() * 1000)
    with pytest.raises(InvalidInputError, match=r"time\.monotonic, cannot be compared between processes"):
        LeaseManager(UNUSED, table_name="t", now=time.process_time)


def test_each_reading_is_checked(client: DynamoDBClient, table_name: str) -> None:
    """A clock that changes its unit later neither takes a lease nor changes one that is held."""
    clock = Clock()
    with (
        LeaseManager(client, table_name=table_name, now=clock) as changing,
        LeaseManager(client, table_name=table_name, now=Clock(NOW + 1)) as other,
    ):
        held = other.acquire("theirs", lease_seconds=30)
        ours = changing.acquire("ours", lease_seconds=30)
        clock.now = NOW * 1000  # by which theirs has long expired
        with pytest.raises(InvalidInputError, match="milliseconds"):
            changing.acquire("theirs")
        with pytest.raises(InvalidInputError, match="milliseconds"):
            changing.refresh(ours)
        other.refresh(held)
        with pytest.raises(LeaseHeldError):
            other.acquire("ours")
        clock.now = NOW + 2
        changing.refresh(ours)


def test_tokens_are_texts(client: DynamoDBClient, table_name: str) -> None:
    for token in ("", None, 7, b"t"):
        drawn: Any = lambda token=token: token  # noqa: E731
        with (
            LeaseManager(client, table_name=table_name, token=drawn) as manager,
            pytest.raises(InvalidInputError, match="token of a lease"),
        ):
            manager.acquire("k")
        store = FaceTheoryIsrMetaStore(client, table_name, new_token=drawn)
        with pytest.raises(InvalidInputError, match="token of a lease"):
            store.acquire_lease("example.com/")
    with LeaseManager(client, table_name=table_name, token=None) as manager:
        assert len(manager.acquire("k").token) == 32


UNKNOWN: dict[str, Callable[[Any], object]] = {
    "LeaseManager lease_token": lambda o: LeaseManager(UNUSED, table_name="t", **o({"lease_token": "t"})),
    "LeaseManager pk_attr": lambda o: LeaseManager(UNUSED, table_name="t", **o({"pk_attr": "id"})),
    "LeaseManager ttl_buffer_seconds": lambda o: LeaseManager(UNUSED, table_name="t", **o({"ttl_buffer_seconds": 1})),
    "LeaseManager now_ms": lambda o: LeaseManager(UNUSED, table_name="t", **o({"now_ms": time.time})),
    "acquire ttl": lambda o: LeaseManager(UNUSED, table_name="t").acquire("k", **o({"ttl": 30})),
    "store token": lambda o: FaceTheoryIsrMetaStore(UNUSED, "t", **o({"token": str})),
    "store lease_token": lambda o: FaceTheoryIsrMetaStore(UNUSED, "t", **o({"lease_token": str})),
    "acquire_lease lease_seconds": lambda o: FaceTheoryIsrMetaStore(UNUSED, "t").acquire_lease(
        "k", **o({"lease_seconds": 30})
    ),
    "commit_generation pinned": lambda o: FaceTheoryIsrMetaStore(UNUSED, "t").commit_generation(
        cache_key="k",
        lease_token="t",  # noqa: S106 no secret
        html_pointer="b",
        generated_at_ms=NOW * 1000,
        revalidate_seconds=1,
        **o({"pinned": True}),
    ),
    "Table kms_key_arn": lambda o: Table(STAMPED, **o({"kms_key_arn": "arn"})),
    "put if_not_exists": lambda o: _table().put(Stamped("a", "b"), **o({"if_not_exists": True})),
    "query cursors": lambda o: _table().query("a", **o({"cursors": "x"})),
    "theorydb_field json": lambda o: theorydb_field(**o({"json": True})),
}


@pytest.mark.parametrize("call", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_options_are_refused(call: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        call(lambda options: options)


async def _unknown_of_asyncio() -> None:
    async with AsyncTable(_table()) as table:
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            await table.put(Stamped("a", "b"), if_not_exists=True)
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            table.scan(cursors="x")
    unknown: Any = {"lease_token": "t"}
    async with AsyncLeases(LeaseManager(UNUSED, table_name="t")) as leases:
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            async with leases.lease("k", **unknown):
                pass


def test_unknown_options_are_refused_by_asyncio() -> None:
    asyncio.run(_unknown_of_asyncio())


def _table() -> Table[Stamped]:
    return Table(STAMPED, client=UNUSED)
