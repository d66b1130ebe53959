"""Names of tables."""

from __future__ import annotations

from theorydb_py.errors import InvalidInputError

_LONGEST = 1024  # of an ARN, which may take a name's place


def checked_table_name(name: object) -> str:
    """Return the name of a table, or its ARN, if it can be one. Else an InvalidInputError: never another table."""
    if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST:
        raise InvalidInputError(
            f"the name of the table: expected text of 1 to {_LONGEST} characters, found {name!r:.60}"
        )
    return name
