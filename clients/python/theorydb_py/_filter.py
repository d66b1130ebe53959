"""Filters: comparisons of attributes, combined into groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from theorydb_py.errors import InvalidQueryError

if TYPE_CHECKING:
    from theorydb_py._expression import Expression
    from theorydb_py.model import ModelDefinition

Operator = Literal["=", "<>", "<", "<=", ">", ">=", "between", "in", "begins_with", "contains", "exists", "not_exists"]
"""The operators of a comparison."""

_OPERATORS: frozenset[str] = frozenset(get_args(Operator))
_MAX_IN = 100  # DynamoDB's limit of values of IN
_MAX_DEPTH = 50
"""How deep groups may be nested: DynamoDB allows 300 operators in an expression."""


@dataclass(frozen=True)
class Filter:
    """A condition on the attributes of items. Create it with where; combine filters with ``&``, ``|`` and ``~``.

    Immutable, so that filters may be shared.
    """

    kind: str
    """``where``, ``and``, ``or`` or ``not``."""
    field: str = ""
    operator: str = ""
    values: tuple[Any, ...] = ()
    parts: tuple[Filter, ...] = ()

    def __and__(self, other: Filter) -> Filter:
        return _group("and", self, other)

    def __or__(self, other: Filter) -> Filter:
        return _group("or", self, other)

    def __invert__(self) -> Filter:
        return Filter("not", parts=(self,))

    def __bool__(self) -> bool:
        # ``a and b`` would silently be b.
        raise InvalidQueryError(
            "a filter has no truth value: combine filters with &, | and ~, not with and, or and not"
        )


def where(field: str, operator: Operator, *values: Any) -> Filter:
    """Compare an attribute, by the name of its field or of the attribute.

    ``between`` takes two values, inclusive, ``in`` 1 to 100, ``exists`` and
    ``not_exists`` none, other operators one. ``contains`` is for a part of a text, a
    member of a set or an element of a list.

    Raises:
        InvalidQueryError: an unknown operator, or another number of values.
    """
    if operator not in _OPERATORS:
        raise InvalidQueryError(
            f"where {field!r:.60}: expected an operator, one of {sorted(_OPERATORS)}, found {operator!r:.60}"
        )
    counts = {"between": (2, 2), "in": (1, _MAX_IN), "exists": (0, 0), "not_exists": (0, 0)}
    low, high = counts.get(operator, (1, 1))
    if not low <= len(values) <= high:
        expected = f"{low} to {high}" if low != high else str(low)
        raise InvalidQueryError(f"where {field!r:.60} {operator}: expected {expected} values, found {len(values)}")
    return Filter("where", field, operator, values)


def filter_text(model: ModelDefinition[Any], expression: Expression, condition: Filter, depth: int = 0) -> str:
    """Format a filter, with its names and values in the expression.

    Raises:
        InvalidInputError: an unknown field, or a value that its attribute cannot have.
        InvalidQueryError: no filter, groups nested too deeply, or a comparison of an encrypted field.
    """
    if not isinstance(condition, Filter):
        raise InvalidQueryError(f"a filter: expected where(…), found {condition!r:.60}")
    if depth > _MAX_DEPTH:
        raise InvalidQueryError(f"a filter: groups are nested more than {_MAX_DEPTH} deep")
    if condition.kind == "where":
        return _comparison(model, expression, condition)
    parts = [filter_text(model, expression, part, depth + 1) for part in condition.parts]
    if condition.kind == "not":
        return f"(NOT {parts[0]})"
    return "(" + f" {condition.kind.upper()} ".join(parts) + ")"


def _group(kind: str, left: Filter, right: Filter) -> Filter:
    for part in (left, right):
        if not isinstance(part, Filter):
            raise InvalidQueryError(f"a group of filters: expected where(…), found {part!r:.60}")
    parts = [p for one in (left, right) for p in (one.parts if one.kind == kind else (one,))]
    return Filter(kind, parts=tuple(parts))


def _comparison(model: ModelDefinition[Any], expression: Expression, condition: Filter) -> str:
    field = model.field(condition.field)
    if field.encrypted and condition.operator not in ("exists", "not_exists"):
        raise InvalidQueryError(
            f"{model.name}.{field.name} is encrypted and DynamoDB cannot compare it: only exists and not_exists work"
        )
    name = expression.name(field.attribute)
    values = [expression.value(_operand(model, condition, value)) for value in condition.values]
    texts: dict[str, Callable[[], str]] = {
        "exists": lambda: f"attribute_exists({name})",
        "not_exists": lambda: f"attribute_not_exists({name})",
        "begins_with": lambda: f"begins_with({name}, {values[0]})",
        "contains": lambda: f"contains({name}, {values[0]})",
        "between": lambda: f"{name} BETWEEN {values[0]} AND {values[1]}",
        "in": lambda: f"{name} IN ({', '.join(values)})",
    }
    made = texts.get(condition.operator)
    return made() if made else f"{name} {condition.operator} {values[0]}"


def _operand(model: ModelDefinition[Any], condition: Filter, value: Any) -> Any:
    field = model.field(condition.field)
    return model.marshal_member(field, value) if condition.operator == "contains" else model.marshal_field(field, value)
