"""How a store derives the partition keys of its pages."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, get_args

from theorydb_py.errors import InvalidInputError
from theorydb_py.isr._keys import hashed_partition, raw_partition
from theorydb_py.isr._normalize import check_text

PartitionScheme = Literal["hashed", "raw"]
"""A way in which cache keys become partition keys: hashed_partition or raw_partition."""

_VARIABLE = "FACETHEORY_CACHE_PARTITION"


def partition_of(
    tenant: str,
    scheme: PartitionScheme | None,
    pk_from_cache_key: Callable[[str], str] | None,
    pk_prefix: str | None,
) -> Callable[[str], str]:
    """Return the function from a cache key to a partition key. Raises InvalidInputError for more than one choice."""
    choices = {"partition": scheme, "pk_from_cache_key": pk_from_cache_key, "pk_prefix": pk_prefix}
    chosen = [name for name, value in choices.items() if value is not None]
    if len(chosen) > 1:
        raise InvalidInputError(f"{' and '.join(chosen)} exclude each other: pass one of them")
    if pk_from_cache_key is not None:
        return pk_from_cache_key
    if pk_prefix is not None:
        prefix = check_text("pk_prefix", pk_prefix)
        if tenant:
            raise InvalidInputError(
                f"pk_prefix {prefix!r:.60} excludes tenant: all tenants would share their pages; "
                "pass partition='raw', or a pk_from_cache_key that has the tenant"
            )
        return lambda cache_key: prefix + cache_key
    derive = raw_partition if _scheme(scheme) == "raw" else hashed_partition
    return lambda cache_key: derive(cache_key, tenant)


def _scheme(given: PartitionScheme | None) -> str:
    scheme = (os.environ.get(_VARIABLE) or "hashed") if given is None else given
    if scheme not in get_args(PartitionScheme):
        name = _VARIABLE if given is None else "partition"
        raise InvalidInputError(f"{name} is {scheme!r:.60}: expected hashed or raw")
    return scheme
