"""The hash of a request's inputs, the same in every language."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import rfc8785

from theorydb_py.errors import InvalidInputError

Json = None | bool | int | float | str | list["Json"] | tuple["Json", ...] | Mapping[str, "Json"]

_MAX_BYTES = 64 << 10
_MAX_DEPTH = 100
_EXACT = 1 << 53


def hash_inputs(value: Json) -> str:
    """Return the hex SHA-256 of the canonical JSON (RFC 8785) of a value.

    Raises:
        InvalidInputError: languages might disagree about it (an integer that a float
            would round: pass it as a str; NaN; a lone surrogate), it is not JSON, is
            nested deeper than 100 levels, or is larger than 64 KiB.
    """
    return hashlib.sha256(canonical_json(value)).hexdigest()


def canonical_json(value: Json) -> bytes:
    """Return the JSON that hash_inputs hashes.

    Raises:
        InvalidInputError: see hash_inputs.
    """
    try:
        canonical = rfc8785.dumps(_exact(value, 0))
    except rfc8785.CanonicalizationError as error:
        raise InvalidInputError(f"the inputs of a request have no canonical JSON: {error}") from error
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"the inputs of a request have a name that is not Unicode text: {error}") from error
    if len(canonical) > _MAX_BYTES:
        raise InvalidInputError(
            f"the inputs of a request have {len(canonical)} bytes of JSON: expected at most {_MAX_BYTES}"
        )
    return canonical


def _exact(value: Json, depth: int) -> Json:
    """Replace integers beyond 2^53 by equal floats, JSON's only numbers."""
    if depth > _MAX_DEPTH:
        raise InvalidInputError(f"the inputs of a request are nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -_EXACT < value < _EXACT else _exact_float(value)
    if isinstance(value, list | tuple):
        return [_exact(member, depth + 1) for member in value]
    if isinstance(value, Mapping):
        return {name: _exact(member, depth + 1) for name, member in value.items()}
    return value


def _exact_float(value: int) -> float:
    try:
        as_float = float(value)
        canonical = rfc8785.dumps(as_float).decode()
    except (OverflowError, rfc8785.CanonicalizationError):
        canonical = ""
    if canonical != str(value):
        raise InvalidInputError(f"the integer {str(value)[:40]} is not exact in every language: pass it as a str")
    return as_float
