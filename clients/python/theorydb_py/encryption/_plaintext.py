"""Plaintexts of encrypted attributes: DynamoDB JSON, canonical by RFC 8785."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import rfc8785

from theorydb_py._decimal import number_text, parse_number
from theorydb_py._values import MAX_DEPTH, Attribute

_MAX_NUMBER = 256  # characters; no canonical number is longer


def format_plaintext(attribute: Attribute) -> bytes:
    """Return the plaintext of a value that a codec has encoded."""
    return rfc8785.dumps(_json(attribute))


def parse_plaintext(text: bytes) -> Attribute | None:
    """Parse a plaintext; None: it is invalid.

    It is authentic, but may be from another implementation. There is no error to
    raise, as it would refer to the plaintext.
    """
    try:
        return _value(json.loads(text.decode(), object_pairs_hook=_object), 1)
    except (ValueError, RecursionError):
        return None


def canonical_number(text: str) -> str:
    """Format a number as DynamoDB does. Raises ValueError if it is none."""
    if len(text) > _MAX_NUMBER:
        raise ValueError
    return number_text(parse_number(text))


def decode_base64(text: str) -> bytes:
    """Decode base64 with padding. Raises ValueError for any but the canonical text of the bytes."""
    decoded = base64.b64decode(text, validate=True)
    if _base64(decoded) != text:
        raise ValueError
    return decoded


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _json(attribute: Attribute) -> dict[str, Any]:
    ((kind, content),) = attribute.items()
    match kind:
        case "N":
            content = canonical_number(content)
        case "B":
            content = _base64(content)
        case "SS":
            content = sorted(content, key=lambda member: member.encode("utf-16-be"))
        case "NS":
            content = sorted(map(canonical_number, content))
        case "BS":
            content = sorted(map(_base64, content))
        case "L":
            content = [_json(element) for element in content]
        case "M":
            content = {name: _json(member) for name, member in content.items()}
    return {kind: content}


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(members)
    if len(made) != len(members):
        raise ValueError
    return made


def _value(loaded: Any, depth: int) -> Attribute:
    """Convert parsed JSON, an object with one member. Raises ValueError."""
    if not isinstance(loaded, dict) or len(loaded) != 1 or depth > MAX_DEPTH:
        raise ValueError
    ((kind, content),) = loaded.items()
    match kind, content:
        case (("S" | "N" | "B"), _):
            return {kind: _SCALARS[kind](content)}
        case ("BOOL", bool()) | ("NULL", True):
            return {kind: content}
        case (("SS" | "NS" | "BS"), [_, *_]):
            members = [_SCALARS[kind[0]](member) for member in content]
            if len(set(members)) == len(members):
                return {kind: members}
        case "L", list():
            return {kind: [_value(element, depth + 1) for element in content]}
        case "M", dict():
            return {kind: {_text(name): _value(member, depth + 1) for name, member in content.items()}}
    raise ValueError


def _text(content: Any) -> str:
    if not isinstance(content, str):
        raise ValueError  # noqa: TRY004 it is invalid as JSON
    content.encode()  # refuses lone surrogates
    return content


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "S": _text,
    "N": lambda content: canonical_number(_text(content)),
    "B": lambda content: decode_base64(_text(content)),
}
