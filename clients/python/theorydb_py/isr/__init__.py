"""The metadata and the leases of cached pages (incremental static regeneration).

The rows of a page share a partition. LOCK, META and PURGE are adjacent in sort order,
so that one strongly consistent query reads all three:

    pk = CACHE#…   sk = LOCK    the lease
                   sk = META    the current entry
                   sk = PURGE   the purge of this page
                   sk = REQ#…   request records (idempotency keys)
                   sk = VER#…   versions: generations kept for rollbacks
    pk = PURGE     sk = SEQ     the purge sequence of the table
                   sk = LOG#…   the change at each sequence

The Go package dynamostore and the TypeScript client use the same rows; see
spec/schema.md for each attribute.
"""

from theorydb_py.isr._canonicalkey import canonical_key
from theorydb_py.isr._entry import (
    FOREVER,
    Assertion,
    Change,
    CurrentEntry,
    Entry,
    Lock,
    Mark,
    PurgeState,
    Receipt,
    Record,
    ReloadTarget,
    RequestRecord,
    Sequence,
    State,
)
from theorydb_py.isr._fence import Fence
from theorydb_py.isr._freshness import age, fresh_until, freshness, serves_failures, stale_until
from theorydb_py.isr._inputs import Json, canonical_json, hash_inputs
from theorydb_py.isr._keys import body_prefix, hashed_partition, raw_partition
from theorydb_py.isr._lease import IsrLease
from theorydb_py.isr._partition import PartitionScheme
from theorydb_py.isr._purgetarget import MAX_PURGE_TARGETS, PurgeKind, PurgeTarget, host_target
from theorydb_py.isr._row import HeaderValue
from theorydb_py.isr._store import FaceTheoryIsrMetaStore

__all__ = [
    "FOREVER",
    "MAX_PURGE_TARGETS",
    "Assertion",
    "Change",
    "CurrentEntry",
    "Entry",
    "FaceTheoryIsrMetaStore",
    "Fence",
    "HeaderValue",
    "IsrLease",
    "Json",
    "Lock",
    "Mark",
    "PartitionScheme",
    "PurgeKind",
    "PurgeState",
    "PurgeTarget",
    "Receipt",
    "Record",
    "ReloadTarget",
    "RequestRecord",
    "Sequence",
    "State",
    "age",
    "body_prefix",
    "canonical_json",
    "canonical_key",
    "fresh_until",
    "freshness",
    "hash_inputs",
    "hashed_partition",
    "host_target",
    "raw_partition",
    "serves_failures",
    "stale_until",
]
