"""Names of rows, and access to the attributes of items in DynamoDB's format."""

from __future__ import annotations

from collections.abc import Mapping

from theorydb_py._codecerror import describe
from theorydb_py._values import Attribute
from theorydb_py.errors import MalformedRowError

Item = Mapping[str, Attribute]

SK_LOCK, SK_META, SK_PURGE = "LOCK", "META", "PURGE"
VERSION_PREFIX, REQUEST_PREFIX = "VER#", "REQ#"
PK_LOG, SK_SEQUENCE, SK_BUILD, LOG_PREFIX, MARK_PREFIX = "PURGE", "SEQ", "BUILD", "LOG#", "MARK#"


def string(value: str) -> Attribute:
    """Return a string attribute."""
    return {"S": value}


def number(value: int) -> Attribute:
    """Return a number attribute."""
    return {"N": str(value)}


def key(pk: str, sk: str) -> Item:
    """Return the key of a row."""
    return {"pk": string(pk), "sk": string(sk)}


def text(item: Item | None, name: str) -> str:
    """Return a string attribute's value, or the empty string."""
    value = (item or {}).get(name, {}).get("S")
    return value if isinstance(value, str) else ""


def child(item: Item | None, name: str) -> Item:
    """Return a map attribute's members; empty if it is not a map."""
    value = (item or {}).get(name, {}).get("M")
    return value if isinstance(value, Mapping) else {}


def is_null(value: Attribute) -> bool:
    """Return whether an attribute is NULL, which mappers write for a missing value."""
    return "NULL" in value


def malformed(item: Item, attribute: str, expected: str, found: str = "") -> MalformedRowError:
    """Return the error of an unexpected attribute; a dot in the name separates the members of maps."""
    *path, name = attribute.split(".")
    at = item
    for step in path:
        at = child(at, step)
    found = found or describe(at.get(name))
    pk, sk = text(item, "pk"), text(item, "sk")
    return MalformedRowError(
        f"row pk={pk} sk={sk} is malformed: {attribute}: expected {expected}, found {found}; "
        "the next publish replaces META; repair or delete other rows",
        pk=pk,
        sk=sk,
        attribute=attribute,
        expected=expected,
        found=found,
    )
