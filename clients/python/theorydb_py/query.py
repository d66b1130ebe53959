"""Queries by the names that TableTheory gives their parts.

    songs.query("jazz", filter=FilterGroup.or_(FilterCondition.eq("year", 1959), FilterCondition.exists("note")))

A FilterCondition and a FilterGroup are filters like where's, and can be
combined with them.
"""

from __future__ import annotations

from typing import Any, Literal

from theorydb_py._filter import Filter, Operator, where
from theorydb_py._query import Page, SortKeyCondition
from theorydb_py._reader import Query, Reader
from theorydb_py.errors import InvalidQueryError

__all__ = [
    "Filter",
    "FilterCondition",
    "FilterExpression",
    "FilterGroup",
    "Operator",
    "Page",
    "Query",
    "Reader",
    "SortKeyCondition",
    "where",
]


class FilterCondition(Filter):
    """A comparison of an attribute, by the name of its field or of the attribute. Immutable."""

    def __init__(self, field: str, op: str, values: tuple[Any, ...] = ()) -> None:
        """``op`` is an operator of where, or ``!=``; the class methods create all of them.

        Raises:
            InvalidQueryError: an unknown operator, or another number of values.
        """
        operator: Any = "<>" if op == "!=" else op
        listed = len(values) == 1 and isinstance(values[0], list | tuple | set | frozenset)
        made = where(field, operator, *(values[0] if operator == "in" and listed else values))
        super().__init__(made.kind, made.field, made.operator, made.values)

    @classmethod
    def eq(cls, field: str, value: Any) -> FilterCondition:
        """Equal to the value."""
        return cls(field, "=", (value,))

    @classmethod
    def ne(cls, field: str, value: Any) -> FilterCondition:
        """Not equal to the value; also of an item without the attribute."""
        return cls(field, "<>", (value,))

    @classmethod
    def lt(cls, field: str, value: Any) -> FilterCondition:
        """Less than the value."""
        return cls(field, "<", (value,))

    @classmethod
    def lte(cls, field: str, value: Any) -> FilterCondition:
        """Less than or equal to the value."""
        return cls(field, "<=", (value,))

    @classmethod
    def gt(cls, field: str, value: Any) -> FilterCondition:
        """Greater than the value."""
        return cls(field, ">", (value,))

    @classmethod
    def gte(cls, field: str, value: Any) -> FilterCondition:
        """Greater than or equal to the value."""
        return cls(field, ">=", (value,))

    @classmethod
    def between(cls, field: str, low: Any, high: Any) -> FilterCondition:
        """Between two values, inclusive."""
        return cls(field, "between", (low, high))

    @classmethod
    def begins_with(cls, field: str, prefix: Any) -> FilterCondition:
        """Begins with a text or bytes."""
        return cls(field, "begins_with", (prefix,))

    @classmethod
    def contains(cls, field: str, value: Any) -> FilterCondition:
        """Contains a part of a text, a member of a set or an element of a list."""
        return cls(field, "contains", (value,))

    @classmethod
    def in_(cls, field: str, values: list[Any]) -> FilterCondition:
        """Equal to one of 1 to 100 values.

        Raises:
            InvalidQueryError: another number of values.
        """
        return cls(field, "in", tuple(values))

    @classmethod
    def exists(cls, field: str) -> FilterCondition:
        """The item has the attribute."""
        return cls(field, "exists")

    @classmethod
    def not_exists(cls, field: str) -> FilterCondition:
        """The item does not have the attribute."""
        return cls(field, "not_exists")


class FilterGroup(Filter):
    """Filters of which all, or one at least, must hold. Immutable."""

    def __init__(self, op: Literal["AND", "OR"], filters: tuple[Filter, ...]) -> None:
        """Create a group of at least one filter; and_ and or_ do.

        Raises:
            InvalidQueryError: another operator, no filters, or something else than filters.
        """
        if op not in ("AND", "OR"):
            raise InvalidQueryError(f"a group of filters: expected AND or OR, found {op!r:.60}")
        if not filters:
            raise InvalidQueryError("a group of filters has no filter: add at least one")
        for part in filters:
            if not isinstance(part, Filter):
                raise InvalidQueryError(f"a group of filters: expected FilterCondition.eq(…), found {part!r:.60}")
        super().__init__(op.lower(), parts=tuple(filters))

    @classmethod
    def and_(cls, *filters: Filter) -> FilterGroup:
        """All filters hold.

        Raises:
            InvalidQueryError: there are no filters.
        """
        return cls("AND", filters)

    @classmethod
    def or_(cls, *filters: Filter) -> FilterGroup:
        """One of the filters holds at least.

        Raises:
            InvalidQueryError: there are no filters.
        """
        return cls("OR", filters)


FilterExpression = Filter
"""A FilterCondition, a FilterGroup, or another Filter."""
