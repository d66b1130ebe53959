"""Purges of pages: one transaction for all targets, whatever the number of pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from theorydb_py._values import Attribute
from theorydb_py.isr._entry import ReloadTarget
from theorydb_py.isr._expression import update
from theorydb_py.isr._logrow import reload_target
from theorydb_py.isr._mark import mark_key, stored_value
from theorydb_py.isr._names import PK_LOG, SK_PURGE
from theorydb_py.isr._purgetarget import KEY, ResolvedTarget
from theorydb_py.isr._row import Item, key, number, string
from theorydb_py.isr._transaction import Action, Purpose, Refusal


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What all purges of a transaction share."""

    seq: int
    """The sequence of the transaction."""
    at: int
    """In epoch seconds, rounded down."""
    mark_lifetime: int
    """In seconds."""


@dataclass(frozen=True)
class RowPurge:
    """The purge of one row: of a mark, or of PURGE in the partition of a page.

    Its update needs neither a condition nor a read: every writer of these rows advances
    SEQ, and an update leaves what the purges of other kinds have set.
    """

    pk: str
    sk: str
    hard: bool
    targets: tuple[ResolvedTarget, ...]
    """The targets of the log: cache keys may share a partition, and so a row."""

    @classmethod
    def of(cls, target: ResolvedTarget, *, hard: bool) -> RowPurge:
        """Return the purge of a target."""
        if target.kind == KEY:
            return cls(target.pk, SK_PURGE, hard, (target,))
        return cls(PK_LOG, mark_key(target.kind, target.tenant, target.value), hard, (target,))

    @property
    def row(self) -> tuple[str, str]:
        """The key of the row."""
        return self.pk, self.sk

    def merged(self, other: RowPurge) -> RowPurge:
        """Return both purges of the same row in one."""
        more = tuple(target for target in other.targets if target not in self.targets)
        return replace(self, hard=self.hard or other.hard, targets=self.targets + more)

    def action(self, moment: Moment) -> Action:
        """Return the update of the row."""
        ttl = number(moment.at + moment.mark_lifetime + 1)
        changes = {**self._members(moment), "seq": number(moment.seq), "ttl": ttl}
        return Action(Purpose.PURGE, "Update", update(key(self.pk, self.sk), changes))

    def log_targets(self, moment: Moment) -> list[Item]:
        """Return its targets of the log: a page, which is read again with its PURGE row, or the mark itself."""
        return [self._log_target(target, moment) for target in self.targets]

    def _log_target(self, target: ResolvedTarget, moment: Moment) -> Item:
        if target.kind == KEY:
            return reload_target(ReloadTarget(tenant=target.tenant, key=target.value))
        tenant = {"tenant": string(target.tenant)} if target.tenant else {}
        return {"kind": string(target.kind), **tenant, **self._members(moment)}

    def _members(self, moment: Moment) -> dict[str, Attribute]:
        target = self.targets[0]
        value = stored_value(target.kind, target.tenant, target.value)
        return {
            **({} if target.kind == KEY else {"value": string(value)}),
            "at": number(moment.at),
            **({"hard_seq": number(moment.seq)} if self.hard else {}),
        }


def merge_rows(purges: Iterable[RowPurge]) -> list[RowPurge]:
    """Merge the purges of the same row."""
    rows: dict[tuple[str, str], RowPurge] = {}
    for purge in purges:
        known = rows.get(purge.row)
        rows[purge.row] = purge if known is None else known.merged(purge)
    return list(rows.values())


class Purge:
    """A purge; implements logcommit.LogChange."""

    pk = None
    reload: tuple[ReloadTarget, ...] = ()

    def __init__(self, targets: Sequence[ResolvedTarget], *, hard: bool, confirm: bool, mark_lifetime: int) -> None:
        self._first, self._count = targets[0], len(targets)
        self.purges = tuple(merge_rows(RowPurge.of(target, hard=hard) for target in targets))
        self.confirm = confirm
        self.mark_lifetime = mark_lifetime

    def name(self) -> str:
        """Describe the purge for people."""
        first = f"{self._first.kind} {self._first.value or self._first.tenant}".strip()
        return f"purge {first:.100}" + (f" and {self._count - 1} more" if self._count > 1 else "")

    def actions(self, _seq: int) -> list[Action]:
        """Return none: the rows that it purges have no conditions."""
        return []

    def classify(self, why: Refusal) -> Exception | None:  # noqa: ARG002 - see actions
        """Return None: it is never refused."""
        return None


def moment_of(seq: int, now: float, mark_lifetime: int) -> Moment:
    """Return the moment of a transaction."""
    return Moment(seq=seq, at=math.floor(now), mark_lifetime=mark_lifetime)
