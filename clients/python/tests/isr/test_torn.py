"""Transactions that are seen in part undo no purge, and do not hide outcomes.

DynamoDB commits a transaction row by row: until its reply, reads that are not transactions
may return one row from after it and another from before it (spec/schema.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from tests.clocks import Time
from tests.isr.pages import KEY, fill, new_entry, new_store, publish, restore, row, rows
from theorydb_py.errors import PurgedError
from theorydb_py.isr import FaceTheoryIsrMetaStore, PurgeTarget
from theorydb_py.web._follower import Follower
from theorydb_py.web._memory import Memory

CONFLICTS = 6
"""How many transactional reads are refused: more than a call is attempted elsewhere."""

VIEWS: dict[str, Callable[[str], bool]] = {
    "the log row is visible": lambda sk: sk == "PURGE" or sk.startswith("MARK#"),
    "only SEQ is visible": lambda sk: sk == "PURGE" or sk.startswith(("MARK#", "LOG#")),
}
"""The rows of a purge that reads may show as they were before it."""


class Torn:
    """A client that sees rows as they were before, except in transactions."""

    def __init__(self, client: Any, before: dict[str, Any], old: Callable[[str], bool], conflicts: int = CONFLICTS):
        self._client = client
        self._before = before
        self._old = old
        self.conflicts = conflicts

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._client, operation)

    def _shown(self, item: Any) -> Any:
        if not item or not self._old(item["sk"]["S"]):
            return item
        return self._before.get(f"{item['pk']['S']} {item['sk']['S']}")

    def _all(self, items: list[Any]) -> list[Any]:
        return [shown for shown in map(self._shown, items) if shown]

    def get_item(self, **arguments: Any) -> Any:
        answer = self._client.get_item(**arguments)
        return {**answer, "Item": self._shown(answer.get("Item"))}

    def query(self, **arguments: Any) -> Any:
        answer = self._client.query(**arguments)
        return {**answer, "Items": self._all(answer["Items"])}

    def batch_get_item(self, **arguments: Any) -> Any:
        answer = self._client.batch_get_item(**arguments)
        return {**answer, "Responses": {table: self._all(items) for table, items in answer["Responses"].items()}}

    def transact_get_items(self, **arguments: Any) -> Any:
        if self.conflicts > 0:
            self.conflicts -= 1
            response: Any = {
                "Error": {"Code": "TransactionCanceledException", "Message": "by plan"},
                "CancellationReasons": [{"Code": "TransactionConflict"}],
                "ResponseMetadata": {"HTTPStatusCode": 400},
            }
            raise ClientError(response, "TransactGetItems")
        return self._client.transact_get_items(**arguments)


@dataclass
class Page:
    """A page with two kept generations, and its table."""

    client: Any
    table: str
    store: FaceTheoryIsrMetaStore

    def purge_seen_in_part(self, target: PurgeTarget, old: Callable[[str], bool]) -> Torn:
        """Purge hard; return a client that sees that in part."""
        before = rows(self.client, self.table)
        self.store.purge([target], hard=True)
        return Torn(self.client, before, old)


@pytest.fixture
def page(client: Any, table_name: str) -> Iterator[Page]:
    store = new_store(client, table_name)
    for name in ("g1", "g2"):
        publish(store, name, history=True, tags=("t",))
    yield Page(client, table_name, store)
    store.close()


TARGETS = [
    PurgeTarget(kind="key", value=KEY),
    PurgeTarget(kind="tag", value="t"),
    PurgeTarget(kind="prefix", value="example.com/"),
    PurgeTarget(kind="site"),
]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.kind)
def test_rollback(page: Page, target: PurgeTarget, view: str) -> None:
    """A rollback does not undo a hard purge that is being committed."""
    # The last of several purges: an older one of the same mark is complete.
    page.store.purge([target, PurgeTarget(kind="tag", value="other")])
    torn = page.purge_seen_in_part(target, VIEWS[view])
    with new_store(torn, page.table) as store, pytest.raises(PurgedError):
        store.rollback(KEY, "g1")
    current = page.store.read(KEY).entry
    assert current is not None
    assert current.generation_id == "g2"


def test_rollback_behind_expired_rows(page: Page) -> None:
    for _ in range(3):
        page.store.purge([PurgeTarget(kind="tag", value="other")])
    kept = {name: item for name, item in rows(page.client, page.table).items() if "LOG#" not in name}
    restore(page.client, page.table, kept)
    assert page.store.rollback(KEY, "g1").generation_id == "g1"


@pytest.mark.parametrize("history", [False, True])
def test_publish_without_a_reply(client: Any, table_name: str, *, history: bool) -> None:
    """A publish without a reply is settled while it is being committed."""
    time = Time()
    torn = Torn(client, {}, lambda sk: sk == "META" or sk.startswith("VER#"))
    lossy = LostReplies(torn, lambda: time.advance(600))
    store = new_store(lossy, table_name, now=time.wall, retry=time.retry())
    lease = store.acquire_lease(KEY, lease_duration_ms=60_000)
    lossy.lost = 1
    entry = store.publish(lease, lease.record, new_entry("g1", purge_seq=lease.purge_seq), history=history)
    assert entry.generation_id == "g1"
    assert row(client, table_name, store, "META")["isr"]["M"]["generation_id"]["S"] == "g1"


def test_purge_without_a_reply(client: Any, table_name: str) -> None:
    """A purge without a reply is settled while it is being committed."""
    time = Time()
    lossy = LostReplies(Torn(client, {}, lambda sk: sk.startswith("LOG#")), lambda: time.advance(600))
    store = new_store(lossy, table_name, now=time.wall, retry=time.retry())
    lossy.lost = 1
    assert store.purge([PurgeTarget(kind="tag", value="t")], hard=True).seq == 1
    assert store.sequence().seq == 1, "purged once"


class LostReplies:
    """A client that loses the replies to transactions, after which they cannot be repeated."""

    def __init__(self, client: Any, after: Callable[[], object]) -> None:
        self._client = client
        self._after = after
        self.lost = 0

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._client, operation)

    def transact_write_items(self, **arguments: Any) -> Any:
        answer = self._client.transact_write_items(**arguments)
        if self.lost > 0:
            self.lost -= 1
            self._after()
            raise ReadTimeoutError(endpoint_url="lost")
        return answer


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.kind)
def test_memory_at_the_start(page: Page, target: PurgeTarget, view: str) -> None:
    """A process that starts while a hard purge is being committed does not keep the page as fresh."""
    torn = page.purge_seen_in_part(target, VIEWS[view])
    with new_store(torn, page.table) as store:
        memory = Memory(1 << 20)
        Follower(store, memory, 60).read_now()
        position = memory.position()
        record = store.read(KEY)
        assert record.entry is not None
        held = memory_page(store, record)
        memory.hold(held, position)
        kept = memory.get(KEY)[0]
        assert kept is None or kept.purges.hard_seq > kept.entry.purge_seq


def memory_page(store: FaceTheoryIsrMetaStore, record: Any) -> Any:
    """Return a page as the cache keeps it."""
    from theorydb_py.web._pages import Page as WebPage

    purges = record.purges.merge(store.covering(KEY, record.entry.tags))
    return WebPage(KEY, record.entry, purges, b"x")


def test_recent_changes(page: Page) -> None:
    """The newest changes come newest first, also those that are being committed, up to the first that has expired."""
    for tag in ("a", "b", "c"):
        page.store.purge([PurgeTarget(kind="tag", value=tag)])
    assert [change.marks[0].value for change in page.store.recent(3)] == ["c", "b", "a"]
    assert [change.seq for change in page.store.recent(2)] == [2, 1]
    assert page.store.recent(0) == []
    everything = rows(page.client, page.table)
    second = next(name for name in everything if name.endswith("LOG#00000000000000000002"))
    torn = Torn(page.client, {}, lambda sk: second.endswith(sk))
    with new_store(torn, page.table) as store:
        assert [change.seq for change in store.recent(3)] == [3, 2, 1]
    restore(page.client, page.table, {name: item for name, item in everything.items() if name != second})
    assert [change.seq for change in page.store.recent(3)] == [3]
    fill(page.client, page.table, [{**everything[second], "targets": {"S": "x"}}])
    assert [change.malformed is None for change in page.store.recent(3)] == [True, False, True]
