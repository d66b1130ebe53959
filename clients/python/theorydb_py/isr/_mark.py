"""Purge marks: the newest purge of a tag, a prefix, a tenant or a site, which covers all pages that it selects.

They are in the partition of the purge log:

    pk = PURGE   sk = MARK#<tenant>#<kind>#<hex sha256 of value>
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from functools import reduce

from theorydb_py._batch import Batches
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._entry import Mark, PurgeState, ReloadTarget
from theorydb_py.isr._names import MARK_PREFIX, PK_LOG
from theorydb_py.isr._purgerow import require_number
from theorydb_py.isr._purgetarget import PREFIX, SITE, TAG, TENANT, covers
from theorydb_py.isr._row import (
    EXPECTED_COUNT,
    EXPECTED_INSTANT,
    EXPECTED_TEXT,
    Item,
    count_of,
    horizon_of,
    instant_of,
    key,
    malformed,
    read,
    text,
)

MARK_KINDS = (TAG, PREFIX, TENANT, SITE)
_SITE_VALUE = "*"
"""The value of a site's mark, which must not be empty."""
_LAST = "\U0010ffff"
"""Sorts after everything that has the prefix."""
_PARTS = 4
"""Of a sort key: MARK, the tenant, the kind and the digest."""


def stored_value(kind: str, tenant: str, value: str) -> str:
    """Return the value of a mark's row and of its log target; for a tenant it is the tenant's name."""
    if value == "" and kind == TENANT:
        return tenant
    return _SITE_VALUE if value == "" and kind == SITE else value


def mark_key(kind: str, tenant: str, value: str) -> str:
    """Return the sort key of a mark."""
    stored = stored_value(kind, tenant, value).encode("utf-8", "surrogateescape")
    return _prefix(tenant, kind) + hashlib.sha256(stored).hexdigest()


def _prefix(*parts: str) -> str:
    """Return the prefix of the sort keys of a tenant's marks, or of its marks of one kind."""
    return MARK_PREFIX + "#".join((*parts, ""))


def read_marks(connection: Connection) -> list[Mark]:
    """Read all marks of the table, strongly consistently.

    Raises MalformedRowError if one is unreadable: it stands for a purge of unknown pages.
    """
    rows = connection.query(PK_LOG, "begins_with(sk, :first)", first=MARK_PREFIX)
    return [mark_of_row(row) for row in rows]


def covering(connection: Connection, page: ReloadTarget, tags: Collection[str]) -> PurgeState:
    """Return the combined marks that cover a page with these tags, read strongly consistently.

    Marks of tags are read by key, as a tenant may have any number of them; marks of
    other kinds are few, and are all read. The order of the reads matters: marks that a
    later mark of a larger kind includes are deleted, and so must be read before that
    one. Raises MalformedRowError if a mark is unreadable.
    """
    own, of_tags, of_site = _prefix(page.tenant), _prefix(page.tenant, TAG), _prefix("", SITE)
    ranges = [(own, of_tags), (of_tags + _LAST, own + _LAST)]
    if page.tenant:
        ranges.append((of_site, of_site + _LAST))
    rows = _tag_marks(connection, page.tenant, tags)
    for first, last in ranges:
        rows += connection.query(PK_LOG, "sk BETWEEN :first AND :last", first=first, last=last)
    return combined(connection, [mark_of_row(row) for row in rows], page, tags)


def combined(connection: Connection, marks: Iterable[Mark], page: ReloadTarget, tags: Collection[str]) -> PurgeState:
    """Return the combined state of those marks that cover a page with these tags."""
    now = connection.second()
    states = [_state(mark, now) for mark in marks if covers(mark.kind, mark.tenant, mark.value, page, tags)]
    return reduce(PurgeState.merge, states, PurgeState())


def _tag_marks(connection: Connection, tenant: str, tags: Iterable[str]) -> list[Item]:
    keys = [key(PK_LOG, mark_key(TAG, tenant, tag)) for tag in sorted(set(tags))]
    batches = Batches(connection.client, connection.table, connection.retry)
    return [item for _, items in batches.read(keys, consistent=True) for item in items]


def _state(mark: Mark, now: int) -> PurgeState:
    """Return the purge state of the entries that a mark covers. expire_seq counts as hard from expire_at on."""
    hard_seq = max(mark.hard_seq, mark.expire_seq if mark.expire_at <= now else 0)
    return PurgeState(seq=mark.seq, hard_seq=hard_seq, at=mark.at)


def mark_of_row(row: Item) -> Mark:
    """Decode the row of a mark. Raises MalformedRowError."""
    parts = text(row, "sk").split("#")
    if len(parts) != _PARTS or not parts[2]:
        raise malformed(row, "sk", "MARK#<tenant>#<kind>#<sha256>")
    require_number(row, "seq", EXPECTED_COUNT)
    return _mark(row, kind=parts[2], tenant=parts[1], seq=read(row, "seq", count_of, 0))


def mark_of_target(row: Item, index: int, target: Item, seq: int) -> Mark:
    """Decode the mark in a target of a log row. Its sequence is the row's. Raises MalformedRowError."""
    if text(target, "value") == "" or "N" not in target.get("at", {}):
        raise malformed(row, "targets", f"a value and a time at [{index}]")
    located = {**target, "pk": row["pk"], "sk": row["sk"]}
    return _mark(located, kind=text(target, "kind"), tenant=text(target, "tenant"), seq=seq)


def _mark(item: Item, *, kind: str, tenant: str, seq: int) -> Mark:
    value = text(item, "value")
    if value == "":
        raise malformed(item, "value", EXPECTED_TEXT)
    require_number(item, "at", EXPECTED_INSTANT)
    expire_seq = read(item, "expire_seq", count_of, 0)
    expire_at = read(item, "expire_at", horizon_of, None) or 0
    return Mark(
        kind=kind,
        tenant=tenant,
        # The value of another writer's mark of a tenant or a site stays: it is part of its key.
        value="" if stored_value(kind, tenant, "") == value else value,
        seq=seq,
        hard_seq=read(item, "hard_seq", count_of, 0),
        at=read(item, "at", instant_of, 0),
        expire_seq=expire_seq,
        expire_at=expire_at if expire_seq > 0 else 0,
    )
