"""The metadata of cached pages (incremental static regeneration), and the leases to regenerate them.

The rows of one page share a partition; the first three are neighbours in sort
order, so that one strongly consistent query reads them:

    pk = CACHE#…   sk = LOCK    who regenerates
                   sk = META    what is current
                   sk = PURGE   the purge of this very page
                   sk = REQ#…   a request with an idempotency key
                   sk = VER#…   generations that are kept
    pk = PURGE     sk = SEQ     the purge sequence of the whole table
                   sk = LOG#…   what happened at a sequence

They are those of the Go package dynamostore and of the TypeScript client;
spec/schema.md says what each attribute is.
"""

from theorydb_py.isr.canonical import canonical_key
from theorydb_py.isr.entry import (
    FOREVER,
    Assertion,
    Change,
    Cover,
    CurrentEntry,
    Entry,
    Lock,
    Record,
    ReloadTarget,
    Request,
    Sequence,
    State,
)
from theorydb_py.isr.freshness import age, fresh_until, freshness, serves_failures, stale_until
from theorydb_py.isr.inputs import canonical_json, hash_inputs
from theorydb_py.isr.keys import body_prefix, hashed_partition, raw_partition
from theorydb_py.isr.lease import IsrLease
from theorydb_py.isr.store import FaceTheoryIsrMetaStore

__all__ = [
    "FOREVER",
    "Assertion",
    "Change",
    "Cover",
    "CurrentEntry",
    "Entry",
    "FaceTheoryIsrMetaStore",
    "IsrLease",
    "Lock",
    "Record",
    "ReloadTarget",
    "Request",
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
    "raw_partition",
    "serves_failures",
    "stale_until",
]
