"""Queries: sort key conditions, pages and cursors."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar

from theorydb_py.errors import InvalidQueryError
from theorydb_py.values import Attribute

T = TypeVar("T")


@dataclass(frozen=True)
class SortKeyCondition:
    """A condition on the sort key. Create it with its class methods."""

    operator: str
    values: tuple[Any, ...]

    @classmethod
    def eq(cls, value: Any) -> SortKeyCondition:
        """Equal to the value."""
        return cls("=", (value,))

    @classmethod
    def lt(cls, value: Any) -> SortKeyCondition:
        """Less than the value."""
        return cls("<", (value,))

    @classmethod
    def lte(cls, value: Any) -> SortKeyCondition:
        """Less than or equal to the value."""
        return cls("<=", (value,))

    @classmethod
    def gt(cls, value: Any) -> SortKeyCondition:
        """Greater than the value."""
        return cls(">", (value,))

    @classmethod
    def gte(cls, value: Any) -> SortKeyCondition:
        """Greater than or equal to the value."""
        return cls(">=", (value,))

    @classmethod
    def between(cls, low: Any, high: Any) -> SortKeyCondition:
        """Between two values, inclusive."""
        return cls("BETWEEN", (low, high))

    @classmethod
    def begins_with(cls, prefix: Any) -> SortKeyCondition:
        """Begins with a text or bytes."""
        return cls("begins_with", (prefix,))

    def text(self, name: str, values: list[str]) -> str:
        """Format it with these placeholders."""
        if self.operator == "begins_with":
            return f"begins_with({name}, {values[0]})"
        return f"{name} {self.operator} {' AND '.join(values)}"


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a query."""

    items: list[T]
    next_cursor: str | None
    """The start of the next page; None at the end. An empty page may have one: filters apply after reading."""


class QueryOptions(TypedDict, total=False):
    """The options of Table.query except the cursor."""

    sort: SortKeyCondition | None
    limit: int | None
    scan_forward: bool
    consistent_read: bool
    filter_expression: str | None
    expression_attribute_names: Mapping[str, str] | None
    expression_attribute_values: Mapping[str, Any] | None


def encode_cursor(scope: str, sort_key: Attribute | None) -> str:
    """Encode the end of a page as a URL-safe text, valid only in its scope."""
    key = {k: base64.b64encode(v).decode() if k == "B" else v for k, v in (sort_key or {}).items()}
    return base64.urlsafe_b64encode(json.dumps([_digest(scope), key]).encode()).decode().rstrip("=")


def decode_cursor(scope: str, cursor: object) -> Attribute | None:
    """Decode the text of encode_cursor. Raises InvalidQueryError if it is damaged or from another query."""
    if not isinstance(cursor, str) or len(cursor) > _MAX_CURSOR:
        raise _no_cursor()
    try:
        digest, key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if digest != _digest(scope) or not isinstance(key, dict) or len(key) > 1:
            raise _no_cursor()
        return _sort_key(key)
    except (ValueError, TypeError, binascii.Error) as error:
        raise _no_cursor() from error


_MAX_CURSOR = 8192  # characters; a sort key has at most 1,024 bytes


def _sort_key(stored: dict[str, Any]) -> Attribute | None:
    for kind, value in stored.items():
        if kind not in ("S", "N", "B") or not isinstance(value, str):
            raise _no_cursor()
        return {kind: base64.b64decode(value, validate=True) if kind == "B" else value}
    return None


def _digest(scope: str) -> str:
    return hashlib.sha256(scope.encode()).hexdigest()[:16]


def _no_cursor() -> InvalidQueryError:
    return InvalidQueryError(
        "the cursor is damaged or from a query of another table, partition or direction; start without a cursor"
    )
