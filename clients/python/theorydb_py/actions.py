"""What a transaction does, and how an update changes an attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class UpdateAdd:
    """In the updates of an item: add a number, no attribute being 0, or members to a set."""

    value: Any


@dataclass(frozen=True)
class UpdateSetIfNotExists:
    """In the updates of an item: store a value where there is none."""

    default_value: Any


@dataclass(frozen=True)
class TransactPut(Generic[T]):
    """Store a whole item, whatever was there; see Table.put for its version.

    In all actions a condition is an expression of DynamoDB's; the values in it
    are plain Python values.
    """

    item: T
    condition_expression: str | None = None
    expression_attribute_names: Mapping[str, str] | None = None
    expression_attribute_values: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class TransactUpdate:
    """Change some attributes of an item, which is made if there is none; see Table.update."""

    pk: Any
    sk: Any | None
    updates: Mapping[str, Any]
    condition_expression: str | None = None
    expression_attribute_names: Mapping[str, str] | None = None
    expression_attribute_values: Mapping[str, Any] | None = None
    expected_version: int | None = None


@dataclass(frozen=True)
class TransactDelete:
    """Delete an item; that there is none is no error, unless the condition says so."""

    pk: Any
    sk: Any | None = None
    condition_expression: str | None = None
    expression_attribute_names: Mapping[str, str] | None = None
    expression_attribute_values: Mapping[str, Any] | None = None
    expected_version: int | None = None


@dataclass(frozen=True)
class TransactConditionCheck:
    """Demand something of an item that the transaction does not change."""

    pk: Any
    sk: Any | None
    condition_expression: str
    expression_attribute_names: Mapping[str, str] | None = None
    expression_attribute_values: Mapping[str, Any] | None = None


TransactWriteAction = TransactPut[T] | TransactUpdate | TransactDelete | TransactConditionCheck
