"""Builds the expressions of one request, with their names and values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from theorydb_py._codecerror import CodecError, short_repr
from theorydb_py._values import Attribute, encode_value
from theorydb_py.errors import InvalidInputError, InvalidQueryError

_EXISTENCE = re.compile(r"\battribute_(?:not_)?exists\s*\(\s*#?\w+\s*\)")
_ATTRIBUTE = re.compile(r"(?<![\w.:#])#?\w+\b(?!\s*\()")  # not a member of a map, a value or a function


class Expression:
    """Collects conditions, names and values, the caller's and ours, without placeholder collisions."""

    def __init__(
        self,
        written: str | None = None,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        """``written`` is the caller's expression, with its placeholders; the values are plain."""
        if written is None and (names or values):
            raise InvalidQueryError("expression_attribute_names and _values require an expression; there is none")
        if written is not None and (not isinstance(written, str) or not written.strip()):
            raise InvalidQueryError(f"an expression: expected text, found {short_repr(written)}")
        self._parts = [] if written is None else [f"({written})"]
        self._names = {_placeholder(k, "#"): _name(k, name) for k, name in (names or {}).items()}
        self._values = {_placeholder(k, ":"): _value(k, value) for k, value in (values or {}).items()}

    def name(self, attribute: str) -> str:
        """Return the placeholder of an attribute name; one per name."""
        for placeholder, name in self._names.items():
            if name == attribute:
                return placeholder
        return self._add("#", self._names, attribute)

    def value(self, attribute: Attribute) -> str:
        """Return a new placeholder for a stored value."""
        return self._add(":", self._values, attribute)

    def require(self, condition: str) -> None:
        """Require a further condition."""
        self._parts.append(condition)

    def compared(self) -> frozenset[str]:
        """Return the attributes in the conditions, except in attribute_exists and attribute_not_exists."""
        rest = _EXISTENCE.sub(" ", self.conditions)
        return frozenset(self._names.get(token, token) for token in _ATTRIBUTE.findall(rest))

    @property
    def conditions(self) -> str:
        """The conjunction of all conditions; empty if there are none."""
        return " AND ".join(self._parts)

    def arguments(self, kind: str, **expressions: str) -> dict[str, Any]:
        """Return the arguments of the request. ``kind`` is the conditions' argument, such as ConditionExpression."""
        arguments: dict[str, Any] = {**expressions}
        if self._parts:
            arguments[kind] = self.conditions
        if self._names:
            arguments["ExpressionAttributeNames"] = dict(self._names)
        if self._values:
            arguments["ExpressionAttributeValues"] = dict(self._values)
        return arguments

    def names_argument(self) -> dict[str, Any]:
        """Return the names as an argument of the request."""
        return {"ExpressionAttributeNames": dict(self._names)} if self._names else {}

    def _add(self, mark: str, into: dict[str, Any], what: Any) -> str:
        number = len(into)
        while (placeholder := f"{mark}td{number}") in into:
            number += 1
        into[placeholder] = what
        return placeholder


def _placeholder(text: object, mark: str) -> str:
    if not isinstance(text, str) or not text.startswith(mark) or len(text) == 1:
        raise InvalidQueryError(
            f"a placeholder in an expression: expected text that begins with {mark}, found {short_repr(text)}"
        )
    return text


def _name(placeholder: str, name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidQueryError(f"{placeholder}: expected the name of an attribute, found {short_repr(name)}")
    return name


def _value(placeholder: str, value: object) -> Attribute:
    try:
        return encode_value(value)
    except CodecError as error:
        where = f"{placeholder} at {error.path}" if error.path else placeholder
        raise InvalidInputError(f"{where}: expected {error.expected}, found {error.found}") from error
