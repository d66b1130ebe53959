"""Invalid input, against the vectors of the specification: the same errors as Go's and TypeScript's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clocks import Clock
from tests.isr.pages import KEY, clear, new_entry, new_store, publish, rows
from tests.isr.vectors import entry_from, load
from theorydb_py.errors import TheorydbError
from theorydb_py.isr import Assertion, FaceTheoryIsrMetaStore, hashed_partition, raw_partition

CALLS = load("refused.json")["calls"]
PURE = [v for v in CALLS if v["call"] in ("hashed_partition", "raw_partition")]
OF_STORE = [v for v in CALLS if v not in PURE]


@pytest.mark.parametrize("vector", [pytest.param(v, id=v["name"]) for v in PURE])
def test_refused_partitions(vector: dict[str, Any]) -> None:
    preset = hashed_partition if vector["call"] == "hashed_partition" else raw_partition
    arguments = vector["arguments"]
    with pytest.raises(TheorydbError) as caught:
        preset(arguments.get("key", KEY), arguments.get("tenant", ""))
    assert caught.value.code == vector["error"]


def test_refused_calls(client: Any, table_name: str, subtests: pytest.Subtests) -> None:
    for vector in OF_STORE:
        with subtests.test(vector["name"]):
            clear(client, table_name)
            clock = Clock()
            call = Call(new_store(client, table_name, now=clock), clock)
            call.prepare(vector["call"])
            before = rows(client, table_name)
            with pytest.raises(TheorydbError) as caught:
                getattr(call, vector["call"])(**vector["arguments"])
            assert caught.value.code == vector["error"]
            assert rows(client, table_name) == before


class Call:
    """The calls of the specification; arguments that it does not vary are valid."""

    def __init__(self, store: FaceTheoryIsrMetaStore, clock: Clock) -> None:
        self.store, self.clock = store, clock

    def prepare(self, call: str) -> None:
        if call == "pin":
            publish(self.store)
        if call in ("publish", "commit_generation", "back_off"):
            self.lease = self.store.acquire_lease(KEY)

    def request_key(self, key: Any) -> None:
        self.store.acquire_lease(KEY, idempotency_key=key, request_hash="h")

    def acquire(self, now_ms: int | None = None, **arguments: Any) -> None:
        if now_ms is not None:
            self.clock.now = now_ms / 1000
        request: dict[str, Any] = {
            name: arguments.pop(name) for name in ("request_hash", "keep_seconds") if name in arguments
        }
        if "request_key" in arguments or request:
            request = {"request_hash": "h", **request, "idempotency_key": arguments.pop("request_key", "r")}
        self.store.acquire_lease(KEY, **arguments, **request)

    def publish(self, superseded_at: Any = None, **members: Any) -> None:
        entry = entry_from({**vars(new_entry()), **members})
        self.store.publish(self.lease, self.lease.record, entry, superseded_at=superseded_at)

    def commit_generation(self, **arguments: Any) -> None:
        good = {"html_pointer": "bodies/x/g1", "generated_at_ms": 1_800_000_000_000, "revalidate_seconds": 60}
        self.store.commit_generation(cache_key=KEY, lease_token=self.lease.lease_token, **{**good, **arguments})

    def pin(self, **arguments: Any) -> None:
        self.store.pin(KEY, assertion=Assertion(asserted_at=1_800_000_000, **arguments))

    def back_off(self, pause_ms: Any) -> None:
        self.store.back_off(self.lease, pause_ms=pause_ms)
