"""The PURGE row of a page, and the SEQ row of the purge log.

One that is malformed is an error, and not an absence: it stands for a purge, and
no purge may be lost.
"""

from __future__ import annotations

from theorydb_py.isr.entry import Cover, Sequence
from theorydb_py.isr.items import Item, malformed
from theorydb_py.isr.readers import (
    EXPECTED_COUNT,
    EXPECTED_INSTANT,
    count_of,
    instant_of,
    period_of,
    read,
)


def cover_of(item: Item) -> Cover:
    """Read the purge of a page. MalformedRowError: an attribute is missing or makes no sense."""
    require_number(item, "seq", EXPECTED_COUNT)
    require_number(item, "at", EXPECTED_INSTANT)
    return Cover(
        seq=read(item, "seq", count_of, 0),
        hard_seq=read(item, "hard_seq", count_of, 0),
        at=read(item, "at", instant_of, 0),
    )


def sequence_of(item: Item) -> Sequence:
    """Read the state of the log. MalformedRowError: as of cover_of."""
    require_number(item, "seq", EXPECTED_COUNT)
    return Sequence(
        seq=read(item, "seq", count_of, 0),
        mark_lifetime=read(item, "mark_lifetime", period_of, 0),
    )


def require_number(item: Item, name: str, expected: str) -> None:
    """Refuse a row without a number there. MalformedRowError."""
    if "N" not in item.get(name, {}):
        raise malformed(item, name, expected)
