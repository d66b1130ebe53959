"""Leases on real tables."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.clocks import Clock, Time
from tests.conftest import Engine
from tests.lostreplies import Faults
from theorydb_py._retry import Retry
from theorydb_py.errors import (
    InvalidInputError,
    InvalidKeyError,
    LeaseHeldError,
    LeaseLostError,
    TableNotFoundError,
    UnknownOutcomeError,
)
from theorydb_py.leases import Lease, LeaseKey, LeaseManager

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

NOW = 1_800_000_000.25


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


Maker = Callable[..., LeaseManager]


@pytest.fixture
def manager(client: DynamoDBClient, table_name: str, clock: Clock) -> Maker:
    def make(**options: Any) -> LeaseManager:
        return LeaseManager(client, table_name=table_name, **{"now": clock, **options})

    return make


def row(client: DynamoDBClient, table_name: str, pk: str, sk: str = "LOCK") -> dict[str, Any]:
    found = client.get_item(TableName=table_name, Key={"pk": {"S": pk}, "sk": {"S": sk}}, ConsistentRead=True)
    return dict(found.get("Item", {}))


def test_row_of_a_job(manager: Maker, client: DynamoDBClient, table_name: str) -> None:
    lease = manager(owner="me", token=lambda: "t1").acquire("nightly", lease_seconds=29.5)
    end = math.ceil(NOW + 30)
    assert row(client, table_name, "JOB#nightly") == {
        "pk": {"S": "JOB#nightly"},
        "sk": {"S": "LOCK"},
        "lease_token": {"S": "t1"},
        "lease_expires_at": {"N": str(end)},
        "ttl": {"N": str(end + 3600)},
        "lease_owner": {"S": "me"},
    }
    assert (lease.expires_at, lease.seconds, lease.failures, lease.lost) == (end, 30, 0, False)


def test_held_lease_names_its_holder(manager: Maker) -> None:
    manager(owner="first").acquire("k")
    with pytest.raises(LeaseHeldError, match="held by first until 2027-01-15T08:00:31Z") as held:
        manager().acquire("k")
    assert (held.value.owner, held.value.expires_at, held.value.failures) == ("first", math.ceil(NOW + 30), 0)


def test_expired_lease_is_taken_and_lost_by_its_holder(manager: Maker, clock: Clock) -> None:
    first, second = manager(), manager(owner="second")
    key = first.lock_key(pk="CACHE#py", sk="LOCK")
    lost = first.acquire(key, lease_seconds=30)
    clock.now += 31
    assert lost.lost
    second.acquire(key, lease_seconds=30)
    with pytest.raises(LeaseLostError, match="held by second"):
        first.refresh(lost)
    with pytest.raises(LeaseLostError):
        lost.check()


def test_expired_lease_cannot_be_refreshed(manager: Maker, clock: Clock) -> None:
    m = manager()
    lease = m.acquire("k", lease_seconds=30)
    clock.now += 31
    with pytest.raises(LeaseLostError):
        m.refresh(lease)
    clock.now -= 31  # a clock that is set back does not revive it
    with pytest.raises(LeaseLostError):
        m.refresh(lease)
    assert lease.lost


def test_refresh_extends_from_now(manager: Maker, clock: Clock, client: DynamoDBClient, table_name: str) -> None:
    m = manager()
    lease = m.acquire("k", lease_seconds=30)
    clock.now += 20
    assert m.refresh(lease) is lease
    assert lease.expires_at == math.ceil(NOW + 50)
    assert m.refresh(lease, lease_seconds=60) is lease
    assert (lease.expires_at, lease.seconds) == (math.ceil(NOW + 80), 60)
    stored = row(client, table_name, "JOB#k")
    assert stored["lease_expires_at"]["N"] == str(lease.expires_at)
    assert stored["ttl"]["N"] == str(lease.expires_at + 3600)


def test_release_deletes_the_row(manager: Maker, client: DynamoDBClient, table_name: str) -> None:
    m = manager()
    lease = m.acquire("k")
    m.release(lease)
    assert row(client, table_name, "JOB#k") == {}
    assert lease.lost
    with pytest.raises(LeaseLostError):
        m.refresh(lease)
    m.release(lease)  # again


def test_releasing_a_lost_lease_keeps_its_next_holder(manager: Maker, clock: Clock) -> None:
    m = manager()
    first = m.acquire("k", lease_seconds=1)
    clock.now += 5
    second = m.acquire("k")
    m.release(first)
    m.refresh(second)


@pytest.mark.parametrize(
    ("end", "free"),
    [
        ({"N": str(math.floor(NOW))}, True),
        ({"N": str(math.floor(NOW) + 1)}, False),
        ({"N": str(math.floor(NOW)) + ".5"}, False),
        ({"S": "9999999999"}, True),
        ({"NULL": True}, True),
        (None, True),
    ],
)
def test_rows_of_other_writers(manager: Maker, client: DynamoDBClient, table_name: str, end: Any, free: bool) -> None:
    item = {"pk": {"S": "JOB#k"}, "sk": {"S": "LOCK"}, "failures": {"N": "2.5"}}
    if end is not None:
        item["lease_expires_at"] = end
    client.put_item(TableName=table_name, Item=item)
    if free:
        assert manager().acquire("k").failures == 2
    else:
        with pytest.raises(LeaseHeldError, match="in backoff after 2 failures") as held:
            manager().acquire("k")
        assert (held.value.failures, held.value.expires_at) == (2, math.floor(NOW) + 1)


@pytest.mark.parametrize(
    ("key", "refusal"),
    [
        ("", InvalidKeyError),
        ("x" * 1025, InvalidKeyError),
        ("\ud800", InvalidKeyError),
        (None, InvalidInputError),
        (7, InvalidInputError),
    ],
)
def test_invalid_keys_are_refused(key: Any, refusal: type[Exception]) -> None:
    with pytest.raises(refusal):
        LeaseManager(_no_client(), table_name="t").acquire(key)


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan, 315360001, "30", True, None])
def test_invalid_durations_are_refused(seconds: Any) -> None:
    with pytest.raises(InvalidInputError, match="lease_seconds"):
        LeaseManager(_no_client(), table_name="t").acquire("k", lease_seconds=seconds)


def test_empty_table_name_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="table"):
        LeaseManager(_no_client(), table_name="")


def test_missing_table(client: DynamoDBClient) -> None:
    with pytest.raises(TableNotFoundError, match="JOB#k"):
        LeaseManager(client, table_name="there-is-none").acquire("k")


# --- Lost replies -----------------------------------------------------------


@pytest.fixture
def faulty(engine: Engine, table_name: str, clock: Clock) -> tuple[Faults, LeaseManager]:
    client = engine.client(retries={"total_max_attempts": 1})
    return Faults(client), LeaseManager(
        client,
        table_name=table_name,
        now=clock,
        retry=Retry(first_backoff_seconds=0.001, timeout_seconds=60),
        owner="faulty",
    )


def test_acquisition_with_a_lost_reply_is_recognized(faulty: tuple[Faults, LeaseManager]) -> None:
    faults, m = faulty
    faults.lose("PutItem", 2)
    lease = m.acquire("k")
    assert faults.sent["PutItem"] == 3
    m.refresh(lease)
    with pytest.raises(LeaseHeldError):
        m.acquire("k")


def test_dropped_acquisition_is_retried(faulty: tuple[Faults, LeaseManager]) -> None:
    faults, m = faulty
    faults.drop("PutItem", 3)
    assert not m.acquire("k").lost


def test_unanswered_acquisition_is_released(
    faulty: tuple[Faults, LeaseManager], client: DynamoDBClient, table_name: str
) -> None:
    faults, m = faulty
    faults.lose("PutItem", 4)
    faults.lose("DeleteItem", 1)
    with pytest.raises(Exception, match="Read timeout") as unanswered:
        m.acquire("k")
    assert not isinstance(unanswered.value, UnknownOutcomeError)
    assert row(client, table_name, "JOB#k") == {}


def test_unanswered_release_of_an_acquisition_is_unknown(faulty: tuple[Faults, LeaseManager], table_name: str) -> None:
    faults, _ = faulty
    faults.drop("PutItem", 100)
    faults.drop("DeleteItem", 1_000_000)
    short = LeaseManager(
        faults.client, table_name=table_name, retry=Retry(first_backoff_seconds=0.001, timeout_seconds=0.05)
    )
    with pytest.raises(UnknownOutcomeError, match="none to its release"):
        short.acquire("k")


def test_refresh_with_a_lost_reply_is_retried(faulty: tuple[Faults, LeaseManager]) -> None:
    faults, m = faulty
    lease = m.acquire("k")
    faults.lose("UpdateItem", 2)
    m.refresh(lease)
    assert faults.sent["UpdateItem"] == 3


def test_unanswered_refresh_is_unknown_and_repeatable(faulty: tuple[Faults, LeaseManager]) -> None:
    faults, m = faulty
    lease = m.acquire("k")
    faults.drop("UpdateItem", 4)
    with pytest.raises(UnknownOutcomeError, match="refresh"):
        m.refresh(lease)
    m.refresh(lease)
    assert not lease.lost


def test_release_with_a_lost_reply_succeeds(
    faulty: tuple[Faults, LeaseManager], client: DynamoDBClient, table_name: str
) -> None:
    faults, m = faulty
    lease = m.acquire("k")
    faults.lose("DeleteItem", 2)
    m.release(lease)
    assert row(client, table_name, "JOB#k") == {}


# --- with -------------------------------------------------------------------


def test_with_releases_at_the_end(manager: Maker, client: DynamoDBClient, table_name: str) -> None:
    with manager().lease("k", lease_seconds=30) as lease:
        assert row(client, table_name, "JOB#k")["lease_token"]["S"] == lease.token
        lease.check()
    assert row(client, table_name, "JOB#k") == {}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_with_releases_after_an_error(
    manager: Maker, client: DynamoDBClient, table_name: str, error: type[BaseException]
) -> None:
    with pytest.raises(error), manager().lease("k"):
        raise error
    assert row(client, table_name, "JOB#k") == {}


def test_with_refreshes_the_lease(client: DynamoDBClient, table_name: str) -> None:
    time = Time()
    m = LeaseManager(client, table_name=table_name, now=time.wall, retry=time.retry(), wait=time.wait)
    with m.lease("k", lease_seconds=30) as lease:
        first = lease.expires_at
        for beat in (1, 2, 3, 4):
            assert time.next_wait() == 10
            assert lease.expires_at == first + 10 * (beat - 1)
            time.advance(10)
        assert time.next_wait() == 10
        assert row(client, table_name, "JOB#k")["lease_expires_at"]["N"] == str(first + 40)
        lease.check()


def test_block_may_release_the_lease_early(manager: Maker) -> None:
    m = manager()
    with m.lease("k") as lease:
        m.release(lease)
        with pytest.raises(LeaseLostError, match="was released"):
            lease.check()
        m.acquire("k")
    with pytest.raises(LeaseHeldError):  # the next holder keeps it
        m.acquire("k")


def test_with_raises_for_a_lost_lease(manager: Maker, clock: Clock) -> None:
    m = manager()

    def work() -> None:
        with m.lease("k", lease_seconds=30) as lease:
            clock.now += 31
            m.acquire("k")
            assert lease.lost
            raise RuntimeError("the block's own")

    with pytest.raises(LeaseLostError, match="before the block ended") as lost:
        work()
    assert isinstance(lost.value.__cause__, RuntimeError)
    with pytest.raises(LeaseHeldError):  # the next holder keeps it
        m.acquire("k")


def test_with_raises_for_an_unnoticed_loss(manager: Maker, clock: Clock) -> None:
    with pytest.raises(LeaseLostError, match="before the block ended"), manager().lease("k", lease_seconds=30):
        clock.now += 31


def test_with_does_not_run_the_block_while_the_lease_is_held(manager: Maker) -> None:
    manager().acquire("k")
    with pytest.raises(LeaseHeldError), manager().lease("k"):
        pytest.fail("ran")


def test_contenders_hold_the_lease_one_at_a_time(client: DynamoDBClient, table_name: str) -> None:
    inside, most, done = 0, 0, 0
    guard = threading.Lock()

    def contend(_: int) -> None:
        nonlocal inside, most, done
        m = LeaseManager(client, table_name=table_name)
        for _ in range(25):
            try:
                with m.lease("k", lease_seconds=30):
                    with guard:
                        inside += 1
                        most = max(most, inside)
                    with guard:
                        inside -= 1
                        done += 1
            except LeaseHeldError:
                continue

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(contend, range(4)))
    assert most == 1
    assert done >= 1


def test_lease_is_bound_to_its_table(manager: Maker, client: DynamoDBClient) -> None:
    lease = manager().acquire("k")
    elsewhere = LeaseManager(client, table_name="there-is-none")
    elsewhere.refresh(lease, lease_seconds=60)
    assert lease.seconds == 60
    elsewhere.release(lease)
    manager().acquire("k")


# --- Many leases --------------------------------------------------------------


def test_an_acquisition_takes_the_same_work_however_many_leases_are_held(
    client: DynamoDBClient, table_name: str
) -> None:
    reads = itertools.count()

    def wall() -> float:
        next(reads)
        return NOW

    m = LeaseManager(client, table_name=table_name, now=wall)

    def work(key: str) -> int:
        before = next(reads)
        m.acquire(key)
        return next(reads) - before

    works = [work(f"k{i}") for i in range(60)]
    assert len(set(works[2:])) == 1, works  # the first two find fewer leases to examine


def test_close_gives_back_all_leases_and_leaves_no_thread(
    client: DynamoDBClient, table_name: str, clock: Clock
) -> None:
    threads = set(threading.enumerate())
    with LeaseManager(client, table_name=table_name, now=clock) as m:
        by_hand = [m.acquire(f"k{i}") for i in range(20)]

        def block() -> None:
            with m.lease("block") as lease:
                m.close()
                assert lease.lost
                assert set(threading.enumerate()) <= threads
                raise RuntimeError("the block's own")

        with pytest.raises(LeaseLostError, match="before the block ended") as lost:
            block()
    assert isinstance(lost.value.__cause__, RuntimeError)
    for lease in by_hand:
        with pytest.raises(LeaseLostError):
            lease.check()
        assert row(client, table_name, lease.key.pk) == {}
    assert row(client, table_name, "JOB#block") == {}
    with pytest.raises(InvalidInputError, match="given back by close"):
        m.acquire("k0")


def test_an_acquisition_that_meets_close_is_given_back(client: DynamoDBClient, table_name: str, clock: Clock) -> None:
    closing: list[LeaseManager] = []

    def token() -> str:  # is called after the manager was found open
        closing[0].close()
        return "t1"

    closing.append(LeaseManager(client, table_name=table_name, now=clock, token=token))
    with pytest.raises(InvalidInputError, match="given back by close"):
        closing[0].acquire("k")
    assert row(client, table_name, "JOB#k") == {}


def test_close_leaves_what_others_hold(manager: Maker, clock: Clock) -> None:
    m, other = manager(), manager()
    released, expired = m.acquire("released"), m.acquire("expired", lease_seconds=1)
    m.release(released)
    clock.now += 5
    theirs = [other.acquire("released"), other.acquire("expired")]
    m.close()
    assert expired.lost
    for lease in theirs:
        other.refresh(lease)


def test_lease_key_of_any_partition() -> None:
    assert LeaseKey("CACHE#x") == LeaseKey(pk="CACHE#x", sk="LOCK")
    with pytest.raises(InvalidKeyError, match="partition key"):
        LeaseKey("")


@pytest.mark.parametrize("sk", ["META", "", None])
def test_lease_key_must_name_a_lock_row(sk: Any) -> None:
    with pytest.raises(InvalidKeyError, match="row LOCK"):
        LeaseKey("CACHE#x", sk)


# --- Leases of other processes --------------------------------------------------


def test_a_lease_that_was_handed_over_is_refreshed_and_released(
    manager: Maker, clock: Clock, client: DynamoDBClient, table_name: str
) -> None:
    acquired = manager(owner="first").acquire("k", lease_seconds=30)
    second = manager()
    handed = Lease(acquired.key, acquired.token, acquired.expires_at)
    assert (handed.token, handed.expires_at, handed.seconds, handed.failures) == (
        acquired.token,
        acquired.expires_at,
        0,
        0,
    )
    with pytest.raises(InvalidInputError, match="pass lease_seconds"):
        second.refresh(handed)
    clock.now += 10
    assert second.refresh(handed, lease_seconds=60) is handed
    assert (handed.expires_at, handed.seconds, handed.lost) == (math.ceil(NOW + 70), 60, False)
    assert row(client, table_name, "JOB#k")["lease_owner"] == {"S": "first"}
    assert second.refresh(handed).expires_at == math.ceil(NOW + 70)
    second.release(handed)
    assert handed.lost
    assert row(client, table_name, "JOB#k") == {}


def test_a_lease_that_was_handed_over_may_be_lost(manager: Maker, clock: Clock) -> None:
    acquired = manager().acquire("k", lease_seconds=30)
    clock.now += 31
    next_holder = manager(owner="next").acquire("k")
    handed = Lease(acquired.key, acquired.token)
    m = manager()
    with pytest.raises(LeaseLostError, match="held by next"):
        m.refresh(handed, lease_seconds=30)
    with pytest.raises(LeaseLostError):
        handed.check()
    m.release(Lease(acquired.key, acquired.token))
    manager().refresh(Lease(next_holder.key, next_holder.token), lease_seconds=5)


def test_a_lease_that_was_handed_over_counts_as_lost_once_it_has_expired() -> None:
    key = LeaseKey("JOB#k")
    later = Lease(key=key, token="t", expires_at=int(time.time()) + 3600)  # noqa: S106 no secret
    later.check()
    assert not later.lost
    with pytest.raises(LeaseLostError, match="expired"):
        Lease(key, "t", expires_at=1_700_000_000).check()


@pytest.mark.parametrize(
    ("key", "token", "expires_at"),
    [("JOB#k", "t", 0), (LeaseKey("k"), "", 0), (LeaseKey("k"), None, 0), (LeaseKey("k"), "t", -1)],
)
def test_leases_need_a_key_and_a_token(key: Any, token: Any, expires_at: Any) -> None:
    with pytest.raises(InvalidInputError):
        Lease(key, token, expires_at)


def _no_client() -> Any:
    """No client: nothing must be sent."""
    return None
