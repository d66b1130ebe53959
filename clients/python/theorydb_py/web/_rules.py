"""The caching rules: which responses are stored and shared, and for how long (RFC 9111).

They are those of the Go package internal/httpcache under ``opt_in: strict``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

Headers = list[tuple[str, str]]
"""Names in lower case, and values as WSGI has them: bytes decoded as ISO 8859-1."""

MAX_HEADER_BYTES = 16 << 10
"""The largest stored header, in bytes: it is part of the META row."""
MAX_TAGS = 128
MAX_TAG_BYTES = 16 << 10
_MAX_TAG = 1024
_MAX_SECONDS = 3650 * 24 * 3600

_STORED = frozenset({200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 410})
_FAILED = frozenset({408, 425, 429})
_WITHDRAWN = frozenset({301, 302, 303, 307, 308, 401, 403, 404, 410, 451})
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_ETAG = re.compile(r'(?:W/)?"[!#-~\x80-\xff]*"')
_SECONDS = re.compile(r"[0-9]+")
# RFC 9651, as far as the fields need it: keys, and items without inner lists.
_PARAMETERS = r"(?:;[ ]*[a-z*][a-z0-9_.*-]*(?:=(?:%(item)s))?)*" % {  # noqa: UP031 - braces are of the pattern
    "item": r'-?[0-9]+(?:\.[0-9]{1,3})?|"(?:[ !#-\[\]-~]|\\["\\])*"|[A-Za-z*][!#$%&\'*+\-.^_`|~0-9A-Za-z:/]*|\?[01]'
}
_MEMBER = re.compile(
    r"([a-z*][a-z0-9_.*-]*)(?:=(-?[0-9]{1,15}|\"(?:[ !#-\[\]-~]|\\[\"\\])*\"|[A-Za-z*][^ ,;=\"]*|\?[01]))?"
    + _PARAMETERS
)
_STRING = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"' + _PARAMETERS)


@dataclass(frozen=True)
class Verdict:
    """The result of judging a response by its status and header."""

    refused: str = ""
    """Why it must not be stored; empty if it may be."""
    failed: bool = False
    """The render failed: the stored page stays valid."""
    withdraws: bool = False
    """The stored page must no longer be served."""
    fresh_seconds: int = 0
    stale_seconds: int = 0
    tags: tuple[str, ...] = ()


def judge(status: int, headers: Headers, *, stale_seconds: int, max_body: int) -> Verdict:
    """Decide whether a response may be stored and shared. It needs no part of the body."""
    directives, targeted = _for_shared_cache(headers)
    if status in _FAILED or status >= 500:
        return Verdict(failed=True)
    if "must-understand" in directives and status in _STORED:
        directives.pop("no-store", None)  # RFC 9111, section 5.2.2.3
    withdraws = _withdraws(status, headers, directives)
    reason = _refusal(status, headers, directives, max_body)
    if reason:
        return Verdict(refused=reason, withdraws=withdraws)
    fresh = _lifetime(headers, directives, targeted=targeted)
    if fresh <= 0:
        return Verdict(refused="no-freshness", withdraws=withdraws)
    tags = tags_of(headers)
    if tags is None:
        return Verdict(refused="tags", withdraws=withdraws)
    stale = _stale_for(directives, "stale-while-revalidate", stale_seconds)
    return Verdict(withdraws=withdraws, fresh_seconds=fresh, stale_seconds=stale, tags=tags)


def stale_if_error(headers: Headers, stale_seconds: int) -> int:
    """Return for how many seconds after its freshness window a page may be served while renders fail (RFC 5861)."""
    return _stale_for(_for_shared_cache(headers)[0], "stale-if-error", stale_seconds)


def values(headers: Headers, name: str) -> list[str]:
    """Return the lines of a field."""
    return [value for field, value in headers if field == name]


def members(lines: Iterable[str]) -> Iterator[str]:
    """Yield the members of a list field. Quoted strings are not split."""
    for line in lines:
        for part in re.findall(r'(?:[^,"]|"(?:[^"\\]|\\.)*(?:"|$))+', line):
            if part.strip(" \t"):
                yield part.strip(" \t")


def stored_headers(headers: Headers) -> Headers:
    """Return the fields that are replayed: without those of one connection, moment or request (RFC 9111, 3.1)."""
    dropped = _DROPPED | {name.lower() for name in members(values(headers, "connection"))}
    return [(name, value) for name, value in headers if name not in dropped]


def replayed_headers(headers: Headers) -> Headers:
    """Return the stored fields that a response may have, whichever program stored them."""
    return [
        (name, value)
        for name, value in headers
        if name not in _NOT_REPLAYED and _TOKEN.fullmatch(name) and not re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value)
    ]


_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "proxy-authentication-info",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_DROPPED = _HOP_BY_HOP | {
    "age",
    "cache-status",
    "warning",
    "content-length",
    "content-encoding",
    "etag",
    "surrogate-control",
    "x-request-id",
}
# Servers of Python add a Date to each response: with that of the page there would be two.
_NOT_REPLAYED = _HOP_BY_HOP | {
    "age",
    "content-length",
    "content-encoding",
    "date",
    "etag",
    "set-cookie",
    "set-cookie2",
    "surrogate-control",
}


def valid_etag(text: str) -> bool:
    """Return whether it is an entity tag (RFC 9110, section 8.8.3) of at most 1,024 bytes."""
    return len(text) <= 1024 and _ETAG.fullmatch(text) is not None


def initial_age(headers: Headers) -> int:
    """Return the Age that a response has, in seconds; 0 if it has none."""
    text = ",".join(values(headers, "age")).partition(",")[0].strip(" \t")
    return min(int(text[:12]), 1 << 31) if _SECONDS.fullmatch(text) else 0


def not_modified(headers: dict[str, str], etag: str, modified: float) -> bool:
    """Evaluate If-None-Match, or else If-Modified-Since, of a GET or HEAD request (RFC 9110, section 13.2.2)."""
    if "if-none-match" in headers:
        mine = etag.removeprefix("W/")
        return any(
            tag == "*" or (etag != "" and tag.removeprefix("W/") == mine) for tag in members([headers["if-none-match"]])
        )
    since = _seconds_of_date(headers.get("if-modified-since", ""))
    return since is not None and int(modified) <= since


def modified_at(headers: Headers, generated_at: int) -> float:
    """Return when a page was last modified, in epoch seconds: by its Last-Modified, or else its render."""
    stated = _seconds_of_date(next(iter(values(headers, "last-modified")), ""))
    return generated_at if stated is None else stated


def _seconds_of_date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp() if text.upper().endswith("GMT") else None
    except (ValueError, TypeError, OverflowError):
        return None


def tags_of(headers: Headers) -> tuple[str, ...] | None:
    """Return the purge tags that a response names, sorted; None if one is invalid or there are too many.

    They are in Surrogate-Key (separated by spaces), Cache-Tag and X-Next-Cache-Tags
    (by commas), and Cache-Groups (a list of strings, RFC 9875).
    """
    found: set[str] = set()
    for name, value in headers:
        if name == "surrogate-key":
            found.update(value.split())
        elif name in ("cache-tag", "x-next-cache-tags"):
            found.update(tag.strip() for tag in value.split(","))
        elif name == "cache-groups":
            groups = [_STRING.fullmatch(member) for member in members([value])]
            if None in groups:
                return None
            found.update(re.sub(r"\\(.)", r"\1", group[1]) for group in groups if group)
    found.discard("")
    try:
        tags = tuple(sorted(tag.encode("latin-1").decode() for tag in found))
    except UnicodeDecodeError:
        return None
    sizes = [len(tag.encode()) for tag in tags]
    fit = len(tags) <= MAX_TAGS and sum(sizes) <= MAX_TAG_BYTES and all(size <= _MAX_TAG for size in sizes)
    return tags if fit and not any(re.search(r"[\x00-\x1f\x7f]", tag) for tag in tags) else None


def vary_names(headers: Headers) -> list[str]:
    """Return the names of the request headers that a response varies on, except those that every key covers."""
    names = {name.lower() for name in members(values(headers, "vary"))}
    return sorted(names - {"accept-encoding", "host"})


def _refusal(status: int, headers: Headers, directives: dict[str, str], max_body: int) -> str:
    for refuses, reason in (
        (status not in _STORED, "status"),
        (bool(values(headers, "set-cookie") + values(headers, "set-cookie2")), "set-cookie"),
        ('"' in directives, "malformed"),
        ("private" in directives, "private"),
        ("no-store" in directives, "no-store"),
        ("no-cache" in directives, "no-cache"),
        (bool(vary_names(headers)), "vary"),
        (any(c.lower() != "identity" for c in members(values(headers, "content-encoding"))), "content-encoding"),
        (_endless(headers), "stream"),
        (_declared_length(headers) > max_body, "too-large"),
        (sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES, "too-large"),
    ):
        if refuses:
            return reason
    return ""


def _endless(headers: Headers) -> bool:
    content_type = next(iter(values(headers, "content-type")), "")
    return content_type.startswith(("text/event-stream", "multipart/x-mixed-replace"))


def _declared_length(headers: Headers) -> int:
    text = next(iter(values(headers, "content-length")), "")
    return int(text[:18]) if _SECONDS.fullmatch(text) else -1


def _withdraws(status: int, headers: Headers, directives: dict[str, str]) -> bool:
    if status in _WITHDRAWN:
        return True
    cookie = any(name in ("set-cookie", "set-cookie2") for name, _ in headers)
    ends = cookie or any(name in directives for name in ("private", "no-store", "no-cache", '"'))
    return status < 400 and ends


def _lifetime(headers: Headers, directives: dict[str, str], *, targeted: bool) -> int:
    stated = _seconds(directives, "s-maxage")
    if stated is None and (targeted or "public" in directives):
        stated = _seconds(directives, "max-age")
    return 0 if stated is None else stated - initial_age(headers)


def _stale_for(directives: dict[str, str], directive: str, route: int) -> int:
    """Return what a directive grants within the bound of the cache, which is the default if it is positive.

    must-revalidate and proxy-revalidate forbid stale responses, and so does s-maxage unless the operator allows it
    (RFC 9111, sections 5.2.2.2, 5.2.2.8 and 5.2.2.10).
    """
    if "must-revalidate" in directives or "proxy-revalidate" in directives:
        return 0
    if "s-maxage" in directives and route <= 0:
        return 0
    stated = _seconds(directives, directive)
    if stated is None:
        return route
    return min(stated, route) if route > 0 else stated


def _seconds(directives: dict[str, str], name: str) -> int | None:
    """Return an interval in seconds; 0 if it is no number, None if there is no such directive."""
    text = directives.get(name)
    if text is None:
        return None
    return min(int(text[:12]), _MAX_SECONDS) if _SECONDS.fullmatch(text) else 0


def _for_shared_cache(headers: Headers) -> tuple[dict[str, str], bool]:
    """Return CDN-Cache-Control alone, if it has members (RFC 9213, section 2.2), or else Cache-Control.

    A response whose CDN-Cache-Control cannot be parsed, without Cache-Control, is malformed.
    """
    targeted = _dictionary(values(headers, "cdn-cache-control"))
    if targeted:
        return targeted, True
    directives: dict[str, str] = {}
    for line in values(headers, "cache-control"):
        if len(re.findall(r'"', re.sub(r"\\.", "", line))) % 2:
            directives['"'] = ""
        for part in members([line]):
            name, _, value = part.partition("=")
            directives.setdefault(name.strip().lower(), value.strip().strip('"'))
    if targeted is None and not directives:
        directives['"'] = ""
    return directives, False


def _dictionary(lines: list[str]) -> dict[str, str] | None:
    """Parse a dictionary of structured values (RFC 9651, section 3.2); None if it is none."""
    directives: dict[str, str] = {}
    for member in members(lines):
        found = _MEMBER.fullmatch(member)
        if found is None:
            return None
        name, value = found[1], found[2] or ""
        directives.pop(name, None)
        if value != "?0":
            directives[name] = value if _SECONDS.fullmatch(value) else ""
    return directives
