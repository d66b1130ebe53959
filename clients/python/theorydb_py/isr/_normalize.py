"""Validates and normalizes entries before they are stored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from theorydb_py._times import MAX_EPOCH
from theorydb_py.errors import InvalidInputError
from theorydb_py.isr._entry import Entry
from theorydb_py.isr._numbers import (
    MAX_INTERVAL,
    MAX_STATUS,
    MIN_STATUS,
    check_count,
    check_interval,
    check_time,
    clamp,
)
from theorydb_py.isr._row import HeaderValue

_MAX_ID = 1000
_MAX_RENDER = MAX_INTERVAL * 1000


def normalize_entry(entry: Entry) -> Entry:
    """Return the entry as readers will find it. Raises InvalidInputError if it cannot be stored."""
    for name in ("s3_key", "generation_id"):
        if check_text(name, getattr(entry, name)) == "":
            raise InvalidInputError(f"{name} is empty: expected the name of the body and the id of the generation")
    if len(entry.generation_id.encode()) > _MAX_ID:
        raise InvalidInputError(
            f"generation_id has {len(entry.generation_id)} characters: expected at most {_MAX_ID} bytes"
        )
    for name in ("etag", "key", "route", "content_sha256"):
        check_text(name, getattr(entry, name))
    check_count("status", entry.status)
    if not MIN_STATUS <= entry.status <= MAX_STATUS:
        raise InvalidInputError(f"status is {entry.status}: expected an HTTP status, {MIN_STATUS} to {MAX_STATUS}")
    return replace(
        entry,
        generated_at=(second := _start_second(entry.generated_at)),
        generated_ms=_start_ms(entry.generated_ms, second),
        revalidate_seconds=check_interval("revalidate_seconds", entry.revalidate_seconds),
        stale_seconds=check_interval("stale_seconds", entry.stale_seconds),
        content_length=check_count("content_length", entry.content_length),
        purge_seq=check_count("purge_seq", entry.purge_seq),
        build=check_count("build", entry.build),
        render_ms=clamp(check_count("render_ms", entry.render_ms), _MAX_RENDER),
        age_seconds=check_interval("age_seconds", entry.age_seconds),
        ttl=whole_seconds("ttl", entry.ttl),
        pinned_until=whole_seconds("pinned_until", entry.pinned_until),
        asserted_at=whole_seconds("asserted_at", entry.asserted_at),
        tags=_checked_tags(entry.tags),
        headers=_checked_headers(entry.headers),
    )


def whole_seconds(name: str, value: float | None) -> int | None:
    """Return an optional time in whole seconds, rounded down; milliseconds are refused."""
    return None if value is None else clamp(math.floor(check_time(name, value)), MAX_EPOCH)


def check_text(name: str, value: object) -> str:
    """Require text that DynamoDB can store."""
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} is {value!r}: expected a str")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{name} is {value[:60]!r}: expected Unicode text without lone surrogates") from None
    return value


def _checked_tags(tags: object) -> tuple[str, ...]:
    if not isinstance(tags, tuple | list):
        raise InvalidInputError(f"tags are {tags!r}: expected a tuple of str")
    return tuple(check_text("a tag", tag) for tag in tags)


def _checked_headers(headers: object) -> dict[str, tuple[HeaderValue, ...]]:
    if not isinstance(headers, Mapping):
        raise InvalidInputError(f"headers are {headers!r}: expected a mapping of names to tuples of values")
    checked: dict[str, tuple[HeaderValue, ...]] = {}
    for name in sorted(headers, key=lambda name: check_text("a header name", name).encode()):
        values = headers[name]
        if not isinstance(values, tuple | list):
            raise InvalidInputError(f"header {name} is {values!r}: expected a tuple of str or bytes")
        # Names that differ only in case are one field.
        checked[name.lower()] = checked.get(name.lower(), ()) + tuple(_checked_value(name, v) for v in values)
    return checked


def _checked_value(name: str, value: object) -> HeaderValue:
    return value if isinstance(value, bytes) else check_text(f"a value of header {name}", value)


def _start_ms(value: int, second: int) -> int:
    ms = check_count("generated_ms", value)
    if ms and ms // 1000 != second:
        raise InvalidInputError(f"generated_ms is {ms}: expected milliseconds of the second {second}, generated_at")
    return ms if ms % 1000 else 0


def _start_second(value: float) -> int:
    second = math.floor(check_time("generated_at", value))
    if second < 1:
        raise InvalidInputError(f"generated_at is {value!r}: expected when rendering began, in epoch seconds")
    return second
