"""Updates: the changes of some attributes of an item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from theorydb_py.errors import InvalidQueryError


@dataclass(frozen=True)
class UpdateAdd:
    """In an update: add a number (an absent attribute counts as 0), or members to a set."""

    value: Any


@dataclass(frozen=True)
class UpdateSetIfNotExists:
    """In an update: set a value unless the attribute exists."""

    default_value: Any


@dataclass(frozen=True)
class UpdateChange:
    """One change of one field."""

    kind: str
    """set, remove, add, if_not_exists, append or delete."""
    field: str
    value: Any = None


@dataclass(frozen=True)
class Update:
    """The changes of an update: ``Update().set("year", 1965).add("plays", 1)``.

    Each method returns a new object with one more change, so that updates may be
    shared. A field is named by its name in the dataclass, or by its attribute; each
    field is changed once. Errors are raised by the Table.
    """

    changes: tuple[UpdateChange, ...] = ()

    def set(self, field: str, value: Any) -> Update:
        """Store a value; one that omitempty omits removes the attribute."""
        return self._with("set", field, value)

    def remove(self, field: str) -> Update:
        """Remove the attribute."""
        return self._with("remove", field)

    def add(self, field: str, value: Any) -> Update:
        """Add a number (an absent attribute counts as 0), or members to a set."""
        return self._with("add", field, value)

    def if_not_exists(self, field: str, value: Any) -> Update:
        """Store a value if the attribute is absent."""
        return self._with("if_not_exists", field, value)

    def append(self, field: str, elements: list[Any] | tuple[Any, ...]) -> Update:
        """Append elements to a list, which is created if it is absent."""
        return self._with("append", field, elements)

    def delete(self, field: str, members: Any) -> Update:
        """Remove members from a set."""
        return self._with("delete", field, members)

    def _with(self, kind: str, field: str, value: Any = None) -> Update:
        return Update((*self.changes, UpdateChange(kind, field, value)))


def changes_of(updates: Mapping[str, Any] | Update) -> tuple[UpdateChange, ...]:
    """Return the changes of an Update, or of a mapping of fields to values.

    Raises:
        InvalidQueryError: it is neither.
    """
    if isinstance(updates, Update):
        return updates.changes
    if not isinstance(updates, Mapping):
        raise InvalidQueryError(f"an update: expected an Update or a dict of fields and values, found {updates!r:.60}")
    return tuple(_change_of(name, value) for name, value in updates.items())


def _change_of(name: str, value: Any) -> UpdateChange:
    match value:
        case UpdateAdd():
            return UpdateChange("add", name, value.value)
        case UpdateSetIfNotExists():
            return UpdateChange("if_not_exists", name, value.default_value)
    return UpdateChange("set", name, value)
