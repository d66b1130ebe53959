"""The fence: what a read remembers, so that a later write replaces exactly what was read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from theorydb_py.isr._expression import Condition, absent, all_of, exists, same
from theorydb_py.isr._numbers import MAX_COUNT, floor_number
from theorydb_py.isr._row import Item, child


@dataclass(frozen=True)
class Fence:
    """Attributes as they were read, malformed ones included: they need not be readable to be compared."""

    pk: str
    meta: Item | None
    """The attributes of META that is_unchanged compares; None: no row."""
    lock: Item | None
    """The attributes of LOCK that is_same_lock compares; None: no row."""

    @staticmethod
    def of(pk: str, meta: Item | None, lock: Item | None) -> Fence:
        """Return the fence of the rows of a partition."""
        picked = _pick(meta, ("s3_key", "generated_at", "current_sk", "isr"))
        version = child(picked, "isr").get("v")
        if picked is not None and version is not None:
            # Records may be held for long: keep only the version of the map.
            picked["isr"] = {"M": {"v": version}}
        return Fence(pk, picked, _pick(lock, ("lease_token", "lease_expires_at")))

    def is_unchanged(self) -> Condition:
        """Require that META still is what was read.

        ``isr.v`` grows with every write of this package. The other attributes are
        compared because services that only know the reference schema do not increment
        it: writing content changes s3_key or generated_at, swapping pointers changes
        current_sk.
        """
        if self.meta is None:
            return absent()
        version = child(self.meta, "isr").get("v")
        return all_of(
            exists(),  # attribute_not_exists would hold for every part of a deleted row
            *(same(name, self.meta.get(name)) for name in ("s3_key", "generated_at", "current_sk")),
            # Absent, or not our map: compare it as a whole.
            same("isr", self.meta.get("isr")) if version is None else same("isr.v", version),
        )

    def is_same_lock(self) -> Condition:
        """Require that LOCK still is the lease that was read.

        A refresh keeps the lease's identity, except for a lease without a token.
        """
        lock = self.lock or {}
        token = lock.get("lease_token")
        parts = [exists(), same("lease_token", token)]
        if token is None:
            parts.append(same("lease_expires_at", lock.get("lease_expires_at")))
        return all_of(*parts)

    def next_version(self, now: float) -> int:
        """Return the version to write: the fence's plus one.

        Without one, it is the time in epoch milliseconds: larger than any version that
        a row of this page had before, so that no version recurs even after the row was
        collected.
        """
        version = version_of(self.meta)
        return max(round(now * 1000), 1) if version is None else version + 1


def version_of(meta: Item | None) -> int | None:
    """Return ``isr.v`` of a META row; None if it is absent or invalid."""
    digits = child(meta, "isr").get("v", {}).get("N")
    version = floor_number(digits) if isinstance(digits, str) else None
    return version if version is not None and 0 <= version < MAX_COUNT else None


def _pick(item: Item | None, names: Iterable[str]) -> dict[str, dict[str, object]] | None:
    if item is None:
        return None
    return {name: dict(item[name]) for name in names if name in item}
