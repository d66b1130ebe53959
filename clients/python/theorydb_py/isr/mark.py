"""Marks: purges of all pages that a tag, a prefix, a tenant or a site covers, in the partition of the purge log.

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
"""Sorts behind everything that follows a prefix."""


def hard_mark(connection: Connection, page: ReloadTarget, tags: Sequence[str]) -> int:
    """Return the sequence of the newest hard purge by a mark that covers a page with these tags; 0: there is none.

    All reads are strong. The marks of tags are read by their keys, since a tenant
    may have any number of them; those of other kinds are few, and are read whole.
    MalformedRowError: a mark cannot be read. It stands for a purge that cannot be
    known.
    """
    own, of_tags, of_site = _prefix(page.tenant), _prefix(page.tenant, _TAG), _prefix("", _SITE)
    ranges = [(own, of_tags), (of_tags + _LAST, own + _LAST)]
    if page.tenant:
        ranges.append((of_site, of_site + _LAST))
    marks = _tag_marks(connection, page.tenant, tags)
    for first, last in ranges:
        marks += connection.query(PK_LOG, "sk BETWEEN :first AND :last", first=first, last=last)
    now = connection.second()
    judged = [(_hard_seq(mark, now), _covers(mark, page, tags)) for mark in marks]
    return max((hard_seq for hard_seq, covers in judged if covers), default=0)


def _prefix(*parts: str) -> str:
    """Return what the sort keys of a tenant's marks begin with, or those of one kind."""
    return "#".join(("MARK", *parts, ""))


def _tag_marks(connection: Connection, tenant: str, tags: Iterable[str]) -> list[Item]:
    keys = [key(PK_LOG, _prefix(tenant, _TAG) + _digest(tag)) for tag in sorted(set(tags))]
    return list(Batches(connection.client, connection.table, connection.retry).read(keys, consistent=True))


def _digest(tag: str) -> str:
    return hashlib.sha256(tag.encode("utf-8", "surrogateescape")).hexdigest()


def _covers(mark: Item, page: ReloadTarget, tags: Sequence[str]) -> bool:
    """Say whether a mark is about a page. It is one of the page's tenant, or of a site.

    Kinds that this version does not know cover everything: a purge that cannot be
    judged is not to be undone.
    """
    kind = text(mark, "sk").split("#")[2]
    if kind == _TAG:
        return text(mark, "value") in tags
    return kind != _PREFIX or page.key.startswith(text(mark, "value"))


def _hard_seq(mark: Item, now: int) -> int:
    """Return the sequence of a mark's newest hard purge: an expire_seq counts once its time has come.

    MalformedRowError: the mark cannot be read, whatever it covers.
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
