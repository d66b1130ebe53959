"""The values that the store returns and accepts, with the attribute names of the table.

Times are epoch seconds, intervals are seconds, None means absent or never.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from theorydb_py._times import MAX_EPOCH
from theorydb_py.errors import MalformedRowError
from theorydb_py.isr._fence import Fence
from theorydb_py.isr._row import HeaderValue

FOREVER = MAX_EPOCH
"""pinned_until of a pin without an end."""


class State(StrEnum):
    """The result of freshness."""

    MISSING = "missing"
    """There is no entry."""
    PURGED = "purged"
    """A hard purge covers the entry: never serve it."""
    EXPIRED = "expired"
    """Too old to serve, except while the origin fails."""
    STALE = "stale"
    """Serve it while it is regenerated in the background."""
    FRESH = "fresh"
    """Serve it."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The current state of a page, or one of its versions."""

    s3_key: str
    """The location of the stored body."""
    generated_at: int
    """When rendering began."""
    revalidate_seconds: int
    """The freshness window, from generated_at."""
    etag: str = ""
    """With its quotes, or empty."""
    ttl: int | None = None
    """When DynamoDB may expire the row: garbage collection only, freshness ignores it."""

    foreign: bool = False
    """Another service wrote this row: only the attributes above are set."""
    v: int = 0
    """The fence. Each publish, rollback and pin increments it; publish sets it."""
    generation_id: str = ""
    """Unique in the table. Ids of one page sort by time."""
    key: str = ""
    """The cache key, for people and tools."""
    route: str = ""
    """The route that rendered the page, or empty."""
    status: int = 200
    """The HTTP status."""
    headers: Mapping[str, tuple[HeaderValue, ...]] = field(default_factory=dict)
    """The stored response headers by lower-case name; bytes are values that are not UTF-8."""
    content_sha256: str = ""
    """The hex digest of the body."""
    content_length: int = 0
    """The size of the body in bytes."""
    tags: tuple[str, ...] = ()
    """Purge tags."""
    stale_seconds: int = 0
    """The stale window, after the freshness window."""
    generated_ms: int = 0
    """When rendering began, in epoch milliseconds of the second generated_at; 0 if that is exact, or unknown."""
    purge_seq: int = 0
    """The purge sequence when rendering began."""
    build: int = 0
    """The sequence of the site's build that rendered the page, as the store's build returns it; 0 if unknown."""
    pinned_until: int | None = None
    """The entry does not expire by time before then; see FOREVER. In the past: the pin has ended."""
    asserted_at: int | None = None
    """When a rollback last made this generation current."""
    render_ms: int = 0
    """How long rendering took, in milliseconds; 0 if unknown."""
    age_seconds: int = 0
    """The age that the response already had at generated_at: the origin's Age."""
    withdrawn: bool = False
    """The origin answered that the page is gone or private: the entry counts as missing."""

    @property
    def html_pointer(self) -> str:
        """s3_key, by the name that commit_generation uses."""
        return self.s3_key

    @property
    def generated_at_ms(self) -> int:
        """When rendering began, in epoch milliseconds."""
        return self.generated_ms or self.generated_at * 1000


@dataclass(frozen=True, kw_only=True)
class CurrentEntry(Entry):
    """An entry and its freshness when it was read."""

    state: State
    """Considers the purge of this page, but not purges of its tags or its site."""


@dataclass(frozen=True, kw_only=True)
class PurgeState:
    """The combined purges that cover an entry; all zero if there are none."""

    seq: int = 0
    """The highest sequence of any covering purge."""
    hard_seq: int = 0
    """The highest sequence of a covering hard purge."""
    at: int = 0
    """When the newest purge was made."""
    mark_lifetime: int = 0
    """How long purge marks are kept; 0 if unknown."""
    build: int = 0
    """The sequence of the reader's build of the site; 0 if unknown. Entries of older builds are stale."""

    def merge(self, other: PurgeState) -> PurgeState:
        """Return the maximum of both states in each field."""
        return PurgeState(
            seq=max(self.seq, other.seq),
            hard_seq=max(self.hard_seq, other.hard_seq),
            at=max(self.at, other.at),
            mark_lifetime=max(self.mark_lifetime, other.mark_lifetime),
            build=max(self.build, other.build),
        )


@dataclass(frozen=True, kw_only=True)
class Lock:
    """A LOCK row. It is a hint, as it may change at any time: only an acquisition decides."""

    owner: str = ""
    """The holder's name; empty if it gave none, or for a backoff."""
    lease_expires_at: int = 0
    """When the lease becomes free."""
    failures: int = 0
    """How many attempts failed in a row."""

    @property
    def is_back_off(self) -> bool:
        """Whether the row is a backoff after a failure, not a lease."""
        return self.owner == "" and self.failures > 0


@dataclass(frozen=True, kw_only=True)
class Record:
    """One strongly consistent read of a page."""

    entry: Entry | None = None
    """None if there is no valid entry."""
    purges: PurgeState = PurgeState()
    """The purge of this page."""
    lock: Lock | None = None
    malformed: MalformedRowError | None = None
    """Why a stored row could not be used: the entry then counts as missing."""
    fence: Fence
    """Lets a write detect any write since this read. Internal to the store."""


@dataclass(frozen=True, kw_only=True)
class Sequence:
    """The state of the purge log."""

    seq: int = 0
    """The sequence of the newest change, 0 before the first one."""
    mark_lifetime: int = 0
    """How long purge marks are kept; 0 if there are none."""


@dataclass(frozen=True, kw_only=True)
class ReloadTarget:
    """A page that every node must reload."""

    tenant: str
    key: str


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The newest purge of a tag, a prefix, a tenant or the whole site."""

    kind: str
    """tag, prefix, tenant, site, or a kind that this version does not know."""
    tenant: str = ""
    """The tenant of the pages; empty: none, or all for a site."""
    value: str = ""
    """The tag or the prefix; empty for a tenant and a site."""
    seq: int
    """The sequence of the newest purge."""
    hard_seq: int = 0
    """The sequence of the newest hard purge."""
    at: int
    """When the newest purge was made."""
    expire_seq: int = 0
    """A sequence that counts as a hard purge from expire_at on."""
    expire_at: int = 0


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The proof of a committed purge."""

    seq: int
    """Its sequence. A generation with at least this purge_seq was rendered after it."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """The change at one sequence. Targets of kinds that this version does not know are omitted."""

    seq: int
    """0 if the row does not contain it."""
    reload: tuple[ReloadTarget, ...] = ()
    marks: tuple[Mark, ...] = ()
    """The purge marks that were written, to merge into known ones by the maximum of each sequence."""
    confirm: bool = False
    """Every process is asked to report when it has applied the change."""
    malformed: MalformedRowError | None = None
    """Why the row is unreadable. It may concern any page: flush everything that is held in memory."""


@dataclass(frozen=True, kw_only=True)
class RequestRecord:
    """A request record: the state of an idempotency key."""

    key: str
    request_hash: str
    status: str
    """STARTED, COMPLETED or FAILED."""
    result_s3_key: str = ""
    """The stored body of a completed request; generation_id names its generation."""
    generation_id: str = ""
    in_progress_until: int = 0
    """When a started request may be taken over."""
    error: str = ""
    """The error of a failed request."""


@dataclass(frozen=True, kw_only=True)
class Assertion:
    """How a rollback or a pin sets the entry's timestamps. Entry documents the fields."""

    asserted_at: int
    pinned_until: int | None = None
    ttl: int | None = None
    """When DynamoDB may expire META; None: never."""
    superseded_at: int | None = None
    """When the superseded version may expire; None: with META, after 30 days at the latest."""
