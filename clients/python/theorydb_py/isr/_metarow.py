"""META and VER# rows: the attributes of the reference schema, and our map ``isr``.

The map names the content that it describes. If another writer has changed the row
since, the map is ignored and the row is read as that writer's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from theorydb_py._codecerror import CodecError
from theorydb_py._values import Attribute
from theorydb_py.errors import MalformedRowError
from theorydb_py.isr._entry import Entry
from theorydb_py.isr._fence import version_of
from theorydb_py.isr._names import VERSION_PREFIX
from theorydb_py.isr._row import (
    EXPECTED_COUNT,
    EXPECTED_INSTANT,
    EXPECTED_PERIOD,
    EXPECTED_STATUS,
    EXPECTED_TEXT,
    HeaderValue,
    Item,
    child,
    count_of,
    flag_of,
    floor_of,
    headers_of,
    horizon_of,
    instant_of,
    is_null,
    key,
    malformed,
    number,
    optional_instant_of,
    period_of,
    read,
    status_of,
    string,
    tags_of,
    text,
    text_of,
)

# Required to serve a page. Other missing members default to the most conservative value.
_REQUIRED = (("s3_key", EXPECTED_TEXT), ("generated_at", EXPECTED_INSTANT), ("revalidate_seconds", EXPECTED_PERIOD))
_REQUIRED_OF_MAP = (
    ("v", EXPECTED_COUNT),
    ("generation_id", EXPECTED_TEXT),
    ("status", EXPECTED_STATUS),
    ("content_length", EXPECTED_COUNT),
)


# --- Encoding ----------------------------------------------------------------


def meta_changes(entry: Entry, current_sk: str) -> dict[str, Attribute | None]:
    """Return the changes that a publish makes to META; None removes an attribute.

    It sets or removes every attribute of the reference schema, so that nothing of the
    previous generation remains, and keeps unknown attributes.
    """
    return {
        **_content(entry),
        "etag": string(entry.etag) if entry.etag else None,
        "ttl": None if entry.ttl is None else number(entry.ttl),
        "current_sk": string(current_sk) if current_sk else None,
        "isr": {"M": _isr_map(entry)},
    }


def version_item(pk: str, entry: Entry) -> Item:
    """Return the version row of an entry. It has no ttl while it is current."""
    etag = {"etag": string(entry.etag)} if entry.etag else {}
    return {**key(pk, VERSION_PREFIX + entry.generation_id), **_content(entry), **etag, "isr": {"M": _isr_map(entry)}}


def _content(entry: Entry) -> dict[str, Attribute]:
    return {
        "s3_key": string(entry.s3_key),
        "generated_at": number(entry.generated_at),
        "revalidate_seconds": number(entry.revalidate_seconds),
    }


def _isr_map(entry: Entry) -> dict[str, Attribute]:
    if entry.foreign:
        # Describes no content: readers treat the row as another service's.
        return {"v": number(entry.v), "generation_id": string(entry.generation_id)}
    members: dict[str, Attribute | None] = {
        "v": number(entry.v),
        "generation_id": string(entry.generation_id),
        "s3_key": string(entry.s3_key),
        "generated_at": number(entry.generated_at),
        "generated_ms": number(entry.generated_ms) if entry.generated_ms else None,
        "key": string(entry.key) if entry.key else None,
        "route": string(entry.route) if entry.route else None,
        "status": number(entry.status),
        "headers": {"M": _headers(entry.headers)} if entry.headers else None,
        "content_sha256": string(entry.content_sha256) if entry.content_sha256 else None,
        "content_length": number(entry.content_length),
        "tags": {"L": [string(tag) for tag in entry.tags]} if entry.tags else None,
        "stale_seconds": number(entry.stale_seconds),
        "purge_seq": number(entry.purge_seq),
        "build": number(entry.build) if entry.build else None,
        "pinned_until": None if entry.pinned_until is None else number(entry.pinned_until),
        "asserted_at": None if entry.asserted_at is None else number(entry.asserted_at),
        "render_ms": number(entry.render_ms) if entry.render_ms else None,
        "age_seconds": number(entry.age_seconds) if entry.age_seconds else None,
        "withdrawn": {"BOOL": True} if entry.withdrawn else None,
    }
    return {name: value for name, value in members.items() if value is not None}


def _headers(headers: Mapping[str, tuple[HeaderValue, ...]]) -> dict[str, Any]:
    """Return the stored headers, with names in lower case. Values of names that differ only in case are joined."""
    fields: dict[str, dict[str, list[Attribute]]] = {}
    for name in sorted(headers, key=str.encode):
        values = fields.setdefault(name.lower(), {"L": []})["L"]
        values += [{"B": v} if isinstance(v, bytes) else string(v) for v in headers[name]]
    return fields


# --- Decoding -----------------------------------------------------------------


def content_of(item: Item) -> Entry:
    """Decode the entry of a META or VER# row. Raises MalformedRowError if it cannot be served."""
    _require(item, "", item, _REQUIRED)
    entry = Entry(
        s3_key=read(item, "s3_key", text_of, ""),
        generated_at=read(item, "generated_at", instant_of, 0),
        revalidate_seconds=read(item, "revalidate_seconds", period_of, 0),
        etag=read(item, "etag", text_of, ""),
        ttl=read(item, "ttl", horizon_of, None),
        foreign=True,
    )
    read(item, "current_sk", text_of, "")
    if not _describes_content(item):
        # Another service wrote this row, or overwrote ours: the map describes earlier
        # content.
        return entry
    # The map describes this content, so its status and headers are required: guessing
    # them would be worse than rendering again.
    _require(item, "isr.", child(item, "isr"), _REQUIRED_OF_MAP)
    return replace(entry, foreign=False, generated_ms=_generated_ms(item, entry.generated_at), **_described(item))


def _generated_ms(item: Item, second: int) -> int:
    """Return generated_ms; 0 if it adds nothing to generated_at, or is not in that second."""
    ms = floor_of(child(item, "isr").get("generated_ms", {})) or 0
    return ms if ms // 1000 == second and ms % 1000 else 0


def _described(item: Item) -> dict[str, Any]:
    read(item, "isr.generated_at", instant_of, 0)
    no_headers: dict[str, tuple[HeaderValue, ...]] = {}
    no_tags: tuple[str, ...] = ()
    return {
        "v": read(item, "isr.v", count_of, 0),
        "generation_id": read(item, "isr.generation_id", text_of, ""),
        "key": read(item, "isr.key", text_of, ""),
        "route": read(item, "isr.route", text_of, ""),
        "status": read(item, "isr.status", status_of, 200),
        "headers": read(item, "isr.headers", headers_of, no_headers),
        "content_sha256": read(item, "isr.content_sha256", text_of, ""),
        "content_length": read(item, "isr.content_length", count_of, 0),
        "tags": read(item, "isr.tags", tags_of, no_tags),
        "stale_seconds": read(item, "isr.stale_seconds", period_of, 0),
        "purge_seq": read(item, "isr.purge_seq", count_of, 0),
        "build": read(item, "isr.build", count_of, 0),
        "pinned_until": read(item, "isr.pinned_until", horizon_of, None),
        "asserted_at": read(item, "isr.asserted_at", optional_instant_of, None),
        "render_ms": read(item, "isr.render_ms", count_of, 0),
        "age_seconds": read(item, "isr.age_seconds", count_of, 0),
        "withdrawn": read(item, "isr.withdrawn", flag_of, False),
    }


def _require(item: Item, prefix: str, attributes: Item, required: tuple[tuple[str, str], ...]) -> None:
    for name, expected in required:
        value = attributes.get(name, {})
        if not (text(attributes, name) if expected == EXPECTED_TEXT else "N" in value):
            raise malformed(item, prefix + name, expected)


def _describes_content(item: Item) -> bool:
    """Return whether our map describes the content that the row points to.

    Times are compared as text: DynamoDB returns equal numbers as equal texts, and a
    fraction never equals the whole seconds that we write.
    """
    ours = child(item, "isr")
    mine, theirs = ours.get("generated_at", {}).get("N"), item.get("generated_at", {}).get("N")
    return (
        text(ours, "s3_key") != ""
        and text(ours, "s3_key") == text(item, "s3_key")
        and mine is not None
        and mine == theirs
    )


def pointer_of(meta: Item) -> str:
    """Return the sort key of the row with the content of META, empty if META has it itself.

    Our publishes keep current_sk and isr.generation_id in step. If they differ, a
    service that swaps pointers wrote after us, and the other attributes of META
    describe older content.
    """
    current = text(meta, "current_sk")
    if current == "":
        stored = meta.get("current_sk")
        if stored is not None and "S" not in stored and not is_null(stored):
            raise malformed(meta, "current_sk", "a string")
        return ""
    generation = text(child(meta, "isr"), "generation_id")
    if generation == "" and text(meta, "s3_key") != "":
        return ""  # written by another service, with its content
    return "" if current == VERSION_PREFIX + generation else current


def pointed_entry(meta: Item, version: Item | None) -> Entry:
    """Decode the row that META points to. Raises MalformedRowError if it is missing or malformed."""
    if version is None:
        missing = f'string "{text(meta, "current_sk")}", which is not there'
        raise malformed(meta, "current_sk", "the sort key of a row", missing)
    entry = content_of(version)
    # The fence and the ttl are META's.
    return replace(entry, v=0 if entry.foreign else version_of(meta) or 0, ttl=_expires(meta))


def _expires(meta: Item) -> int | None:
    """Return the ttl of META. An invalid ttl does not keep the pointer from being followed."""
    try:
        return horizon_of(meta["ttl"]) if "ttl" in meta else None
    except CodecError:
        return None


def version_entry(item: Item) -> Entry | None:
    """Decode a version; None if another service wrote it or it is malformed: useless for rollbacks."""
    try:
        entry = content_of(item)
    except MalformedRowError:
        return None
    if entry.foreign or VERSION_PREFIX + entry.generation_id != text(item, "sk"):
        return None
    return entry
