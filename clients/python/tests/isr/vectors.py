"""The vectors of the specification, and the conversion of their values."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any

from theorydb_py.isr import Entry, PurgeState

VECTORS = Path(__file__).parents[4] / "spec" / "vectors"


def load(name: str) -> dict[str, Any]:
    """Load one file."""
    loaded: dict[str, Any] = json.loads((VECTORS / name).read_text(encoding="utf-8"))
    return loaded


def item_from(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item as boto3 represents it: B as bytes."""
    return {name: _attribute_from(value) for name, value in stored.items()}


def _attribute_from(value: Mapping[str, Any]) -> dict[str, Any]:
    kind, content = next(iter(value.items()))
    match kind:
        case "B":
            return {"B": base64.b64decode(content)}
        case "BS":
            return {"BS": [base64.b64decode(member) for member in content]}
        case "M":
            return {"M": item_from(content)}
        case "L":
            return {"L": [_attribute_from(member) for member in content]}
    return {kind: content}


def comparable(value: Any) -> Any:
    """Return a comparable form of an item: numbers by value, unordered sets."""
    if isinstance(value, Mapping):
        if set(value) == {"N"} and isinstance(value["N"], str):
            return ("N", Decimal(value["N"]))
        for kind in ("SS", "NS", "BS"):
            if set(value) == {kind}:
                return (kind, frozenset(map(Decimal if kind == "NS" else lambda member: member, value[kind])))
        return {name: comparable(member) for name, member in value.items()}
    return [comparable(member) for member in value] if isinstance(value, list) else value


def purges_from(vector: Mapping[str, Any] | None) -> PurgeState:
    """Return a purge state; absent means all zero."""
    return PurgeState(**(vector or {}))


def entry_from(vector: Mapping[str, Any], **defaults: Any) -> Entry:
    """Return an entry; absent members have their defaults."""
    members: dict[str, Any] = {
        "s3_key": "",
        "generated_at": 0,
        "revalidate_seconds": 0,
        "status": 0,
        **defaults,
        **vector,
    }
    if isinstance(members.get("tags"), list):
        members["tags"] = tuple(members["tags"])
    if isinstance(members.get("headers"), dict):
        members["headers"] = {name: tuple(map(_header_value, v)) for name, v in members["headers"].items()}
    return Entry(**members)


def _header_value(value: Any) -> Any:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value


def entry_to_vector(entry: Entry | None) -> dict[str, Any] | None:
    """Return an entry in the form of the specification, without members that are 0, "", empty or false."""
    if entry is None:
        return None
    members = {f.name: getattr(entry, f.name) for f in fields(entry) if getattr(entry, f.name)}
    if entry.tags:
        members["tags"] = list(entry.tags)
    if entry.headers:
        members["headers"] = {name: [_header_to_vector(v) for v in values] for name, values in entry.headers.items()}
    return members


def _header_to_vector(value: str | bytes) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
