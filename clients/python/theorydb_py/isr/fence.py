"""The fence: what a read keeps of rows, so that a write replaces exactly these and no others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from theorydb_py.isr.amounts import MAX_COUNT, floor_number
from theorydb_py.isr.expressions import Condition, absent, all_of, exists, same
from theorydb_py.isr.items import Item, child


@dataclass(frozen=True)
class Fence:
    """The attributes as they were found, malformed ones too: what cannot be read can still be recognised."""

    pk: str
    meta: Item | None
    """Of META, what is_unchanged compares; None: there was no row."""
    lock: Item | None
    """Of LOCK, what is_same_lock compares; None: there was no row."""

    @staticmethod
    def of(pk: str, meta: Item | None, lock: Item | None) -> Fence:
        """Return the fence of the rows of a partition."""
        picked = _pick(meta, ("s3_key", "generated_at", "current_sk", "isr"))
        version = child(picked, "isr").get("v")
        if picked is not None and version is not None:
            # Records may be kept for long: the map is reduced to its version.
            picked["isr"] = {"M": {"v": version}}
        return Fence(pk, picked, _pick(lock, ("lease_token", "lease_expires_at")))

    def is_unchanged(self) -> Condition:
        """Demand a META row that is still what the fence was made of.

        ``isr.v`` grows with every write of ours. The other attributes are compared
        because services that know the reference schema alone do not raise it: one
        that writes content changes s3_key or generated_at, one that swaps pointers
        changes current_sk.
        """
        if self.meta is None:
            return absent()
        version = child(self.meta, "isr").get("v")
        return all_of(
            exists(),  # if the row were deleted, attribute_not_exists would hold of every part
            *(same(name, self.meta.get(name)) for name in ("s3_key", "generated_at", "current_sk")),
            # None, or something that is none of ours: compared as a whole.
            same("isr", self.meta.get("isr")) if version is None else same("isr.v", version),
        )

    def is_same_lock(self) -> Condition:
        """Demand a LOCK row that is still the lease which the fence was made of.

        Refreshing does not make it another one, except where there is no token to
        tell it by.
        """
        lock = self.lock or {}
        token = lock.get("lease_token")
        parts = [exists(), same("lease_token", token)]
        if token is None:
            parts.append(same("lease_expires_at", lock.get("lease_expires_at")))
        return all_of(*parts)

    def next_version(self, now: float) -> int:
        """Return the version to publish: one more than the fence's.

        Where it has none, the epoch milliseconds, which no row of this page can
        have had before, so that no value ever returns, even after the row was
        collected.
        """
        version = version_of(self.meta)
        return max(round(now * 1000), 1) if version is None else version + 1


def version_of(meta: Item | None) -> int | None:
    """Return ``isr.v`` of a META row; None where it has none, or something that is none."""
    digits = child(meta, "isr").get("v", {}).get("N")
    version = floor_number(digits) if isinstance(digits, str) else None
    return version if version is not None and 0 <= version < MAX_COUNT else None


def _pick(item: Item | None, names: Iterable[str]) -> dict[str, dict[str, object]] | None:
    if item is None:
        return None
    return {name: dict(item[name]) for name in names if name in item}
