"""Reads and ends request records."""

from __future__ import annotations

from collections.abc import Mapping

from theorydb_py._outcome import condition_held
from theorydb_py._values import Attribute
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._entry import RequestRecord
from theorydb_py.isr._expression import update
from theorydb_py.isr._lease import IsrLease
from theorydb_py.isr._names import REQUEST_PREFIX
from theorydb_py.isr._requestrow import request_of
from theorydb_py.isr._row import Item, key


def read_request(connection: Connection, pk: str, request_key: str) -> tuple[Item | None, RequestRecord | None]:
    """Read a request record strongly consistently: as it is stored, and decoded.

    The decoded record is None if it has expired. Raises MalformedRowError if it is
    unreadable.
    """
    found = connection.read_row(pk, REQUEST_PREFIX + request_key)
    if found is None:
        return None, None
    return found, request_of(found, request_key, connection.second())


def end_request(
    connection: Connection, lease: IsrLease, end: Mapping[str, Attribute | None], deadline: float | None = None
) -> None:
    """Write the end of a lease's request record, if it has one. deadline: see Connection.repeat.

    A failed condition means that another attempt took the request over, or that an
    earlier call of ours was applied. Raises boto3's errors.
    """
    attempt = lease.attempt
    if attempt is None:
        return
    row = update(key(lease.pk, attempt.sk), end, attempt.is_ours())
    condition_held(lambda: connection.repeat(deadline, "update_item", **row))
    lease.end_request()
