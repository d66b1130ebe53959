"""The memory tier and the changes of the log: no page is kept that may not show one of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.isr.pages import KEY, new_entry
from theorydb_py.errors import MalformedRowError
from theorydb_py.isr import Change, Entry, Mark, PurgeState, ReloadTarget, State
from theorydb_py.web._memory import Memory
from theorydb_py.web._pages import Page


def page_at(seq: int) -> Page:
    """Return a fresh page that was rendered when the log had this sequence."""
    entry: Entry = replace(
        new_entry(), generated_at=int(time.time()) - 5, revalidate_seconds=3600, tags=("news",), purge_seq=seq
    )
    return Page(key=KEY, entry=entry, purges=PurgeState(), body=b"x")


def purge_of(kind: str, value: str, seq: int) -> Change:
    """Return a hard purge."""
    now = int(time.time())
    if kind == "key":
        return Change(seq=seq, reload=(ReloadTarget(tenant="", key=value),))
    return Change(seq=seq, marks=(Mark(kind=kind, value=value, tenant="", seq=seq, hard_seq=seq, at=now),))


def others(first: int, count: int) -> Iterable[Change]:
    """Return purges of other pages."""
    return [purge_of("tag", f"other-{seq}", seq) for seq in range(first, first + count)]


def fresh(memory: Memory) -> bool:
    """Return whether memory has the page, and would serve it as fresh."""
    return any(page is not None and page.state(time.time()) is State.FRESH for page in memory.get(KEY))


COVERING = [("key", KEY), ("tag", "news"), ("prefix", "example.com/"), ("site", "")]


@pytest.mark.parametrize("unshared", ["", "unpublished"])
@pytest.mark.parametrize("count", [10, 1100, 12_000], ids=lambda count: f"{count} others")
@pytest.mark.parametrize(("kind", "value"), COVERING)
def test_purged_while_it_was_read(kind: str, value: str, count: int, unshared: str) -> None:
    """A purge that covers a page counts, however many changes follow while the page is read or rendered."""
    memory = Memory(1 << 20)
    position = memory.position()
    memory.apply([purge_of(kind, value, 11)])
    memory.apply(others(12, count))
    memory.hold(replace(page_at(10), unshared=unshared), position)
    assert not fresh(memory)


@pytest.mark.parametrize("count", [10, 12_000], ids=lambda count: f"{count} others")
def test_purged_before_it_was_read(count: int) -> None:
    """A read shortly after a change of the log may not show it, since DynamoDB commits it row by row."""
    memory = Memory(1 << 20)
    memory.apply([purge_of("tag", "news", 11)])
    memory.apply(others(12, count))
    memory.hold(page_at(10), memory.position())
    assert not fresh(memory)


def test_kept_beside_other_changes() -> None:
    """Changes of other pages do not keep a page out of memory."""
    memory = Memory(1 << 20)
    position = memory.position()
    memory.apply(others(11, 2000))
    memory.hold(page_at(10), position)
    assert fresh(memory)


def test_kept_again_after_many_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are kept again once the changes that are not remembered are old."""
    memory = Memory(1 << 20)
    memory.apply(others(11, 12_000))
    later = time.monotonic() + 11
    monkeypatch.setattr("theorydb_py.web._memory.time.monotonic", lambda: later)
    memory.hold(page_at(10), memory.position())
    assert fresh(memory)


def test_memory_of_changes_is_bounded() -> None:
    memory = Memory(1 << 20)
    for first in range(0, 100_000, 1000):
        memory.apply(others(first, 1000))
    assert len(memory._recent) <= 10_000
    large = Change(seq=1, reload=tuple(ReloadTarget(tenant="", key=f"example.com/{i}") for i in range(90)))
    memory.apply([large] * 1000)
    assert sum(len(change.reload) for _, change in memory._recent) <= 10_000


def test_unreadable_changes_at_the_start() -> None:
    """A change that cannot be read may concern any page."""
    memory = Memory(1 << 20)
    memory.flush([Change(seq=11, malformed=MalformedRowError("x"))])
    memory.hold(page_at(10), memory.position())
    assert not fresh(memory)
