"""Items as DynamoDB has them: names of rows, and looks at stored values."""

from __future__ import annotations

from collections.abc import Mapping

from theorydb_py.errors import MalformedRowError
from theorydb_py.unfit import describe
from theorydb_py.values import Attribute

Item = Mapping[str, Attribute]

SK_LOCK, SK_META, SK_PURGE = "LOCK", "META", "PURGE"
VERSION_PREFIX, REQUEST_PREFIX = "VER#", "REQ#"
PK_LOG, SK_SEQUENCE, LOG_PREFIX = "PURGE", "SEQ", "LOG#"


def string(value: str) -> Attribute:
    """Return the attribute of a string."""
    return {"S": value}


def number(value: int) -> Attribute:
    """Return the attribute of an integer."""
    return {"N": str(value)}


def key(pk: str, sk: str) -> Item:
    """Return the key of a row."""
    return {"pk": string(pk), "sk": string(sk)}


def text(item: Item | None, name: str) -> str:
    """Return the string attribute of that name, or the empty string."""
    value = (item or {}).get(name, {}).get("S")
    return value if isinstance(value, str) else ""


def child(item: Item | None, name: str) -> Item:
    """Return the map attribute of that name; what is none is empty."""
    value = (item or {}).get(name, {}).get("M")
    return value if isinstance(value, Mapping) else {}


def is_null(value: Attribute) -> bool:
    """Whether an attribute is NULL, which mappers write for a field without a value."""
    return "NULL" in value


def malformed(item: Item, attribute: str, expected: str, found: str = "") -> MalformedRowError:
    """Return the error of an attribute, or of a map's member after a dot, that is not what was expected."""
    *path, name = attribute.split(".")
    at = item
    for step in path:
        at = child(at, step)
    found = found or describe(at.get(name))
    pk, sk = text(item, "pk"), text(item, "sk")
    return MalformedRowError(
        f"row pk={pk} sk={sk} is malformed: {attribute}: expected {expected}, found {found}; "
        "the next publish replaces it if it is META, other rows are to be repaired or deleted",
        pk=pk,
        sk=sk,
        attribute=attribute,
        expected=expected,
        found=found,
    )
