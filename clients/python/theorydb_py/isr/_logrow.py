"""LOG# rows: the change at each sequence, which every node follows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence as Several
from dataclasses import replace

from theorydb_py.errors import MalformedRowError
from theorydb_py.isr._entry import Change, Mark, ReloadTarget
from theorydb_py.isr._mark import MARK_KINDS, mark_of_target
from theorydb_py.isr._names import LOG_PREFIX, PK_LOG
from theorydb_py.isr._numbers import MAX_COUNT
from theorydb_py.isr._row import Item, key, malformed, number, read, string, text, text_of

LOG_LIFE = 3600
"""How long log rows are kept at least, in seconds."""
_DIGITS = re.compile(r"[0-9]{20}")


LAST_LOG_KEY = LOG_PREFIX + "09223372036854775807"
"""The sort key of the largest possible sequence."""


def log_key(seq: int) -> str:
    """Return the sort key of a sequence: 20 digits, so that keys sort by sequence."""
    return f"{LOG_PREFIX}{seq:020d}"


CONFIRM_TARGET: Item = {"kind": string("confirm")}
"""The target that asks every process to report when it has applied the change."""


def new_log(seq: int, change_id: str, targets: Several[Item], now: float) -> Item:
    """Return the log row of a change. Its id identifies the request that won the sequence."""
    return {
        **key(PK_LOG, log_key(seq)),
        "id": string(change_id),
        "targets": {"L": [{"M": target} for target in targets]},
        "ttl": number(math.ceil(now + LOG_LIFE)),
    }


def reload_target(target: ReloadTarget) -> Item:
    """Return the target of a page that nodes must reload."""
    tenant = {"tenant": string(target.tenant)} if target.tenant else {}
    return {"kind": string("reload"), **tenant, "key": string(target.key)}


def change_of(item: Item) -> Change:
    """Decode a log row. An unreadable row becomes a malformed change, never a gap."""
    digits = text(item, "sk").removeprefix(LOG_PREFIX)
    known = _DIGITS.fullmatch(digits) is not None and int(digits) <= MAX_COUNT
    seq = int(digits) if known else 0
    try:
        if not known:
            raise malformed(item, "sk", "LOG# and 20 digits")
        return _add_targets(Change(seq=seq), item)
    except MalformedRowError as error:
        return Change(seq=seq, malformed=error)


def _add_targets(change: Change, item: Item) -> Change:
    targets = item.get("targets", {}).get("L")
    if not isinstance(targets, list):
        raise malformed(item, "targets", "a list of maps")
    reload: list[ReloadTarget] = []
    marks: list[Mark] = []
    confirm = False
    for i, target in enumerate(targets):
        members = target.get("M")
        if not isinstance(members, dict):
            raise malformed(item, "targets", "a list of maps")
        kind, page = text(members, "kind"), text(members, "key")
        if kind == "" or (kind == "reload" and page == ""):
            raise malformed(item, "targets", f"a kind and a key at [{i}]")
        if kind == "reload":
            reload.append(ReloadTarget(tenant=read(members, "tenant", text_of, ""), key=page))
        elif kind in MARK_KINDS:
            marks.append(mark_of_target(item, i, members, change.seq))
        confirm = confirm or kind == text(CONFIRM_TARGET, "kind")
    return replace(change, reload=tuple(reload), marks=tuple(marks), confirm=confirm)
