"""What the store tells of a page: plain values, with the names of the table.

Times are epoch seconds, intervals are seconds, None is "none" or "never".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from theorydb_py.errors import MalformedRowError
from theorydb_py.isr.fence import Fence
from theorydb_py.isr.readers import HeaderValue
from theorydb_py.times import MAX_EPOCH

FOREVER = MAX_EPOCH
"""The end of a pin that does not end by itself."""


class State(StrEnum):
    """What freshness says of an entry."""

    MISSING = "missing"
    """There is no entry."""
    PURGED = "purged"
    """A hard purge covers it: it is never served."""
    EXPIRED = "expired"
    """Too old to be served, except while the origin fails."""
    STALE = "stale"
    """Served, while it is regenerated behind."""
    FRESH = "fresh"
    """Served as it is."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The current state of one page, or one kept generation of it."""

    s3_key: str
    """Where the body is."""
    generated_at: int
    """When rendering began."""
    revalidate_seconds: int
    """The freshness window, from generated_at."""
    etag: str = ""
    """With its quotes, or empty."""
    ttl: int | None = None
    """When DynamoDB may forget the row: garbage collection, no part of freshness."""

    foreign: bool = False
    """Another service wrote this row, with the attributes above alone; what follows is then empty."""
    v: int = 0
    """The fence: it grows with every publish, rollback and pin. A publish sets it."""
    generation_id: str = ""
    """Unique in the table; ids of one page sort by time."""
    key: str = ""
    """The cache key, for people and tools."""
    route: str = ""
    """What rendered the page, or empty."""
    status: int = 200
    """HTTP's."""
    headers: Mapping[str, tuple[HeaderValue, ...]] = field(default_factory=dict)
    """Fields worth replaying, by lower-case name; bytes are values that are no UTF-8."""
    content_sha256: str = ""
    """The hex digest of the body."""
    content_length: int = 0
    """The size of the body in bytes."""
    tags: tuple[str, ...] = ()
    """Purge tags."""
    stale_seconds: int = 0
    """How long after the freshness window the page may still be served."""
    purge_seq: int = 0
    """The purge sequence when rendering began."""
    pinned_until: int | None = None
    """Until then it does not expire by time; see FOREVER. In the past: the pin has ended."""
    asserted_at: int | None = None
    """When a rollback last made this generation current."""
    render_ms: int = 0
    """How long rendering took, in milliseconds; 0 if that is not known."""
    withdrawn: bool = False
    """The origin said that the page is gone, or not to be shared any more: the entry counts as missing."""

    @property
    def html_pointer(self) -> str:
        """s3_key, by the name that commit_generation has for it."""
        return self.s3_key

    @property
    def generated_at_ms(self) -> int:
        """generated_at in epoch milliseconds."""
        return self.generated_at * 1000


@dataclass(frozen=True, kw_only=True)
class CurrentEntry(Entry):
    """An entry, and what it was worth when it was read."""

    state: State
    """Judged by the purge of this very page, and not by those of its tags or its site."""


@dataclass(frozen=True, kw_only=True)
class Cover:
    """The newest of the purges that cover one entry; zeros if there is none."""

    seq: int = 0
    """The highest sequence of any covering purge."""
    hard_seq: int = 0
    """The highest sequence of a hard one."""
    at: int = 0
    """When the newest was made."""
    mark_lifetime: int = 0
    """How long purge marks are kept; 0 if that is not known."""

    def merge(self, other: Cover) -> Cover:
        """Return the cover that is the newer of two in each respect."""
        return Cover(
            seq=max(self.seq, other.seq),
            hard_seq=max(self.hard_seq, other.hard_seq),
            at=max(self.at, other.at),
            mark_lifetime=max(self.mark_lifetime, other.mark_lifetime),
        )


@dataclass(frozen=True, kw_only=True)
class Lock:
    """A lease row. It is a hint, as it may change at any time: only an acquisition decides."""

    owner: str = ""
    """What the holder calls itself; empty if it does not say, or the row is a back-off."""
    lease_expires_at: int = 0
    """From when on the lease is free."""
    failures: int = 0
    """How many attempts failed in a row."""

    @property
    def is_back_off(self) -> bool:
        """Whether the row is no lease but the pause that a failure left."""
        return self.owner == "" and self.failures > 0


@dataclass(frozen=True, kw_only=True)
class Record:
    """One strongly consistent read of a page."""

    entry: Entry | None = None
    """None if there is none, or none that is valid."""
    cover: Cover = Cover()
    """The purge of this very page."""
    lock: Lock | None = None
    malformed: MalformedRowError | None = None
    """Why a stored row could not be used: the entry then counts as missing."""
    fence: Fence
    """By which a write recognises that nothing was written since; the store's own."""


@dataclass(frozen=True, kw_only=True)
class Sequence:
    """The state of the purge log."""

    seq: int = 0
    """The number of the newest change, 0 if there never was one."""
    mark_lifetime: int = 0
    """How long purge marks are kept; 0 if there are none."""


@dataclass(frozen=True, kw_only=True)
class ReloadTarget:
    """A page that nodes are to read again."""

    tenant: str
    key: str


@dataclass(frozen=True, kw_only=True)
class Change:
    """What happened at a sequence. Kinds of change that this version does not know leave reload empty."""

    seq: int
    """0 if the row does not say it."""
    reload: tuple[ReloadTarget, ...] = ()
    malformed: MalformedRowError | None = None
    """Why the row cannot be read. It may be what a node has to know: everything is to be read anew."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The record of a request with an idempotency key."""

    key: str
    request_hash: str
    status: str
    """STARTED, COMPLETED or FAILED."""
    result_s3_key: str = ""
    """The body that answers a completed one, as generation_id the generation."""
    generation_id: str = ""
    in_progress_until: int = 0
    """When a started one may be taken over."""
    error: str = ""
    """Why it failed."""


@dataclass(frozen=True, kw_only=True)
class Assertion:
    """What somebody declares of a page by a rollback or a pin. Fields as in Entry."""

    asserted_at: int
    pinned_until: int | None = None
    ttl: int | None = None
    """When DynamoDB may forget META; None: never."""
    superseded_at: int | None = None
    """When it may forget the version that was current; None: with META, but after 30 days at the latest."""
