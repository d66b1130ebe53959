"""Builds DynamoDB's condition and update expressions.

A condition is a function that renders itself into the expressions of one request, so
that conditions can be combined without placeholder collisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from theorydb_py._expression import Expression
from theorydb_py._values import Attribute
from theorydb_py.isr._numbers import MAX_LEASE
from theorydb_py.isr._row import number, string

Condition = Callable[[Expression], str]


def exists(path: str = "pk") -> Condition:
    """Require that an attribute, or the row itself, exists."""
    return lambda e: f"attribute_exists({_path(e, path)})"


def absent(path: str = "pk") -> Condition:
    """Require that an attribute, or the row itself, does not exist."""
    return lambda e: f"attribute_not_exists({_path(e, path)})"


def compare(path: str, operator: str, value: Attribute) -> Condition:
    """Require that a comparison holds."""
    return lambda e: f"{_path(e, path)} {operator} {e.value(value)}"


def same(path: str, found: Attribute | None) -> Condition:
    """Require that an attribute still has the value that was read; None: that it still does not exist."""
    return absent(path) if found is None else compare(path, "=", found)


def no_number(path: str) -> Condition:
    """Require that an attribute is not a number."""
    return lambda e: f"NOT attribute_type({_path(e, path)}, {e.value(string('N'))})"


def all_of(*conditions: Condition) -> Condition:
    """Require all of the conditions."""
    return lambda e: " AND ".join(c(e) if len(conditions) == 1 else f"({c(e)})" for c in conditions)


def any_of(*conditions: Condition) -> Condition:
    """Require one of the conditions."""
    return lambda e: " OR ".join(c(e) for c in conditions)


def is_held(token: str, now: int) -> Condition:
    """Require a LOCK row with our token that has not expired."""
    return all_of(compare("lease_token", "=", string(token)), compare("lease_expires_at", ">", number(now)))


def is_free(now: int) -> Condition:
    """Require that the lease is free, by the same rule as lockrow.is_held.

    A row without a numeric end is free. So is one that ends later than any lease can,
    such as one in milliseconds: it would lock the page for centuries.
    """
    return any_of(
        absent(),
        no_number("lease_expires_at"),
        compare("lease_expires_at", "<=", number(now)),
        compare("lease_expires_at", ">", number(now + MAX_LEASE)),
    )


def put(item: Mapping[str, Attribute], condition: Condition | None = None) -> dict[str, Any]:
    """Return the arguments of a put."""
    return {"Item": dict(item), **_arguments(Expression(), condition)}


def delete(key: Mapping[str, Attribute], condition: Condition) -> dict[str, Any]:
    """Return the arguments of a delete."""
    return {"Key": dict(key), **_arguments(Expression(), condition)}


def update(
    key: Mapping[str, Attribute], changes: Mapping[str, Attribute | None], condition: Condition | None = None
) -> dict[str, Any]:
    """Return the arguments of an update that sets attributes, and removes those whose change is None."""
    e = Expression()
    sets = [f"{_path(e, name)} = {e.value(value)}" for name, value in changes.items() if value is not None]
    removes = [_path(e, name) for name, value in changes.items() if value is None]
    clauses = [f"SET {', '.join(sets)}" if sets else "", f"REMOVE {', '.join(removes)}" if removes else ""]
    return {"Key": dict(key), **_arguments(e, condition, UpdateExpression=" ".join(filter(None, clauses)))}


def _arguments(e: Expression, condition: Condition | None, **more: str) -> dict[str, Any]:
    if condition is not None:
        e.require(condition(e))
        more["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return e.arguments("ConditionExpression", **more)


def _path(e: Expression, path: str) -> str:
    """Return an attribute path with a placeholder for each name, as some names are reserved."""
    return ".".join(map(e.name, path.split(".")))
