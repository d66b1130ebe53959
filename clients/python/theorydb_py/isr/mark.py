"""Purge marks: purges of all pages of a tag, a prefix, a tenant or a site.

They are in the partition of the purge log:

    pk = PURGE   sk = MARK#<tenant>#<kind>#<hex sha256 of value>
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from theorydb_py.batch import Batches
from theorydb_py.isr.connection import Connection
from theorydb_py.isr.entry import ReloadTarget
from theorydb_py.isr.items import PK_LOG, Item, key, malformed, text
from theorydb_py.isr.purgerow import require_number
from theorydb_py.isr.readers import (
    EXPECTED_COUNT,
    EXPECTED_INSTANT,
    EXPECTED_TEXT,
    count_of,
    horizon_of,
    instant_of,
    read,
)

_TAG, _PREFIX, _SITE = "tag", "prefix", "site"
_LAST = "\U0010ffff"
"""Sorts after everything that has the prefix."""


def hard_mark_seq(connection: Connection, page: ReloadTarget, tags: Sequence[str]) -> int:
    """Return the highest sequence of a hard purge whose mark covers a page with these tags; 0: none.

    All reads are strongly consistent. Marks of tags are read by key, as a tenant may
    have any number of them; marks of other kinds are few, and are all read. Raises
    MalformedRowError if a mark is unreadable: it may be a purge that covers the page.
    """
    own, of_tags, of_site = _prefix(page.tenant), _prefix(page.tenant, _TAG), _prefix("", _SITE)
    ranges = [(own, of_tags), (of_tags + _LAST, own + _LAST)]
    if page.tenant:
        ranges.append((of_site, of_site + _LAST))
    marks = _tag_marks(connection, page.tenant, tags)
    for first, last in ranges:
        marks += connection.query(PK_LOG, "sk BETWEEN :first AND :last", first=first, last=last)
    now = connection.second()
    evaluated = [(_hard_seq(mark, now), _covers(mark, page, tags)) for mark in marks]
    return max((hard_seq for hard_seq, covers in evaluated if covers), default=0)


def _prefix(*parts: str) -> str:
    """Return the prefix of the sort keys of a tenant's marks, or of those of one kind."""
    return "#".join(("MARK", *parts, ""))


def _tag_marks(connection: Connection, tenant: str, tags: Iterable[str]) -> list[Item]:
    keys = [key(PK_LOG, _prefix(tenant, _TAG) + _digest(tag)) for tag in sorted(set(tags))]
    return list(Batches(connection.client, connection.table, connection.retry).read(keys, consistent=True))


def _digest(tag: str) -> str:
    return hashlib.sha256(tag.encode("utf-8", "surrogateescape")).hexdigest()


def _covers(mark: Item, page: ReloadTarget, tags: Sequence[str]) -> bool:
    """Return whether a mark of the page's tenant, or of a site, covers a page.

    Unknown kinds cover every page: a purge that cannot be evaluated must not be undone.
    """
    kind = text(mark, "sk").split("#")[2]
    if kind == _TAG:
        return text(mark, "value") in tags
    return kind != _PREFIX or page.key.startswith(text(mark, "value"))


def _hard_seq(mark: Item, now: int) -> int:
    """Return the sequence of the mark's newest hard purge. An expire_seq counts from expire_at on.

    Raises MalformedRowError if the mark is unreadable, whatever it covers.
    """
    if text(mark, "value") == "":
        raise malformed(mark, "value", EXPECTED_TEXT)
    require_number(mark, "seq", EXPECTED_COUNT)
    require_number(mark, "at", EXPECTED_INSTANT)
    read(mark, "seq", count_of, 0)
    read(mark, "at", instant_of, 0)
    hard_seq = read(mark, "hard_seq", count_of, 0)
    expire_seq = read(mark, "expire_seq", count_of, 0)
    expire_at = read(mark, "expire_at", horizon_of, None)
    return max(hard_seq, expire_seq) if (expire_at or 0) <= now else hard_seq
