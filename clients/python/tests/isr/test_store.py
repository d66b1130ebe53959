"""The store's operations, on real engines."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count, pairwise
from typing import Any

import pytest

from tests.clocks import NOW, Clock, Time
from tests.conftest import Engine
from tests.isr.faultplan import Fault, Faulty
from tests.isr.pages import KEY, Tokens, fill, held, new_entry, new_store, publish, row, rows
from tests.lostreplies import Faults
from tests.polling import BOUND, eventually
from theorydb_py.errors import (
    ConditionFailedError,
    InvalidInputError,
    InvalidKeyError,
    LeaseHeldError,
    LeaseLostError,
    MalformedRowError,
    MovedError,
    NoVersionError,
    PinnedError,
    RequestCompletedError,
    RequestInProgressError,
    ResultGoneError,
    TableNotFoundError,
)
from theorydb_py.isr import FOREVER, FaceTheoryIsrMetaStore, hashed_partition, raw_partition

REFERENCE: dict[str, Any] = {
    "cache_key": KEY,
    "html_pointer": "s3://bucket/key.html",
    "generated_at_ms": NOW * 1000 + 999,
    "revalidate_seconds": 60,
}


# --- The calls of the reference documents --------------------------------------


def test_the_reference_flow(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    assert store.get(KEY) is None
    lease = held(store.try_acquire_lease(cache_key=KEY, lease_owner="my-app-instance", lease_duration_ms=30_000))
    assert lease.lease_expires_at_ms == (NOW + 30) * 1000
    assert store.try_acquire_lease(cache_key=KEY, lease_duration_ms=30_000) is None
    entry = store.commit_generation(
        **REFERENCE, lease_token=lease.lease_token, lease_owner="my-app-instance", etag='"e"'
    )
    found = store.get(KEY)
    assert found is not None
    assert replace(entry, foreign=False) == replace(store.read(KEY).entry or entry, foreign=False)
    assert (found.html_pointer, found.generated_at_ms) == ("s3://bucket/key.html", NOW * 1000)
    assert (found.revalidate_seconds, found.etag, found.state, found.foreign) == (60, '"e"', "fresh", True)
    meta = row(client, table_name, store, "META")
    assert set(meta) == {"pk", "sk", "s3_key", "generated_at", "revalidate_seconds", "etag", "isr"}
    assert set(meta["isr"]["M"]) == {"v", "generation_id"}
    assert row(client, table_name, store, "LOCK") == {}


def test_commit_with_content_stores_a_complete_entry(client: Any, table_name: str) -> None:
    store = new_store(client, table_name, meta_ttl_seconds=86400)
    lease = store.acquire_lease(KEY)
    described: dict[str, Any] = {"content_sha256": "ab", "content_length": 5, "status": 404, "stale_seconds": 10}
    entry = store.commit_generation(**REFERENCE, lease_token=lease.lease_token, **described, tags=("news",))
    assert store.read(KEY).entry == entry
    assert (entry.status, entry.content_length, entry.tags, entry.foreign) == (404, 5, ("news",), False)
    assert entry.ttl == NOW + 2 * 86400
    assert (entry.generated_at, entry.generated_at_ms) == (NOW, NOW * 1000 + 999)
    again = store.acquire_lease(KEY)
    with pytest.raises(InvalidInputError, match="content_sha256 and content_length"):
        store.commit_generation(**REFERENCE, lease_token=again.lease_token, status=404)


def test_milliseconds_belong_to_the_second(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    lease = store.acquire_lease(KEY)
    with pytest.raises(InvalidInputError, match="generated_ms"):
        store.publish(lease, lease.record, new_entry(generated_ms=int(NOW) * 1000 + 1000))
    assert store.publish(lease, lease.record, new_entry(generated_ms=int(NOW) * 1000)).generated_ms == 0


def test_commit_replaces_only_what_the_lease_read(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    publish(store, "g1", history=True)
    publish(store, "g2", history=True)
    lease = store.acquire_lease(KEY)
    store.rollback(KEY, "g1", pin_seconds=5)
    with pytest.raises(MovedError):
        store.commit_generation(**REFERENCE, lease_token=lease.lease_token)


def test_commit_with_the_token_of_another_process(client: Any, table_name: str) -> None:
    clock = Clock()
    one, other = new_store(client, table_name, now=clock), new_store(client, table_name, now=clock)
    lease = one.acquire_lease(KEY)
    described: dict[str, Any] = {"content_sha256": "ab", "content_length": 5}
    with pytest.raises(InvalidInputError, match="purge_seq"):
        other.commit_generation(**REFERENCE, lease_token=lease.lease_token, **described)
    other.commit_generation(**REFERENCE, lease_token=lease.lease_token, **described, purge_seq=lease.purge_seq)
    with pytest.raises(LeaseLostError):
        other.commit_generation(**REFERENCE, lease_token=lease.lease_token)
    with pytest.raises(LeaseLostError):
        one.commit_generation(**REFERENCE, lease_token=lease.lease_token)
    late = one.acquire_lease(KEY)
    clock.now += 31
    with pytest.raises(LeaseLostError):
        other.commit_generation(**REFERENCE, lease_token=late.lease_token)


def test_a_lease_is_released_by_its_token(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    lease = store.acquire_lease(KEY)
    new_store(client, table_name).release_lease(cache_key=KEY, lease_token="another")  # noqa: S106 - no secret
    assert store.try_acquire_lease(KEY) is None
    new_store(client, table_name).release_lease(cache_key=KEY, lease_token=lease.lease_token)
    assert store.try_acquire_lease(KEY) is not None


def test_partition_keys_of_other_services(client: Any, table_name: str) -> None:
    prefixed = new_store(client, table_name, pk_prefix="CACHE#")
    assert prefixed.partition_key(KEY) == raw_partition(KEY)
    mapped = new_store(client, table_name, pk_from_cache_key=lambda key: f"PAGE#{key}")
    publish(mapped)
    assert f"PAGE#{KEY} META" in rows(client, table_name)
    tenant = new_store(client, table_name, tenant="acme")
    assert tenant.partition_key(KEY).startswith("TENANT#acme#CACHE#")
    with pytest.raises(InvalidInputError):
        new_store(client, table_name, pk_prefix="a", pk_from_cache_key=str)
    with pytest.raises(InvalidKeyError):
        new_store(client, table_name, tenant="a#b")
    with pytest.raises(InvalidKeyError):
        new_store(client, table_name, pk_prefix="x" * 2048).get(KEY)


def test_partition_schemes(client: Any, table_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All choices of a default, for the programs of a migration that are not changed."""

    def pk(**settings: Any) -> str:
        return new_store(client, table_name, **settings).partition_key(KEY)

    assert pk() == pk(partition="hashed") == hashed_partition(KEY)
    assert pk(partition="raw") == raw_partition(KEY) == f"CACHE#{KEY}"
    assert pk(partition="raw", tenant="acme") == raw_partition(KEY, "acme")
    monkeypatch.setenv("FACETHEORY_CACHE_PARTITION", "raw")
    assert pk() == raw_partition(KEY)
    assert pk(tenant="acme") == raw_partition(KEY, "acme")
    assert pk(partition="hashed") == hashed_partition(KEY)
    assert pk(pk_prefix="PAGE#") == f"PAGE#{KEY}"
    monkeypatch.setenv("FACETHEORY_CACHE_PARTITION", "")
    assert pk() == hashed_partition(KEY)
    monkeypatch.setenv("FACETHEORY_CACHE_PARTITION", "RAW")
    with pytest.raises(InvalidInputError, match="FACETHEORY_CACHE_PARTITION is 'RAW': expected hashed or raw"):
        pk()
    for settings in (
        {"partition": "Raw"},
        {"partition": ""},
        {"partition": "raw", "pk_prefix": "CACHE#"},
        {"partition": "raw", "pk_from_cache_key": str},
        {"pk_prefix": "CACHE#", "tenant": "acme"},  # its tenants would share their pages
    ):
        with pytest.raises(InvalidInputError, match=r"expected hashed or raw|exclude"):
            pk(**settings)


def test_processes_side_by_side_share_leases_and_pages(client: Any, table_name: str) -> None:
    """One process by TableTheory's partition keys, one by the unchanged program: they exclude each other."""
    old = new_store(client, table_name, pk_prefix="CACHE#")
    new = new_store(client, table_name, partition="raw")
    lease = old.acquire_lease(KEY)
    assert new.try_acquire_lease(KEY) is None
    assert old.refresh_lease(lease) is lease
    publish(new_store(client, table_name, partition="raw", tenant="acme"))
    assert old.get(KEY) is None


def test_missing_table_raises_table_not_found(client: Any) -> None:
    store = new_store(client, "no-such-table")
    for call in (store.get, store.acquire_lease, store.versions, store.rollback, store.pin):
        with pytest.raises(TableNotFoundError):
            call(KEY)


# --- Refreshing a lease ----------------------------------------------------------


def kept_store(client: Any, table: str) -> tuple[FaceTheoryIsrMetaStore, Time]:
    """Return a store whose heartbeats refresh when the test advances the clock."""
    time = Time()
    return new_store(client, table, now=time.wall, retry=time.retry(), wait=time.wait), time


def test_with_releases_the_lease(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    with store.lease(KEY) as lease:
        assert not lease.lost
        with pytest.raises(LeaseHeldError) as caught:
            store.acquire_lease(KEY)
        assert (caught.value.owner, caught.value.expires_at) == ("python", NOW + 30)
    assert row(client, table_name, store, "LOCK") == {}
    with pytest.raises(ZeroDivisionError), store.lease(KEY):
        raise ZeroDivisionError
    assert row(client, table_name, store, "LOCK") == {}
    with store.lease(KEY) as lease:
        store.publish(lease, lease.record, new_entry())
        assert not lease.lost
    assert store.read(KEY).entry == new_entry(v=int(NOW * 1000))


def test_heartbeat_extends_the_lease(client: Any, table_name: str) -> None:
    store, time = kept_store(client, table_name)
    with store.lease(KEY) as lease:
        first = lease.lease_expires_at
        for _ in range(4):
            assert time.next_wait() == 10
            time.advance(10)
        assert time.next_wait() == 10
        assert lease.lease_expires_at == first + 40
        lease.check()
        assert store.try_acquire_lease(KEY) is None
        store.publish(lease, lease.record, new_entry(generated_at=first))
    assert store.get(KEY) is not None


def test_with_raises_for_a_lost_lease(client: Any, table_name: str) -> None:
    store, time = kept_store(client, table_name)
    raised = []

    def work() -> None:
        with store.lease(KEY) as lease:
            store.break_lease(KEY)
            time.advance(time.next_wait())
            assert eventually(lambda: lease.lost)
            for call in (lease.check, lambda: store.publish(lease, lease.record, new_entry())):
                with pytest.raises(LeaseLostError):
                    call()
            raised.append(True)

    with pytest.raises(LeaseLostError, match="before the block ended"):
        work()
    assert raised == [True]
    assert store.get(KEY) is None


def test_lease_is_lost_at_its_deadline_while_the_table_is_unreachable(client: Any, table_name: str) -> None:
    faulty = Faulty(client)
    store, time = kept_store(faulty, table_name)
    waits = []

    def work() -> None:
        with store.lease(KEY) as lease:
            faulty.arm([], down=lambda: True)
            while not lease.lost:
                waits.append(time.next_wait())
                time.advance(waits[-1])
            faulty.arm([])

    with pytest.raises(LeaseLostError):
        work()
    assert waits[:3] == [10, pytest.approx(3), pytest.approx(3)]
    assert time.passed == pytest.approx(30, abs=0.2)


def test_hanging_refresh_does_not_block_a_publish(client: Any, table_name: str) -> None:
    """Its refused refresh at the end does not make the lease a lost one either."""
    store, time = kept_store(client, table_name)
    hangs, go_on = threading.Event(), threading.Event()

    def hang(**_: Any) -> None:
        hangs.set()
        assert go_on.wait(BOUND)

    client.meta.events.register("provide-client-params.dynamodb.UpdateItem", hang)
    with store.lease(KEY) as lease:
        time.advance(time.next_wait())
        assert hangs.wait(BOUND)
        with ThreadPoolExecutor(1) as pool:
            published = pool.submit(store.publish, lease, lease.record, new_entry())
            time.advance(time.next_wait())
            published.result(BOUND)
        go_on.set()
    assert not lease.lost
    assert row(client, table_name, store, "META") != {}


def test_an_acquisition_takes_the_same_work_however_many_leases_are_held(client: Any, table_name: str) -> None:
    reads = count()

    def wall() -> float:
        next(reads)
        return NOW

    store = new_store(client, table_name, now=wall)

    def work(key: str) -> int:
        before = next(reads)
        store.acquire_lease(key)
        return next(reads) - before

    works = [work(f"example.com/{i}") for i in range(40)]
    assert len(set(works[2:])) == 1, works  # the first two find fewer leases to examine


def test_close_gives_back_all_leases_and_fails_their_requests(client: Any, table_name: str) -> None:
    threads = set(threading.enumerate())
    store = new_store(client, table_name)
    lease = store.acquire_lease("example.com/other")

    def block() -> None:
        with store.lease(KEY, idempotency_key="order-1", inputs={"n": 1}) as kept:
            store.close()
            assert kept.lost
            assert set(threading.enumerate()) <= threads

    with pytest.raises(LeaseLostError, match="before the block ended"):
        block()
    assert lease.lost
    assert [name for name in rows(client, table_name) if name.endswith(" LOCK")] == []
    request = store.request(KEY, "order-1")
    assert request is not None
    assert (request.status, request.error) == ("FAILED", "the lease was given back by close")
    with pytest.raises(InvalidInputError, match="given back by close"):
        store.acquire_lease(KEY)


def test_lease_is_released_even_if_ending_its_request_fails(engine: Engine, table_name: str) -> None:
    client = engine.client(retries={"total_max_attempts": 1})
    faults, store = Faults(client), new_store(client, table_name)
    with store.lease(KEY, idempotency_key="r", request_hash="h"):
        faults.drop("UpdateItem", 100)
    assert row(client, table_name, store, "LOCK") == {}
    assert row(client, table_name, store, "REQ#r")["status"] == {"S": "STARTED"}


def test_with_records_an_uncompleted_request_as_failed(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    request: dict[str, Any] = {"idempotency_key": "r", "inputs": {"key": KEY}}
    with pytest.raises(ZeroDivisionError), store.lease(KEY, **request):
        raise ZeroDivisionError("nothing")
    found = store.request(KEY, "r")
    assert found is not None
    assert (found.status, found.error) == ("FAILED", "ZeroDivisionError: nothing")
    with store.lease(KEY, **request) as lease:
        published = store.publish(lease, lease.record, new_entry())
    with pytest.raises(RequestCompletedError) as caught, store.lease(KEY, **request):
        raise ZeroDivisionError
    assert caught.value.generation_id == published.generation_id
    assert store.request_result(KEY, "r") == published


MAX_LEASE = 315_446_400
"""Ten years and a day, in seconds: the longest lease."""


@pytest.mark.parametrize(
    ("end", "is_held"), [(NOW + MAX_LEASE, True), (NOW + MAX_LEASE + 1, False), ((NOW + 30) * 1000, False)]
)
@pytest.mark.parametrize("request_key", [None, "r"])
def test_lease_with_an_impossible_end_is_free(
    client: Any, table_name: str, end: float, is_held: bool, request_key: str | None
) -> None:
    """An end in milliseconds, of another writer, does not lock a page until the year 9999."""
    store = new_store(client, table_name)
    lock = {"lease_token": {"S": "theirs"}, "lease_expires_at": {"N": str(int(end))}}
    fill(client, table_name, [{"pk": {"S": store.partition_key(KEY)}, "sk": {"S": "LOCK"}, **lock}])
    request: dict[str, Any] = {"idempotency_key": request_key, "request_hash": "h"} if request_key else {}
    lease = store.try_acquire_lease(KEY, **request)
    assert (lease is None) == is_held
    if is_held:
        return
    fill(client, table_name, [{"pk": {"S": store.partition_key(KEY)}, "sk": {"S": "LOCK"}, **lock}])
    with pytest.raises(LeaseLostError):
        new_store(client, table_name).commit_generation(**REFERENCE, lease_token="theirs")  # noqa: S106 - no secret


def test_request_with_an_impossible_end_is_taken_over(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    begun = {
        "request_hash": {"S": "h"},
        "status": {"S": "STARTED"},
        "in_progress_until": {"N": str(int(NOW + MAX_LEASE))},
    }
    at = {"pk": {"S": store.partition_key(KEY)}, "sk": {"S": "REQ#r"}}
    fill(client, table_name, [{**at, **begun}])
    with pytest.raises(RequestInProgressError):
        store.acquire_lease(KEY, idempotency_key="r", request_hash="h")
    fill(client, table_name, [{**at, **begun, "in_progress_until": {"N": str(int(NOW + MAX_LEASE) + 1)}}])
    assert store.acquire_lease(KEY, idempotency_key="r", request_hash="h").attempt is not None


# --- Request records -------------------------------------------------------------


def test_abandoned_request_is_taken_over(client: Any, table_name: str) -> None:
    clock = Clock()
    store = new_store(client, table_name, now=clock)
    dead = store.acquire_lease(KEY, idempotency_key="r", request_hash="h")
    with pytest.raises(RequestInProgressError) as caught:
        store.acquire_lease(KEY, idempotency_key="r", request_hash="h")
    assert caught.value.until == NOW + 30
    with pytest.raises(LeaseHeldError):
        store.acquire_lease(KEY, idempotency_key="another", request_hash="h")
    assert store.request(KEY, "another") is None, "a refused acquisition writes nothing"
    clock.now += 31
    heir = store.acquire_lease(KEY, idempotency_key="r", request_hash="h")
    with pytest.raises(LeaseLostError):
        store.refresh_lease(dead)
    store.end_request(dead, failure="too late")
    store.publish(heir, heir.record, new_entry())
    found = store.request(KEY, "r")
    assert found is not None
    assert (found.status, found.result_s3_key) == ("COMPLETED", "bodies/x/g1")


def test_missing_request_result_raises_result_gone(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    lease = store.acquire_lease(KEY, idempotency_key="r", request_hash="h")
    store.publish(lease, lease.record, new_entry("g1"))
    assert store.request_result(KEY, "other") is None
    publish(store, "g2")
    with pytest.raises(ResultGoneError):
        store.request_result(KEY, "r")


def test_idempotency_key_requires_inputs(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    requests: list[dict[str, Any]] = [{}, {"inputs": {"a": 1}, "request_hash": "h"}]
    for request in requests:
        with pytest.raises(InvalidInputError, match="inputs or request_hash"):
            store.acquire_lease(KEY, idempotency_key="r", **request)
    assert rows(client, table_name) == {}


# --- Publishing and rollbacks ----------------------------------------------------


def test_unknown_attributes_are_preserved(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    pk = {"S": store.partition_key(KEY)}
    stranger = {"s3_key": {"S": "theirs"}, "generated_at": {"N": "1799999999.5"}, "revalidate_seconds": {"N": "60"}}
    fill(client, table_name, [{"pk": pk, "sk": {"S": "META"}, **stranger, "theirs": {"SS": ["a", "b"]}}])
    found = store.get(KEY)
    assert found is not None
    assert (found.foreign, found.generated_at, found.state) == (True, 1_799_999_999, "fresh")
    publish(store, "g1")
    assert set(row(client, table_name, store, "META")["theirs"]["SS"]) == {"a", "b"}


def test_older_versions_are_pruned(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    for number in range(1, 6):
        lease = store.acquire_lease(KEY)
        store.publish(lease, lease.record, new_entry(f"g{number}"), history=True, keep=3)
    assert [entry.generation_id for entry in store.versions(KEY)] == ["g5", "g4", "g3"]
    lease = store.acquire_lease(KEY)
    with pytest.raises(ConditionFailedError, match="each generation id once"):
        store.publish(lease, lease.record, new_entry("g4"), history=True)


def test_the_current_version_is_never_pruned(client: Any, table_name: str) -> None:
    """Ids sort by their makers' clocks, so the current version may have the oldest id."""
    store = new_store(client, table_name)
    publish(store, "g9", history=True)
    lease = store.acquire_lease(KEY)
    store.publish(lease, lease.record, new_entry("g1"), history=True, keep=1)
    assert [entry.generation_id for entry in store.versions(KEY)] == ["g9", "g1"]


def test_rollback_pin_and_unpin(client: Any, table_name: str) -> None:
    clock = Clock()
    store = new_store(client, table_name, now=clock, meta_ttl_seconds=86400)
    for generation in ("g1", "g2", "g3"):
        publish(store, generation, history=True)
    assert store.rollback(KEY).generation_id == "g2"
    assert store.rollback(KEY).generation_id == "g1", "by publish, not by rollback"
    with pytest.raises(NoVersionError):
        store.rollback(KEY)
    store.rollback(KEY, "g3")
    back = store.rollback(KEY, "g1", pin_seconds=90.5)
    assert (back.generation_id, back.pinned_until, back.asserted_at) == ("g1", NOW + 91, NOW)
    assert back.ttl == NOW + 2 * 86400
    clock.now += 70
    found = store.get(KEY)
    assert found is not None
    assert found.state == "fresh", "pinned beyond its window"
    lease = store.acquire_lease(KEY)
    with pytest.raises(PinnedError):
        store.publish(lease, lease.record, new_entry("g4"), history=True)
    assert store.unpin(KEY).pinned_until == NOW + 70, "the end of its pin is kept"
    clock.now += 5
    unpinned = store.unpin(KEY)
    assert unpinned == store.read(KEY).entry
    assert unpinned.pinned_until == NOW + 70
    assert not unpinned.pinned_until > clock.now
    pinned = store.pin(KEY)
    assert (pinned.pinned_until, pinned.ttl) == (FOREVER, None)
    with pytest.raises(NoVersionError):
        store.rollback(KEY, "g0")
    with pytest.raises(InvalidInputError):
        store.pin(KEY, pin_seconds=0)
    targets = [target for change in store.changes(0) for target in change.reload]
    assert len(targets) == store.sequence().seq
    assert {(target.tenant, target.key) for target in targets} == {("", KEY)}
    assert [change.seq for change in store.changes(store.sequence().seq - 1)] == [store.sequence().seq]


def test_withdrawn_generation_cannot_be_restored(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    publish(store, "g1", history=True)
    publish(store, "g2", history=True)
    client.update_item(
        TableName=table_name,
        Key={"pk": {"S": store.partition_key(KEY)}, "sk": {"S": "META"}},
        UpdateExpression="SET isr.withdrawn = :true",
        ExpressionAttributeValues={":true": {"BOOL": True}},
    )
    read = store.read(KEY).entry
    assert read is not None
    assert read.withdrawn
    for call in (store.pin, store.unpin):
        with pytest.raises(NoVersionError):
            call(KEY)
    assert not store.rollback(KEY, "g1").withdrawn


def test_rollback_without_history_raises_no_version(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    for call in (store.rollback, store.pin, store.unpin):
        with pytest.raises(NoVersionError):
            call(KEY)
    publish(store)
    with pytest.raises(NoVersionError):
        store.rollback(KEY)


def test_lease_is_released_if_reading_the_page_fails(client: Any, table_name: str) -> None:
    store = new_store(client, table_name)
    fill(client, table_name, [{"pk": {"S": "PURGE"}, "sk": {"S": "SEQ"}, "seq": {"S": "no number"}}])
    with pytest.raises(MalformedRowError) as caught:
        store.acquire_lease(KEY)
    assert (caught.value.pk, caught.value.sk, caught.value.attribute) == ("PURGE", "SEQ", "seq")
    assert row(client, table_name, store, "LOCK") == {}


# --- Concurrency -----------------------------------------------------------------


def test_concurrent_publishes_are_serialized(engine: Engine, table_name: str) -> None:
    """Threads contend for one lease: no publish is lost, and none happens without the lease."""
    rounds, contenders = 12, 4
    client = engine.client(max_pool_connections=contenders)
    stores = [FaceTheoryIsrMetaStore(client, table_name, lease_owner=f"node-{n}") for n in range(contenders)]
    published: Counter[int] = Counter()
    lock = threading.Lock()
    inside = threading.Semaphore(1)

    def contend(store: FaceTheoryIsrMetaStore) -> None:
        while True:
            lease = store.try_acquire_lease(KEY)
            if lease is None:
                continue
            assert inside.acquire(blocking=False), "two holders of the lease"
            entry = lease.record.entry
            turn = entry.content_length + 1 if entry else 1
            inside.release()
            if turn > rounds:
                store.release_lease(lease)
                return
            fresh = new_entry(f"g{turn}", content_length=turn, generated_at=lease.lease_expires_at)
            store.publish(lease, lease.record, fresh, history=True)
            with lock:
                published[turn] += 1

    with ThreadPoolExecutor(contenders) as pool:
        for done in [pool.submit(contend, store) for store in stores]:
            done.result(timeout=120)
    assert published == Counter(dict.fromkeys(range(1, rounds + 1), 1))
    versions = sorted(stores[0].versions(KEY), key=lambda entry: entry.content_length)
    assert [entry.content_length for entry in versions] == list(range(1, rounds + 1))
    assert all(before.v < after.v for before, after in pairwise(versions))
    client.close()


def test_concurrent_request_is_executed_once(engine: Engine, table_name: str) -> None:
    client = engine.client(max_pool_connections=4)
    stores = [FaceTheoryIsrMetaStore(client, table_name) for _ in range(4)]
    rendered: list[str] = []

    def make(store: FaceTheoryIsrMetaStore) -> str:
        while True:
            try:
                with store.lease(KEY, idempotency_key="r", inputs={"key": KEY}) as lease:
                    rendered.append(store.new_generation_id())
                    entry = new_entry(rendered[-1], generated_at=lease.lease_expires_at)
                    return store.publish(lease, lease.record, entry).generation_id
            except (LeaseHeldError, RequestInProgressError):
                continue
            except RequestCompletedError as done:
                return done.generation_id

    with ThreadPoolExecutor(len(stores)) as pool:
        answers = [job.result(timeout=60) for job in [pool.submit(make, store) for store in stores]]
    assert len(rendered) == 1
    assert set(answers) == set(rendered)
    client.close()


# --- Network faults ----------------------------------------------------------------


def test_lost_replies_with_botocore_retries(engine: Engine, table_name: str) -> None:
    """Both cases with botocore's own retries: requests that arrive without a reply, and requests that do not arrive."""
    client = engine.client(retries={"total_max_attempts": 1})
    faults = Faults(client)
    store = new_store(client, table_name, new_token=Tokens())
    faults.lose("PutItem")
    lease = store.acquire_lease(KEY)
    assert faults.sent["PutItem"] == 2
    faults.lose("TransactWriteItems")
    store.publish(lease, lease.record, new_entry("g1"), history=True)
    assert faults.sent["TransactWriteItems"] == 2
    faults.drop("TransactWriteItems")
    publish(store, "g2", history=True)
    faults.lose("TransactWriteItems")
    assert store.rollback(KEY, "g1").generation_id == "g1"
    assert len(store.changes(0)) == 1
    faults.lose("DeleteItem")
    store.release_lease(store.acquire_lease(KEY))
    assert row(client, table_name, store, "LOCK") == {}
    client.close()


def test_access_denied_is_raised_unchanged(client: Any, table_name: str) -> None:
    faulty = Faulty(client)
    store = new_store(faulty, table_name)
    faulty.arm([Fault.DENIED])
    with pytest.raises(Exception, match="AccessDeniedException"):
        store.acquire_lease(KEY)
    assert rows(client, table_name) == {}
