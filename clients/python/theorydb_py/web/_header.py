"""Header fields: which are stored and replayed, validators, and conditions of requests."""

from __future__ import annotations

import re
from collections.abc import Mapping

from theorydb_py.web._fields import FIELD_PREFIXES, FIELDS
from theorydb_py.web._rules import Headers, date_of, members, parse_list, values

_MAX_STATUS_BYTES = 1024
_MAX_TAG_BYTES = 1024
_DIGESTS = frozenset({"repr-digest", "content-digest", "digest", "content-md5"})
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_ETAG = re.compile(r'(?:W/)?("[!#-~\x80-\xff]*")')
# Servers of Python add a Date to each response: with the page's own there would be two.
_NOT_REPLAYED = frozenset({"date", "set-cookie", "set-cookie2"})


def _of_one_answer(name: str) -> bool:
    """Return whether a field belongs to one connection, message, client or answer: spec/responses.json."""
    return name in FIELDS or name.startswith(FIELD_PREFIXES)


def stored_headers(headers: Headers) -> Headers:
    """Return the fields that are stored (RFC 9111, section 3.1; spec/storable.md, rule 13)."""
    of_connection = {name.lower() for name in members(values(headers, "connection"))}
    coded = bool(values(headers, "content-encoding"))
    dates = values(headers, "date")
    dated = len(dates) == 1 and date_of(dates[0]) is not None
    stored = [
        (name, value)
        for name, value in headers
        if (name == "surrogate-control" or not _of_one_answer(name))
        and name not in of_connection
        and (name != "date" or dated)
        and not (coded and name in _DIGESTS)
    ]
    status = ", ".join(values(headers, "cache-status"))
    if 0 < len(status) <= _MAX_STATUS_BYTES and parse_list(status) is not None:  # RFC 9211, section 2
        stored.append(("cache-status", status))
    return stored


def replayed_headers(headers: Headers) -> Headers:
    """Return the stored fields that a response may have, whichever program stored them."""
    return [
        (name, value)
        for name, value in headers
        if not _of_one_answer(name)
        and name not in _NOT_REPLAYED
        and _TOKEN.fullmatch(name)
        and not re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value)
    ]


def etag_of(headers: Headers) -> str:
    """Return the entity tag of a response (RFC 9110, section 8.8.3).

    It is empty if there is none, several, an invalid one, one that is no UTF-8, or one of more than 1,024 bytes.
    """
    tags = values(headers, "etag")
    found = _ETAG.fullmatch(tags[0]) if len(tags) == 1 else None
    if found is None or len(found[1]) > _MAX_TAG_BYTES:
        return ""
    try:
        return tags[0].encode("latin-1").decode()
    except UnicodeDecodeError:
        return ""


def not_modified(headers: Mapping[str, str], etag: str, modified: float) -> bool:
    """Evaluate If-None-Match, or else If-Modified-Since, of a GET or HEAD request (RFC 9110, section 13.2.2)."""
    if "if-none-match" in headers:
        mine = etag.removeprefix("W/")
        return any(
            tag == "*" or (etag != "" and tag.removeprefix("W/") == mine) for tag in members([headers["if-none-match"]])
        )
    since = date_of(headers.get("if-modified-since", ""))
    return since is not None and int(modified) <= since


def modified_at(headers: Headers, generated_at: int) -> float:
    """Return when a page was last modified, in epoch seconds: by its Last-Modified, or else its render."""
    stated = date_of(next(iter(values(headers, "last-modified")), ""))
    return generated_at if stated is None else stated
