"""Validation of table names."""

from __future__ import annotations

from theorydb_py.errors import InvalidInputError

_MAX_LENGTH = 1024  # the limit of an ARN, which may replace the name


def checked_table_name(name: object) -> str:
    """Return the table name or ARN. Raises InvalidInputError if it cannot be one."""
    if not isinstance(name, str) or not 1 <= len(name) <= _MAX_LENGTH:
        raise InvalidInputError(f"the table name: expected text of 1 to {_MAX_LENGTH} characters, found {name!r:.60}")
    return name
