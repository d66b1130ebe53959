"""The error that codecs raise."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any


class CodecError(Exception):
    """A value, or a stored attribute, does not fit its type. Callers wrap it in an error that names the item."""

    def __init__(self, expected: str, found: str, path: str = "") -> None:
        super().__init__(expected, found, path)
        self.expected = expected
        self.found = found
        self.path = path

    def within(self, step: str) -> CodecError:
        """Return the same error with the path prefixed by a step."""
        path = step + self.path if not self.path or self.path.startswith("[") else f"{step}.{self.path}"
        return CodecError(self.expected, self.found, path)


def value_mismatch(expected: str, value: object) -> CodecError:
    """Return the error of a Python value."""
    return CodecError(expected, f"{type(value).__name__} {short_repr(value)}")


def attribute_mismatch(expected: str, attribute: Mapping[str, Any] | None) -> CodecError:
    """Return the error of a stored attribute; None: it is absent."""
    return CodecError(expected, describe(attribute))


def short_repr(value: object) -> str:
    """Format a value for people, shortened."""
    try:
        return f"{reprlib.repr(value):.60}"
    except ValueError:
        return "of too many digits to write"


def describe(attribute: Mapping[str, Any] | None) -> str:
    """Describe a stored attribute for people: its type, and its value if that is short."""
    if not attribute:
        return "nothing"
    kind, content = next(iter(attribute.items()))
    match kind:
        case "S":
            return f'string "{_shorten(content)}"'
        case "N":
            return f"number {_shorten(content)}"
        case "B":
            return f"{len(content)} bytes of binary"
        case "BOOL":
            return f"boolean {str(content).lower()}"
        case "NULL":
            return "NULL"
        case "M" | "L":
            return f"a {'map' if kind == 'M' else 'list'} of {len(content)}"
    return "a set"


def _shorten(content: str, longest: int = 48) -> str:
    return content if len(content) <= longest else content[:longest] + "…"
