"""Detects an echo: a condition that failed because an earlier attempt of the same write was applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from theorydb_py._decimal import parse_decimal
from theorydb_py._values import Attribute
from theorydb_py._write import Write

_SETS = ("SS", "NS", "BS")


def is_echo(write: Write, stored: Mapping[str, Attribute] | None) -> bool:
    """Return whether the item that failed a retried write's condition is the result of that write itself.

    A put is compared in full, an update by the attributes that it sets and removes. A
    delete is never an echo: an absent item does not show which request deleted it.
    """
    if not stored or write.result is None:
        return False
    if write.kind not in ("update", "upsert") and stored.keys() != write.result.keys():
        return False
    return all(_same(stored.get(name), sent) for name, sent in write.result.items())


def _same(stored: Attribute | None, sent: Attribute | None) -> bool:
    return stored is sent is None or (stored is not None and sent is not None and _value(stored) == _value(sent))


def _value(attribute: Attribute) -> Any:
    """Return a value that is equal for equal attributes: numbers by value, sets in any order."""
    kind, content = next(iter(attribute.items()))
    if kind == "N":
        return kind, parse_decimal(content)
    if kind in _SETS:
        return kind, frozenset(parse_decimal(member) if kind == "NS" else member for member in content)
    if kind == "L":
        return kind, [_value(member) for member in content]
    if kind == "M":
        return kind, {name: _value(member) for name, member in content.items()}
    return kind, content
