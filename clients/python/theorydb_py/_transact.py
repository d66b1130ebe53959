"""Actions of transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from theorydb_py._update import Update

T = TypeVar("T")


@dataclass(frozen=True)
class TransactPut(Generic[T]):
    """Put a whole item; for its version see Table.put.

    In all actions, a condition is a DynamoDB expression whose values are plain Python
    values.
    """

    item: T
    condition_expression: str | None = None
    expression_attribute_names: Mapping[str, str] | None = None
    expression_attribute_values: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class TransactUpdate:
    """Update some attributes of an existing item; see Table.update."""

    pk: Any
    sk: Any | None
    updates: Mapping[str, Any] | Update
    condition_expression: str | None = None
    expression_attribute_names: Mapping[str, str] | None = None
    expression_attribute_values: Mapping[str, Any] | None = None
    expected_version: int | None = None


@dataclass(frozen=True)
class TransactUpsert(TransactUpdate):
    """Update some attributes of an item, which is created if it does not exist; see Table.upsert."""


@dataclass(frozen=True)
class TransactDelete:
    """Delete an item. A missing item is no error unless a condition makes it one."""

    pk: Any
    sk: Any | None = None
    condition_expression: str | None = None
    expression_attribute_names: Mapping[str, str] | None = None
    expression_attribute_values: Mapping[str, Any] | None = None
    expected_version: int | None = None


@dataclass(frozen=True)
class TransactConditionCheck:
    """Require a condition on an item that the transaction does not change."""

    pk: Any
    sk: Any | None
    condition_expression: str
    expression_attribute_names: Mapping[str, str] | None = None
    expression_attribute_values: Mapping[str, Any] | None = None


TransactWriteAction = TransactPut[T] | TransactUpdate | TransactDelete | TransactConditionCheck
