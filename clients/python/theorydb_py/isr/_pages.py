"""Reads of pages, versions and the purge log."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from theorydb_py._classify import read_failure
from theorydb_py._outcome import condition_held
from theorydb_py._values import Attribute
from theorydb_py.errors import MalformedRowError, TransactionConflictError
from theorydb_py.isr._backend import Connection, query_arguments
from theorydb_py.isr._entry import Change, Entry, Lock, PurgeState, Record, Sequence
from theorydb_py.isr._expression import delete, exists
from theorydb_py.isr._fence import Fence
from theorydb_py.isr._lockrow import lock_of
from theorydb_py.isr._logrow import LAST_LOG_KEY, change_of, log_key
from theorydb_py.isr._metarow import content_of, pointed_entry, pointer_of, version_entry
from theorydb_py.isr._names import PK_LOG, SK_LOCK, SK_META, SK_PURGE, SK_SEQUENCE, VERSION_PREFIX
from theorydb_py.isr._purgerow import purge_state_of, sequence_of
from theorydb_py.isr._row import Item, key, text

_MAX_CHANGES = 200
_MAX_RECENT = 1000
_MAX_TORN = 16
"""How many of the newest log rows are read one by one, because their transactions are being committed."""
_MAX_PRUNED = 25
"""How many versions a publish deletes at most: each publish adds one, so a few suffice."""
_MAX_KEPT = 10_000


def read_page(connection: Connection, pk: str) -> Record:
    """Read LOCK, META and PURGE with one strongly consistent query, and the version that META points to, if any."""
    try:
        rows = connection.query(pk, "sk BETWEEN :first AND :last", first=SK_LOCK, last=SK_PURGE)
        return _record(connection, pk, {text(row, "sk"): row for row in rows})
    except Exception as error:
        raise read_failure(f"read {pk}", error) from error


def _record(connection: Connection, pk: str, rows: dict[str, Item]) -> Record:
    lock: Lock | None = None
    purges, entry, malformed = PurgeState(), None, None
    try:
        if SK_LOCK in rows:
            lock = lock_of(rows[SK_LOCK])
        if SK_PURGE in rows:
            # A malformed purge may cover any content of META.
            purges = purge_state_of(rows[SK_PURGE])
        if SK_META in rows:
            entry = _entry(connection, rows[SK_META])
    except MalformedRowError as error:
        malformed = error
    fence = Fence.of(pk, rows.get(SK_META), rows.get(SK_LOCK))
    return Record(entry=entry, purges=purges, lock=lock, malformed=malformed, fence=fence)


def _entry(connection: Connection, meta: Item) -> Entry:
    current = pointer_of(meta)
    if current == "":
        return content_of(meta)
    # The content of a version row never changes, so this second read is consistent with
    # the first.
    return pointed_entry(meta, connection.read_row(text(meta, "pk"), current))


def read_purge_state(connection: Connection, pk: str) -> PurgeState:
    """Read the purge of a page; one that is being committed is waited for."""
    found = connection.read_serializable(pk, [SK_PURGE]).get(SK_PURGE)
    return PurgeState() if found is None else purge_state_of(found)


class SeenSequence(NamedTuple):
    """SEQ as it was read, for the condition of a change of the log."""

    sequence: Sequence
    stored: Attribute | None
    """The stored number; None: no row."""


def read_sequence(connection: Connection) -> SeenSequence:
    """Read the SEQ row, strongly consistently.

    Raises MalformedRowError if it is unreadable. It never counts as zero: every later
    render would seem older than all purges, or newer.
    """
    found = connection.read_row(PK_LOG, SK_SEQUENCE)
    if found is None:
        return SeenSequence(Sequence(), None)
    return SeenSequence(sequence_of(found), found["seq"])


def read_changes(connection: Connection, after: int) -> list[Change]:
    """Read at most 200 log rows after a sequence, strongly consistently."""
    page = connection.repeat(
        None,
        "query",
        ConsistentRead=True,
        Limit=_MAX_CHANGES,
        **query_arguments(PK_LOG, "sk BETWEEN :first AND :last", first=log_key(after + 1), last=LAST_LOG_KEY),
    )
    return [change_of(item) for item in page["Items"]]


def read_recent(connection: Connection, up_to: int) -> list[Change]:
    """Read the newest changes up to a sequence, newest first: the last 1,000 log rows, or the last megabyte.

    A reader of SEQ and then of marks needs them: a purge that is being committed may be
    seen in SEQ, and not yet in its mark (spec/schema.md). One partition cannot write more
    within two seconds. A missing row, and all rows before it, have expired, or the row is
    being committed: reading it in a transaction decides between the two.
    """
    if up_to <= 0:
        return []
    page = connection.repeat(
        None,
        "query",
        ConsistentRead=True,
        ScanIndexForward=False,
        Limit=_MAX_RECENT,
        **query_arguments(PK_LOG, "sk BETWEEN :first AND :last", first=log_key(1), last=log_key(up_to)),
    )
    rows = {text(item, "sk"): item for item in page["Items"]}
    ended = not page.get("LastEvaluatedKey")
    oldest = min(rows, default="")
    changes: list[Change] = []
    torn = 0
    for seq in range(up_to, 0, -1):
        sk = log_key(seq)
        if not ended and sk < oldest:
            break
        item = rows.get(sk)
        if item is None:
            item = connection.read_serializable(PK_LOG, [sk]).get(sk)
            if item is None:
                break  # expired
            torn += 1
            if torn > _MAX_TORN:
                raise TransactionConflictError(
                    f"read the log up to {up_to}: more than {_MAX_TORN} rows were being committed: try again"
                )
        changes.append(change_of(item))
    return changes


def read_versions(connection: Connection, pk: str) -> list[Entry]:
    """Read the versions of a page, newest first. Rows that a rollback cannot use are skipped."""
    rows = connection.query(pk, "begins_with(sk, :first)", first=VERSION_PREFIX, ScanIndexForward=False)
    return [entry for entry in map(version_entry, rows) if entry is not None]


def prune(connection: Connection, pk: str, keep: int) -> None:
    """Delete superseded versions beyond the newest ``keep``, best effort: the rest expires by its ttl.

    The current version has no ttl and is never deleted, whatever its id. The same holds
    for a version that became current since the query.
    """
    try:
        page = connection.call(
            "query",
            ProjectionExpression="sk",
            ScanIndexForward=False,
            Limit=min(keep, _MAX_KEPT) + _MAX_PRUNED,
            **query_arguments(pk, "begins_with(sk, :first)", first=VERSION_PREFIX),
        )
        for row in page["Items"][keep:]:
            superseded = delete(key(pk, text(row, "sk")), exists("ttl"))
            condition_held(partial(connection.call, "delete_item", **superseded))
    except Exception as error:
        connection.logger.warning(
            "could not delete versions of %s beyond those to be kept; they are left to expire: %s", pk, error
        )
