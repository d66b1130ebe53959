"""Requests with an idempotency key: their records, and their ends."""

from __future__ import annotations

from collections.abc import Mapping

from theorydb_py.isr.connection import Connection
from theorydb_py.isr.entry import Request
from theorydb_py.isr.expressions import update
from theorydb_py.isr.items import REQUEST_PREFIX, Item, key
from theorydb_py.isr.lease import IsrLease
from theorydb_py.isr.requestrow import request_of
from theorydb_py.outcome import condition_held
from theorydb_py.values import Attribute


def find_request(connection: Connection, pk: str, request_key: str) -> tuple[Item | None, Request | None]:
    """Read the record of a request, strongly: as it is stored, and what it says.

    There is none to speak of if its time is over. MalformedRowError: it cannot be read.
    """
    found = connection.read_row(pk, REQUEST_PREFIX + request_key)
    if found is None:
        return None, None
    return found, request_of(found, request_key, connection.second())


def end_request(
    connection: Connection, lease: IsrLease, end: Mapping[str, Attribute | None], deadline: float | None = None
) -> None:
    """Write the end of a lease's request, if it has one; deadline is as in Connection.repeat.

    If the attempt is not ours, or was finished, that is so because another took it
    over, or because an earlier call of ours was carried out. Errors are boto3's.
    """
    attempt = lease.attempt
    if attempt is None:
        return
    row = update(key(lease.pk, attempt.sk), end, attempt.is_mine())
    condition_held(lambda: connection.repeat(deadline, "update_item", **row))
    lease.end_request()
