"""The part of a transaction that makes it a change of the purge log."""

from __future__ import annotations

from collections.abc import Sequence as Several

from theorydb_py.isr.entry import ReloadTarget
from theorydb_py.isr.expressions import absent, compare, put, update
from theorydb_py.isr.items import PK_LOG, SK_SEQUENCE, key, number
from theorydb_py.isr.logrow import new_log
from theorydb_py.isr.pages import SeenSequence
from theorydb_py.isr.transaction import Action, Purpose


def advance(seen: SeenSequence, change_id: str, reload: Several[ReloadTarget], now: float) -> list[Action]:
    """State that the sequence after the one that was seen is a change's, and what that is about.

    There is no condition on the log: whoever advances the sequence to it owns the row.
    """
    following = seen.sequence.seq + 1
    unchanged = absent() if seen.stored is None else compare("seq", "=", seen.stored)
    row = update(key(PK_LOG, SK_SEQUENCE), {"seq": number(following)}, unchanged)
    return [
        Action(Purpose.SEQUENCE, "Update", row),
        Action(Purpose.LOG, "Put", put(new_log(following, change_id, reload, now))),
    ]
