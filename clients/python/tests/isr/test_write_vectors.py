"""The rows that each operation writes, against the vectors of the specification, on real engines."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from tests.clocks import Clock
from tests.isr.pages import Tokens, clear, new_store, replace_rows, rows
from tests.isr.vectors import comparable, entry_from, item_from, load
from theorydb_py.errors import TheorydbError
from theorydb_py.isr import (
    Assertion,
    Entry,
    FaceTheoryIsrMetaStore,
    IsrLease,
    PurgeTarget,
    Record,
    hashed_partition,
)

KEY = load("writes.json")["cache_key"]


class Caller:
    """Executes the steps of one operation."""

    def __init__(self, store: FaceTheoryIsrMetaStore, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.lease: IsrLease | None = None
        self.record: Record | None = None

    def take(self, step: dict[str, Any]) -> None:
        getattr(self, "do_" + step["do"])(step)

    def held(self) -> IsrLease:
        assert self.lease is not None
        return self.lease

    def read(self) -> Record:
        return self.record or self.store.read(KEY)

    def do_clock(self, step: dict[str, Any]) -> None:
        self.clock.now = step["now_ms"] / 1000

    def do_read(self, _: dict[str, Any]) -> None:
        self.record = self.store.read(KEY)

    def do_acquire(self, step: dict[str, Any]) -> None:
        claim = step.get("claim")
        request: dict[str, Any] = {}
        if claim:
            request = {
                "idempotency_key": claim["key"],
                "request_hash": claim["request_hash"],
                "keep_seconds": claim["keep_seconds"],
            }
        self.lease = self.store.acquire_lease(KEY, lease_duration_ms=step["lease_duration_ms"], **request)

    def do_refresh(self, _: dict[str, Any]) -> None:
        self.store.refresh_lease(self.held())

    def do_release(self, _: dict[str, Any]) -> None:
        self.store.release_lease(self.held())

    def do_back_off(self, step: dict[str, Any]) -> None:
        self.store.back_off(self.held(), pause_ms=step["pause_ms"])

    def do_break_lease(self, _: dict[str, Any]) -> None:
        self.store.break_lease(KEY, record=self.record)

    def do_publish(self, step: dict[str, Any]) -> None:
        how = {name: step[name] for name in ("history", "unchanged", "unpin", "superseded_at") if name in step}
        self.store.publish(self.held(), self.read(), entry_from(step["entry"]), **how)

    def do_rollback(self, step: dict[str, Any]) -> None:
        self.store.rollback(KEY, step["to"], record=self.read(), assertion=_assertion(step))

    def do_pin(self, step: dict[str, Any]) -> None:
        self.store.pin(KEY, record=self.read(), assertion=_assertion(step))

    def do_end_request(self, step: dict[str, Any]) -> None:
        result = step.get("result")
        answer = Entry(generated_at=0, revalidate_seconds=0, **result) if result else None
        self.store.end_request(self.held(), result=answer, failure=step.get("failure", ""))

    def do_purge(self, step: dict[str, Any]) -> None:
        targets = [_target(**target) for target in step.get("targets", ())]
        receipt = self.store.purge(targets, hard=step.get("hard", False), confirm=step.get("confirm", False))
        assert receipt.seq == step["seq"]

    def do_build(self, step: dict[str, Any]) -> None:
        assert self.store.build(step.get("build", "")) == step["seq"]


def _target(kind: Any, value: str = "", tenant: str = "") -> PurgeTarget:
    pk = hashed_partition(value, tenant) if kind == "key" else None
    return PurgeTarget(kind=kind, value=value, tenant=tenant, pk=pk)


def _assertion(step: dict[str, Any]) -> Assertion:
    names = ("asserted_at", "pinned_until", "ttl", "superseded_at")
    return Assertion(**{name: step[name] for name in names if name in step})


def _outcome(step: dict[str, Any]) -> AbstractContextManager[Any]:
    return pytest.raises(TheorydbError) if "error" in step else nullcontext()


def _readable(item: dict[str, Any]) -> dict[str, Any]:
    if item["sk"]["S"].startswith("LOG#") and item.get("id", {}).get("S"):
        return {**item, "id": {"S": "*"}}
    return item


@pytest.mark.parametrize("file", ["writes.json", "purges.json", "build.json"])
def test_writes(client: Any, table_name: str, file: str, subtests: pytest.Subtests) -> None:
    for vector in load(file)["operations"]:
        with subtests.test(vector["name"]):
            replace_rows(client, table_name, map(item_from, vector["before"]))
            clock = Clock(vector["now_ms"] / 1000)
            tokens = Tokens(list(vector["tokens"]))
            store = new_store(client, table_name, now=clock, lease_owner=vector["owner"], new_token=tokens)
            caller = Caller(store, clock)
            for step in vector["steps"]:
                with _outcome(step) as caught:
                    caller.take(step)
                if caught is not None:
                    assert caught.value.code == step["error"]
            after = {f"{i['pk']['S']} {i['sk']['S']}": comparable(item_from(i)) for i in vector["after"]}
            found = {name: comparable(_readable(item)) for name, item in rows(client, table_name).items()}
            assert found == after


def test_lease_arithmetic(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    clock = Clock()
    store = new_store(client, table_name, now=clock)
    at = f"{store.partition_key(KEY)} LOCK"
    vectors = load("lease-arithmetic.json")
    for vector in vectors["leases"]:
        with subtests.test(vector["name"]):
            clear(client, table_name)
            clock.now = vector["now_ms"] / 1000
            lease = store.acquire_lease(KEY, lease_duration_ms=vector["lease_duration_ms"])
            lock = rows(client, table_name)[at]
            assert lease.duration_seconds == vector["duration_seconds"]
            assert lock["lease_expires_at"]["N"] == str(vector["lease_expires_at"])
            assert lock["ttl"]["N"] == str(vector["ttl"])
            assert lease.lease_expires_at == vector["lease_expires_at"]
    for vector in vectors["back_offs"]:
        with subtests.test(vector["name"]):
            clock.now = vector["now_ms"] / 1000
            failures = {"N": str(vector.get("failures_before", 0))}
            before = {"lease_token": {"S": "x"}, "lease_expires_at": {"N": "1"}, "failures": failures}
            replace_rows(client, table_name, [{"pk": {"S": store.partition_key(KEY)}, "sk": {"S": "LOCK"}, **before}])
            lease = store.acquire_lease(KEY)
            store.back_off(lease, pause_ms=vector["pause_ms"])
            lock = rows(client, table_name)[at]
            assert lock["lease_expires_at"]["N"] == str(vector["lease_expires_at"])
            assert lock["ttl"]["N"] == str(vector["ttl"])
            assert lock["failures"]["N"] == str(vector["failures"])
            assert "lease_owner" not in lock


def test_request_lifetimes(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    clock = Clock()
    store = new_store(client, table_name, now=clock)
    for vector in load("lease-arithmetic.json")["requests"]:
        with subtests.test(vector["name"]):
            clear(client, table_name)
            clock.now = vector["now_ms"] / 1000
            store.acquire_lease(
                KEY,
                lease_duration_ms=vector["lease_duration_ms"],
                idempotency_key="r",
                request_hash="h",
                keep_seconds=vector["keep_seconds"],
            )
            request = rows(client, table_name)[f"{store.partition_key(KEY)} REQ#r"]
            assert request["in_progress_until"]["N"] == str(vector["in_progress_until"])
            assert request["ttl"]["N"] == str(vector["ttl"])


def test_superseded_versions(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    good = {"s3_key": "b", "generated_at": 1_800_000_000, "revalidate_seconds": 60, "status": 200}
    for vector in load("lease-arithmetic.json")["superseded"]:
        with subtests.test(vector["name"]):
            clear(client, table_name)
            store = new_store(client, table_name, now=Clock(vector["now_ms"] / 1000))
            for generation in ("g1", "g2"):
                lease = store.acquire_lease(KEY)
                entry = entry_from({**good, "generation_id": generation, "ttl": vector.get("ttl")})
                store.publish(lease, lease.record, entry, history=True, superseded_at=vector.get("superseded_at"))
            version = rows(client, table_name)[f"{store.partition_key(KEY)} VER#g1"]
            assert version["ttl"]["N"] == str(vector["version_ttl"])
