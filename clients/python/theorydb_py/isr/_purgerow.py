"""The PURGE row of a page, and the SEQ row of the purge log.

A malformed row is an error and never counts as absent: it stands for a purge, and no
purge may be lost.
"""

from __future__ import annotations

from theorydb_py.isr._entry import PurgeState, Sequence
from theorydb_py.isr._row import (
    EXPECTED_COUNT,
    EXPECTED_INSTANT,
    Item,
    count_of,
    instant_of,
    malformed,
    period_of,
    read,
)


def purge_state_of(item: Item) -> PurgeState:
    """Decode the purge of a page. Raises MalformedRowError if an attribute is missing or invalid."""
    require_number(item, "seq", EXPECTED_COUNT)
    require_number(item, "at", EXPECTED_INSTANT)
    return PurgeState(
        seq=read(item, "seq", count_of, 0),
        hard_seq=read(item, "hard_seq", count_of, 0),
        at=read(item, "at", instant_of, 0),
    )


def sequence_of(item: Item) -> Sequence:
    """Decode the state of the log. Raises MalformedRowError as purge_state_of does."""
    require_number(item, "seq", EXPECTED_COUNT)
    return Sequence(
        seq=read(item, "seq", count_of, 0),
        mark_lifetime=read(item, "mark_lifetime", period_of, 0),
    )


def require_number(item: Item, name: str, expected: str) -> None:
    """Raise MalformedRowError unless the attribute is a number."""
    if "N" not in item.get(name, {}):
        raise malformed(item, name, expected)
