"""The actions that append an entry to the purge log."""

from __future__ import annotations

from collections.abc import Sequence as Several

from theorydb_py.isr._expression import absent, compare, put, update
from theorydb_py.isr._logrow import new_log
from theorydb_py.isr._names import PK_LOG, SK_SEQUENCE
from theorydb_py.isr._pages import SeenSequence
from theorydb_py.isr._row import Item, key, number
from theorydb_py.isr._transaction import Action, Purpose


def advance(
    seen: SeenSequence, change_id: str, targets: Several[Item], now: float, *, mark_lifetime: int = 0
) -> list[Action]:
    """Return the actions that advance SEQ by one and write the log row of that sequence.

    mark_lifetime is how long purge marks are kept at least from now on.

    The log row needs no condition: the transaction that advances SEQ owns it.
    """
    following = seen.sequence.seq + 1
    unchanged = absent() if seen.stored is None else compare("seq", "=", seen.stored)
    changes = {"seq": number(following)}
    if mark_lifetime > seen.sequence.mark_lifetime:
        changes["mark_lifetime"] = number(mark_lifetime)
    row = update(key(PK_LOG, SK_SEQUENCE), changes, unchanged)
    return [
        Action(Purpose.SEQUENCE, "Update", row),
        Action(Purpose.LOG, "Put", put(new_log(following, change_id, targets, now))),
    ]
