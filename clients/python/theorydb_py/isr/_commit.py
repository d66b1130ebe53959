"""The entry that commit_generation, the call of the reference documents, publishes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from theorydb_py.errors import InvalidInputError
from theorydb_py.isr._entry import Entry
from theorydb_py.isr._numbers import check_number


def committed_entry(
    *,
    html_pointer: str,
    generated_at_ms: float,
    revalidate_seconds: float,
    etag: str | None,
    generation_id: str,
    cache_key: str,
    purge_seq: int | None,
    described: Mapping[str, Any],
) -> Entry:
    """Return the entry to publish.

    described holds the members of Entry that describe the content, None where the
    caller did not pass one. Without any, the row is written as another service writes
    it, since its body could not be verified.

    Raises InvalidInputError if members are given without content_sha256 and
    content_length, which readers need to verify the body, or if purge_seq is None,
    which is the case for a lease of another process.
    """
    given = {name: value for name, value in described.items() if value is not None}
    if given and ("content_sha256" not in given or "content_length" not in given):
        raise InvalidInputError(
            f"{', '.join(given)}: content_sha256 and content_length are required too, to verify the body"
        )
    if given and purge_seq is None:
        raise InvalidInputError(
            "another process acquired the lease: pass the purge_seq that it read before rendering, "
            "or nothing that describes the content"
        )
    ms = math.floor(check_number("generated_at_ms", generated_at_ms))
    window: Any = revalidate_seconds  # validated and rounded when it is stored
    return Entry(
        s3_key=html_pointer,
        generated_at=ms // 1000,
        generated_ms=ms if given and ms > 0 else 0,
        revalidate_seconds=window,
        etag=etag or "",
        foreign=not given,
        generation_id=generation_id,
        key=cache_key,
        purge_seq=purge_seq or 0,
        **given,
    )


def reference_entry(entry: Entry) -> Entry:
    """Reduce an entry to the attributes of the reference schema, as readers find it."""
    return Entry(
        s3_key=entry.s3_key,
        generated_at=entry.generated_at,
        revalidate_seconds=entry.revalidate_seconds,
        etag=entry.etag,
        ttl=entry.ttl,
        foreign=True,
    )
