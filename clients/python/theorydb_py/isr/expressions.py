"""Conditions and updates, in DynamoDB's expressions.

A condition is a function that states itself in the expressions of one request,
so that parts can be put together without their placeholders getting in each
other's way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from theorydb_py.expression import Expression
from theorydb_py.isr.amounts import LONGEST_LEASE
from theorydb_py.isr.items import number, string
from theorydb_py.values import Attribute

Condition = Callable[[Expression], str]


def exists(path: str = "pk") -> Condition:
    """Demand an attribute, or the row itself."""
    return lambda e: f"attribute_exists({_path(e, path)})"


def absent(path: str = "pk") -> Condition:
    """Demand that there is no such attribute, or no row."""
    return lambda e: f"attribute_not_exists({_path(e, path)})"


def compare(path: str, operator: str, value: Attribute) -> Condition:
    """Demand that an attribute compares so with a value."""
    return lambda e: f"{_path(e, path)} {operator} {e.value(value)}"


def same(path: str, found: Attribute | None) -> Condition:
    """Demand that an attribute is as it was found, whatever it was; None: that there is none."""
    return absent(path) if found is None else compare(path, "=", found)


def no_number(path: str) -> Condition:
    """Demand that an attribute is anything but a number."""
    return lambda e: f"NOT attribute_type({_path(e, path)}, {e.value(string('N'))})"


def all_of(*conditions: Condition) -> Condition:
    """Demand all of them."""
    return lambda e: " AND ".join(c(e) if len(conditions) == 1 else f"({c(e)})" for c in conditions)


def any_of(*conditions: Condition) -> Condition:
    """Demand one of them."""
    return lambda e: " OR ".join(c(e) for c in conditions)


def is_held(token: str, now: int) -> Condition:
    """Demand a LOCK row that is ours and has not expired."""
    return all_of(compare("lease_token", "=", string(token)), compare("lease_expires_at", ">", number(now)))


def is_free(now: int) -> Condition:
    """Demand that nobody holds the lease, as lockrow.is_held judges it.

    A row without a number cannot say when it ends: it is free. So is one that ends
    later than any lease can, such as one in milliseconds: it would lock the page until
    the year 9999.
    """
    return any_of(
        absent(),
        no_number("lease_expires_at"),
        compare("lease_expires_at", "<=", number(now)),
        compare("lease_expires_at", ">", number(now + LONGEST_LEASE)),
    )


def put(item: Mapping[str, Attribute], condition: Condition | None = None) -> dict[str, Any]:
    """Return the arguments that write a row whole."""
    return {"Item": dict(item), **_arguments(Expression(), condition)}


def delete(key: Mapping[str, Attribute], condition: Condition) -> dict[str, Any]:
    """Return the arguments that delete a row."""
    return {"Key": dict(key), **_arguments(Expression(), condition)}


def update(
    key: Mapping[str, Attribute], changes: Mapping[str, Attribute | None], condition: Condition
) -> dict[str, Any]:
    """Return the arguments that set attributes of a row, and remove those whose change is None."""
    e = Expression()
    sets = [f"{_path(e, name)} = {e.value(value)}" for name, value in changes.items() if value is not None]
    removes = [_path(e, name) for name, value in changes.items() if value is None]
    clauses = [f"SET {', '.join(sets)}" if sets else "", f"REMOVE {', '.join(removes)}" if removes else ""]
    return {"Key": dict(key), **_arguments(e, condition, UpdateExpression=" ".join(filter(None, clauses)))}


def _arguments(e: Expression, condition: Condition | None, **more: str) -> dict[str, Any]:
    if condition is not None:
        e.demand(condition(e))
        more["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return e.arguments("ConditionExpression", **more)


def _path(e: Expression, path: str) -> str:
    """Return an attribute's path, with a placeholder for each name: some are reserved."""
    return ".".join(map(e.name, path.split(".")))
