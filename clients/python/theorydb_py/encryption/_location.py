"""The location that an encrypted attribute is bound to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from theorydb_py._classify import format_key
from theorydb_py._values import Attribute
from theorydb_py.encryption._plaintext import canonical_number

VERSION = 1
"""The version of the format."""


@dataclass(frozen=True)
class Location:
    """A stored item. What was encrypted for it can be decrypted there only."""

    table: str
    """The name or the ARN."""
    key: Mapping[str, Attribute]
    """The partition key, then the sort key if the table has one."""

    def describe(self, attribute: str) -> str:
        """Name an attribute of the item, for people."""
        return f"attribute {attribute!r:.60} of the item {format_key(self.key)} in table {self.table}"

    def additional_data(self, attribute: str) -> bytes:
        """Return the additional data of AES-GCM of an attribute."""
        parts = [_u32(VERSION), _prefixed(_name_of(self.table).encode()), _u32(len(self.key))]
        for name, value in self.key.items():
            kind, content = _key_value(value)
            parts += [_prefixed(name.encode()), _prefixed(kind.encode()), _prefixed(content)]
        return b"".join([*parts, _prefixed(attribute.encode())])


def _name_of(table: str) -> str:
    """Return the name in an ARN, so that a table has one location in either case."""
    return table.partition(":table/")[2] or table if table.startswith("arn:") else table


def _key_value(value: Attribute) -> tuple[str, bytes]:
    ((kind, content),) = value.items()
    match kind:
        case "N":
            return kind, canonical_number(content).encode()
        case "S":
            return kind, content.encode()
    return kind, content


def _prefixed(content: bytes) -> bytes:
    return _u32(len(content)) + content


def _u32(number: int) -> bytes:
    return number.to_bytes(4, "big")
