"""Queries: sort key conditions, pages and cursors."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from theorydb_py._values import Attribute
from theorydb_py.errors import InvalidQueryError

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
    """One page of a query or a scan."""

    items: list[T]
    next_cursor: str | None
    """The start of the next page; None at the end. An empty page may have one: filters apply after reading."""


def encode_cursor(scope: str, key: Mapping[str, Attribute]) -> str:
    """Encode the last key of a page as a URL-safe text, valid only in its scope."""
    parts = {
        name: {kind: base64.b64encode(v).decode() if kind == "B" else v for kind, v in value.items()}
        for name, value in key.items()
    }
    return base64.urlsafe_b64encode(json.dumps([_digest(scope), parts]).encode()).decode().rstrip("=")


def decode_cursor(scope: str, names: frozenset[str], cursor: object) -> dict[str, Attribute]:
    """Decode the text of encode_cursor: a key of these attributes.

    Raises:
        InvalidQueryError: it is damaged or from another query.
    """
    if not isinstance(cursor, str) or len(cursor) > _MAX_CURSOR or _CURSOR.fullmatch(cursor) is None:
        raise _no_cursor()
    try:
        digest, key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if digest != _digest(scope) or not isinstance(key, dict) or key.keys() != names:
            raise _no_cursor()
        return {name: _key_value(value) for name, value in key.items()}
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise _no_cursor() from error


_CURSOR = re.compile(r"[A-Za-z0-9_-]+")
_MAX_CURSOR = 32_768  # characters; a key has at most four attributes, of 2,048 and 1,024 bytes


def _key_value(stored: object) -> Attribute:
    if not isinstance(stored, dict) or len(stored) != 1:
        raise _no_cursor()
    ((kind, value),) = stored.items()
    if kind not in ("S", "N", "B") or not isinstance(value, str):
        raise _no_cursor()
    return {kind: base64.b64decode(value, validate=True) if kind == "B" else value}


def _digest(scope: str) -> str:
    return hashlib.sha256(scope.encode()).hexdigest()[:16]


def _no_cursor() -> InvalidQueryError:
    return InvalidQueryError(
        "the cursor is damaged or from a query of another table, index, partition or direction; start without a cursor"
    )
