"""A page in a real table, and a store with a fake clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.clocks import NOW, Clock
from theorydb_py._retry import Retry
from theorydb_py.isr import Entry, FaceTheoryIsrMetaStore, IsrLease

KEY = "example.com/news"
DIGEST = "0" * 64


@dataclass
class Tokens:
    """Returns these tokens in order, and then generated ones."""

    names: list[str] = field(default_factory=list)
    drawn: int = 0

    def __call__(self) -> str:
        self.drawn += 1
        return self.names.pop(0) if self.names else f"token-{self.drawn}"


def quick() -> Retry:
    """Return a Retry with short backoff, and time enough on a busy machine."""
    return Retry(first_backoff_seconds=0.001, timeout_seconds=60)


def new_store(client: Any, table: str, **settings: Any) -> FaceTheoryIsrMetaStore:
    """Return a store whose clock stands still, unless settings change that."""
    return FaceTheoryIsrMetaStore(
        client,
        table,
        **{"now": Clock(), "lease_owner": "python", "retry": quick(), "settle_timeout_seconds": 60.0, **settings},
    )


def new_entry(name: str = "g1", **members: Any) -> Entry:
    """Return a valid entry."""
    entry = Entry(
        s3_key=f"bodies/x/{name}",
        generated_at=int(NOW),
        revalidate_seconds=60,
        etag=f'"{name}"',
        ttl=int(NOW) + 86400,
        generation_id=name,
        key=KEY,
        headers={"content-type": ("text/html; charset=utf-8",)},
        content_sha256=DIGEST,
        content_length=5,
        stale_seconds=600,
    )
    return replace(entry, **members)


def publish(store: FaceTheoryIsrMetaStore, name: str = "g1", *, history: bool = False, **members: Any) -> Entry:
    """Acquire the lease and publish a generation."""
    lease = store.acquire_lease(KEY)
    return store.publish(lease, lease.record, new_entry(name, purge_seq=lease.purge_seq, **members), history=history)


def rows(client: Any, table: str) -> dict[str, dict[str, Any]]:
    """Return all rows of a small table by pk and sk."""
    items = client.scan(TableName=table, ConsistentRead=True)["Items"]
    return {_name(item): item for item in items}


def _name(item: Mapping[str, Any]) -> str:
    return f"{item['pk']['S']} {item['sk']['S']}"


def row(client: Any, table: str, store: FaceTheoryIsrMetaStore, sk: str) -> dict[str, Any]:
    """Return one row of the page, empty if it does not exist."""
    return rows(client, table).get(f"{store.partition_key(KEY)} {sk}", {})


def fill(client: Any, table: str, items: Iterable[Mapping[str, Any]]) -> None:
    """Write rows unconditionally."""
    _write(client, table, [{"PutRequest": {"Item": dict(item)}} for item in items])


def clear(client: Any, table: str) -> None:
    """Delete all rows."""
    restore(client, table, {})


def replace_rows(client: Any, table: str, items: Iterable[Mapping[str, Any]]) -> None:
    """Replace all rows of a small table: one scan and one write, since requests are most of the time of a test."""
    restore(client, table, {_name(item): item for item in items})


def restore(client: Any, table: str, expected: Mapping[str, Mapping[str, Any]]) -> None:
    """Restore the rows of a small table to those that ``rows`` returned."""
    found = rows(client, table)
    extra = [item for name, item in found.items() if name not in expected]
    changes: list[dict[str, Any]] = [{"DeleteRequest": {"Key": {"pk": item["pk"], "sk": item["sk"]}}} for item in extra]
    changes += [{"PutRequest": {"Item": dict(item)}} for name, item in expected.items() if found.get(name) != item]
    _write(client, table, changes)


def _write(client: Any, table: str, changes: Sequence[Mapping[str, Any]]) -> None:
    for first in range(0, len(changes), 25):
        answer = client.batch_write_item(RequestItems={table: changes[first : first + 25]})
        assert not answer.get("UnprocessedItems"), "the test engines do not throttle"


def held(lease: IsrLease | None) -> IsrLease:
    """Require a lease."""
    assert lease is not None
    return lease
