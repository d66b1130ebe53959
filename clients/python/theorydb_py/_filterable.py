"""How filters are added: to queries and scans, and to groups."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, Self, get_args, overload

from theorydb_py._filter import Filter, Operator, where
from theorydb_py.errors import InvalidQueryError


class Filterable(abc.ABC):
    """What filters can be added to. DynamoDB reads, and charges for, what a filter drops."""

    _condition: Filter | None
    """The filters so far; None: there are none."""

    @abc.abstractmethod
    def _refilter(self, condition: Filter) -> Self:
        """Return it with these filters instead of the present ones."""

    @overload
    def filter(self, condition: Filter, /) -> Self: ...
    @overload
    def filter(self, field: str, operator: Operator, /, *values: Any) -> Self: ...
    def filter(self, condition: Filter | str, operator: Any = None, /, *values: Any) -> Self:
        """Add a filter; several filters must all hold. Its arguments are a Filter, or the arguments of where.

        Raises:
            InvalidQueryError, InvalidInputError: see where and Table.query.
        """
        return self._refilter(_all(self._condition, _filter_of(condition, operator, values)))

    @overload
    def or_filter(self, condition: Filter, /) -> Self: ...
    @overload
    def or_filter(self, field: str, operator: Operator, /, *values: Any) -> Self: ...
    def or_filter(self, condition: Filter | str, operator: Any = None, /, *values: Any) -> Self:
        """Add an alternative to the filters before it, taken together: a, b, or c is ``(a AND b) OR c``.

        Raises:
            InvalidQueryError, InvalidInputError: see where and Table.query.
        """
        return self._refilter(_any(self._condition, _filter_of(condition, operator, values)))

    def filter_group(self, add: Callable[[FilterBuilder], object]) -> Self:
        """Add the filters that ``add`` adds to a group, in parentheses.

        ``query.filter_group(lambda g: g.filter("year", "<", 1960).or_filter("year", ">", 1990))``

        Raises:
            InvalidQueryError: the group has no filters, or see where.
            InvalidInputError: see Table.query.
        """
        return self._refilter(_all(self._condition, _group_of(add)))

    def or_filter_group(self, add: Callable[[FilterBuilder], object]) -> Self:
        """Add an alternative to the filters before it: those that ``add`` adds to a group, in parentheses.

        Raises:
            InvalidQueryError: the group has no filters, or see where.
            InvalidInputError: see Table.query.
        """
        return self._refilter(_any(self._condition, _group_of(add)))


class FilterBuilder(Filterable):
    """A group of filters while it is built. Unlike a query it is changed by its methods."""

    def __init__(self) -> None:
        """filter_group makes it."""
        self._condition = None

    def _refilter(self, condition: Filter) -> Self:
        self._condition = condition
        return self


def _filter_of(condition: Filter | str, operator: Any, values: tuple[Any, ...]) -> Filter:
    if isinstance(condition, Filter):
        if operator is not None or values:
            raise InvalidQueryError(
                f"filter: expected a Filter alone, or a field, an operator and values; found also {operator!r:.60}"
            )
        return condition
    if operator is None:
        raise InvalidQueryError(
            f"filter {condition!r:.60}: expected an operator, one of {', '.join(get_args(Operator))}"
        )
    return where(condition, operator, *values)


def _group_of(add: Callable[[FilterBuilder], object]) -> Filter:
    if not callable(add):
        raise InvalidQueryError(f"a group of filters: expected a function that adds them, found {add!r:.60}")
    group = FilterBuilder()
    add(group)
    if group._condition is None:
        raise InvalidQueryError("a group of filters has no filter: add at least one")
    return group._condition


def _all(before: Filter | None, added: Filter) -> Filter:
    return added if before is None else before & added


def _any(before: Filter | None, alternative: Filter) -> Filter:
    return alternative if before is None else before | alternative
