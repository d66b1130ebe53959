"""Pure functions, against the vectors of the specification."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.isr.vectors import entry_from, load, purges_from
from theorydb_py.errors import InvalidInputError, TheorydbError
from theorydb_py.isr import (
    Entry,
    PurgeState,
    age,
    body_prefix,
    canonical_json,
    canonical_key,
    fresh_until,
    freshness,
    hash_inputs,
    hashed_partition,
    raw_partition,
    serves_failures,
    stale_until,
)


def cases(file: str, section: str) -> list[Any]:
    return [pytest.param(vector, id=vector["name"]) for vector in load(file)[section]]


@pytest.mark.parametrize("vector", cases("partition-keys.json", "hashed"))
def test_hashed_partition_keys(vector: dict[str, Any]) -> None:
    pk = hashed_partition(vector["key"], vector.get("tenant", ""))
    assert (pk, body_prefix(pk)) == (vector["pk"], vector["body_prefix"])


@pytest.mark.parametrize("vector", cases("partition-keys.json", "raw"))
def test_raw_partition_keys(vector: dict[str, Any]) -> None:
    pk = raw_partition(vector["key"], vector.get("tenant", ""))
    assert (pk, body_prefix(pk)) == (vector["pk"], vector["body_prefix"])


@pytest.mark.parametrize("vector", cases("cache-keys.json", "accepted"))
def test_canonical_keys(vector: dict[str, Any]) -> None:
    assert canonical_key(vector["text"]) == vector["key"]
    assert canonical_key(vector["key"]) == vector["key"]


@pytest.mark.parametrize("vector", cases("cache-keys.json", "refused"))
def test_refused_canonical_keys(vector: dict[str, Any]) -> None:
    with pytest.raises(TheorydbError) as caught:
        canonical_key(vector["text"])
    assert caught.value.code == vector["error"]


@pytest.mark.parametrize("vector", cases("request-hashes.json", "accepted"))
def test_request_hashes(vector: dict[str, Any]) -> None:
    inputs = json.loads(vector["inputs"])
    assert canonical_json(inputs).decode() == vector["canonical"]
    assert hash_inputs(inputs) == vector["sha256"]


# A function that takes a value cannot see what json.loads has dropped.
@pytest.mark.parametrize("vector", [c for c in cases("request-hashes.json", "refused") if c.id != "a repeated name"])
def test_refused_request_hashes(vector: dict[str, Any]) -> None:
    with pytest.raises((InvalidInputError, json.JSONDecodeError)):
        hash_inputs(json.loads(vector["inputs"]))


def test_non_json_inputs_are_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value in (object(), {1: "a"}, float("nan"), {"a": {1, 2}}, circle, "x" * (64 << 10), {"\ud800": 1}):
        with pytest.raises(InvalidInputError):
            hash_inputs(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("vector", [*cases("freshness.json", "decisions"), *cases("build.json", "decisions")])
def test_freshness(vector: dict[str, Any]) -> None:
    entry, now = entry_from(vector["entry"]), vector["now_ms"] / 1000
    assert freshness(entry, purges_from(vector.get("cover")), now) == vector["state"]
    assert fresh_until(entry) == vector["fresh_until_ms"] / 1000
    assert stale_until(entry) == vector["stale_until_ms"] / 1000
    assert age(entry, now) == vector.get("age_seconds", 0)


def test_without_an_entry_the_state_is_missing() -> None:
    assert freshness(None, purges_from(None), 1.8e9) == "missing"


@pytest.mark.parametrize(
    ("members", "purges", "served"),
    [
        ({"pinned_until": 1_700_000_000}, PurgeState(), True),
        ({"pinned_until": 1_900_000_000}, PurgeState(), True),
        ({}, PurgeState(), False),
        ({"pinned_until": 1_700_000_000, "purge_seq": 4}, PurgeState(seq=5), True),
        ({"pinned_until": 1_700_000_000, "purge_seq": 4}, PurgeState(seq=5, hard_seq=5), False),
        ({"pinned_until": 1_700_000_000, "purge_seq": 5}, PurgeState(seq=5, hard_seq=5), True),
        ({"pinned_until": 1_700_000_000}, PurgeState(mark_lifetime=90_000_000), False),
        ({"pinned_until": 1_700_000_000, "asserted_at": 1_750_000_000}, PurgeState(mark_lifetime=90_000_000), True),
    ],
)
def test_formerly_pinned_entry_is_served_on_failure(members: dict[str, int], purges: PurgeState, served: bool) -> None:
    entry = Entry(s3_key="b", generated_at=1_700_000_000, revalidate_seconds=60, **members)  # type: ignore[arg-type]
    assert freshness(entry, PurgeState(), 2_000_000_000) == "expired"
    assert serves_failures(entry, purges, 1_800_000_000) is served
