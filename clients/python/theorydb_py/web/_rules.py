"""The caching rules: which responses are stored and shared, and for how long (RFC 9111).

spec/storable.md has them for all languages. This module needs no other one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

Headers = list[tuple[str, str]]
"""Names in lower case, and values as WSGI has them: bytes decoded as ISO 8859-1."""

MAX_HEADER_BYTES = 64 << 10
"""The default of the largest stored header, in bytes: it is part of the META row."""
MAX_TAGS = 512
"""The default of how many tags a page may have."""
_MAX_TAG_BYTES = 1024
_MAX_SECONDS = 3650 * 24 * 3600
_MAX_AGE = 1 << 31
_CLOCK_TOLERANCE = 120
_MAX_ERROR_SECONDS = 24 * 3600
_MISSING_FILE_SECONDS = 10

_STORED = frozenset({200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 410})
_FAILED = frozenset({408, 425, 429})
_WITHDRAWN = frozenset({301, 302, 303, 307, 308, 401, 403, 404, 410, 451})
_UNDERSTOOD = _STORED | {201, 202, 205, 207, 208, 226, 305}
"""Registered statuses with one meaning for all visitors (RFC 9111, section 3): only statuses below 400 matter here."""
_DIGITS = re.compile(r"[0-9]+")


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


@dataclass(frozen=True)
class Directives:
    """The directives of a response for this cache, of one field alone (RFC 9213, section 2.2)."""

    arguments: dict[str, str]
    """By the name in lower case; empty for none."""
    malformed: bool = False
    """The fields may hide directives."""
    targeted: bool = False
    """They are of CDN-Cache-Control or Surrogate-Control, beside which Expires does not count."""

    def __contains__(self, name: str) -> bool:
        return name in self.arguments

    def seconds(self, name: str) -> int | None:
        """Return an interval in seconds: 0 if it is no number, None if there is no such directive."""
        text = self.arguments.get(name)
        return None if text is None else _number(text, _MAX_SECONDS)


def judge(
    status: int,
    headers: Headers,
    *,
    stale_seconds: int,
    max_body: int,
    max_header: int = MAX_HEADER_BYTES,
    max_tags: int = MAX_TAGS,
    opt_in: str = "explicit",
    requested: float | None = None,
) -> Verdict:
    """Decide whether a response may be stored and shared. It needs no part of the body.

    ``requested`` is when it was requested, in epoch seconds, for its Date and Expires.
    """
    if status in _FAILED or status >= 500:
        return Verdict(failed=True)
    directives = directives_of(headers)
    if "must-understand" in directives and status in _UNDERSTOOD:
        directives.arguments.pop("no-store", None)  # RFC 9111, section 5.2.2.3
    withdraws = _withdraws(status, headers, directives)
    reason = _refusal(status, headers, directives, max_body, max_header)
    tags = tags_of(headers, max_tags, max_header)
    if reason.endswith("too-large") and tags is None:
        reason = "tags"  # which are what makes a header too large
    if reason:
        return Verdict(refused=reason, withdraws=withdraws)
    lifetime = _lifetime(headers, directives, opt_in, requested) or 0
    fresh = lifetime if status < 400 else _lifetime_of_error(headers, directives, lifetime, requested)
    fresh -= initial_age(headers, requested)
    if fresh <= 0:
        return Verdict(refused="too-old" if lifetime > 0 else "no-freshness", withdraws=withdraws)
    if tags is None:
        return Verdict(refused="tags", withdraws=withdraws)
    stale = _stale_for(directives, "stale-while-revalidate", stale_seconds, allowed=stale_seconds > 0)
    return Verdict(withdraws=withdraws, fresh_seconds=max(1, int(fresh)), stale_seconds=stale, tags=tags)


def stale_if_error(headers: Headers, stale_seconds: int, stale_if_error_seconds: int) -> int:
    """Return for how many seconds after its freshness window a page may be served while renders fail (RFC 5861)."""
    allowed = stale_seconds > 0 or stale_if_error_seconds > 0
    return _stale_for(directives_of(headers), "stale-if-error", stale_if_error_seconds, allowed=allowed)


def allows_on_error(headers: Headers) -> bool:
    """Return whether a stored response whose freshness a purge has ended early may be served while renders fail.

    Its application still calls it fresh.
    """
    directives = directives_of(headers)
    return "must-revalidate" not in directives and "proxy-revalidate" not in directives


def is_personal(headers: Headers) -> bool:
    """Return whether a response is for the visitor who caused it: an error page, for example."""
    directives = directives_of(headers)
    return directives.malformed or "private" in directives or sets_cookie(headers)


# --- Fields ----------------------------------------------------------------


def values(headers: Headers, name: str) -> list[str]:
    """Return the lines of a field."""
    return [value for field, value in headers if field == name]


def members(lines: Iterable[str]) -> Iterator[str]:
    """Yield the members of a list field (RFC 9110, section 5.6.1). Quoted strings are not split."""
    for line in lines:
        for part in re.findall(r'(?:[^,"]|"(?:[^"\\]|\\.)*(?:"|\\?\Z))+', line, re.DOTALL):
            if part.strip(" \t"):
                yield part.strip(" \t")


def sets_cookie(headers: Headers) -> bool:
    """Return whether a response sets a cookie (RFC 6265, and RFC 2965, which it made obsolete)."""
    return any(name in ("set-cookie", "set-cookie2") for name, _ in headers)


def vary_names(headers: Headers) -> list[str]:
    """Return the names of the request headers that a response varies on, except the ones that every key covers."""
    names = {name.lower() for name in members(values(headers, "vary"))}
    return sorted(names - {"accept-encoding", "host"})


def _single(headers: Headers, name: str) -> str:
    """Return the value of a field that has one; empty if there is none, or several (RFC 9110, section 5.5)."""
    lines = values(headers, name)
    return lines[0] if len(lines) == 1 else ""


def _number(text: str, most: int) -> int:
    """Return a number in decimal digits, however many; 0 if it is none."""
    return min(int(text.lstrip("0")[:18] or "0"), most) if _DIGITS.fullmatch(text) else 0


# --- Directives ------------------------------------------------------------


def directives_of(headers: Headers) -> Directives:
    """Return the directives of the field that governs a response (RFC 9213, section 2.2)."""
    dictionary = parse_dictionary(", ".join(values(headers, "cdn-cache-control")))
    arguments = {
        name: str(value) if isinstance(value, int) and value is not True else ""
        for name, value in (dictionary or {}).items()
        if value is not False
    }
    if arguments:
        return Directives(arguments, targeted=True)
    surrogate = _surrogate(values(headers, "surrogate-control"))
    if surrogate.malformed or "max-age" in surrogate or "no-store" in surrogate:
        return surrogate
    common = _cache_control(values(headers, "cache-control"))
    hidden = dictionary is None and not common.arguments
    return Directives(common.arguments, malformed=common.malformed or hidden)


def _cache_control(lines: list[str], *, targeted: bool = False) -> Directives:
    """Parse Cache-Control (RFC 9111, section 5.2). The first of repeated directives counts."""
    arguments: dict[str, str] = {}
    for member in members(lines):
        name, _, value = member.partition("=")
        name = name.strip(" \t").lower()
        if name:
            arguments.setdefault(name, value.strip(" \t").strip('"'))
    return Directives(arguments, malformed=not all(map(_well_quoted, lines)), targeted=targeted)


def _surrogate(lines: list[str]) -> Directives:
    """Parse Surrogate-Control (W3C note "Edge Architecture Specification", section 2.2)."""
    own: list[str] = []
    common: list[str] = []
    for member in members(lines):
        end = member.rfind(";")
        if end <= member.rfind('"'):
            common.append(member)
        elif member[end + 1 :].strip(" \t").lower() == "isr":
            own.append(member[:end])
    directives = _cache_control(own + common, targeted=True)
    if '"' in _QUOTED.sub("", ", ".join(lines)):  # a semicolon may be part of a quoted string
        directives = replace(directives, malformed=True)
    window, plus, stale = directives.arguments.get("max-age", "").partition("+")
    if plus:
        directives.arguments["max-age"] = window.strip(" \t")
        for name in ("stale-while-revalidate", "stale-if-error"):
            directives.arguments.setdefault(name, stale.strip(" \t"))
    return directives


_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def _well_quoted(line: str) -> bool:
    """Return whether each quoted string of a list is closed, and the whole argument of a directive.

    Others may hide directives: what follows them may be a directive for one reader and not for another.
    """
    argued, last, at = False, "", 0  # whether the directive has had a quoted string; the last character but white space
    while at < len(line):
        character = line[at]
        at += 1
        if character in " \t":
            continue
        if character == ",":
            argued = False
        elif argued:
            return False
        elif character == '"':
            found = _QUOTED.match(line, at - 1)
            if last != "=" or found is None:
                return False
            argued, at = True, found.end()
        last = character
    return True


# --- The verdict ------------------------------------------------------------


def _refusal(status: int, headers: Headers, directives: Directives, max_body: int, max_header: int) -> str:
    for refuses, reason in (
        (status not in _STORED, "status"),
        (sets_cookie(headers), "set-cookie"),
        (directives.malformed, "malformed"),
        ("private" in directives, "private"),
        ("no-store" in directives, "no-store"),
        ("no-cache" in directives, "no-cache"),
        (bool(vary_names(headers)), "vary"),
        (any(c.lower() != "identity" for c in members(values(headers, "content-encoding"))), "content-encoding"),
        (_endless(headers), "stream"),
        (_number(_single(headers, "content-length"), 1 << 60) > max_body, "too-large"),
        (sum(len(name) + len(value) + 32 for name, value in headers) > max_header, "header-too-large"),
    ):
        if refuses:
            return reason
    return ""


def _endless(headers: Headers) -> bool:
    content_type = next(iter(values(headers, "content-type")), "").lower()
    return content_type.startswith(("text/event-stream", "multipart/x-mixed-replace"))


def _withdraws(status: int, headers: Headers, directives: Directives) -> bool:
    if status in _WITHDRAWN:
        return True
    forbidden = directives.malformed or any(name in directives for name in ("private", "no-store", "no-cache"))
    return status < 400 and (forbidden or sets_cookie(headers))


# --- Windows ----------------------------------------------------------------


def _lifetime(headers: Headers, directives: Directives, opt_in: str, requested: float | None) -> float | None:
    """Return the lifetime that a response states for shared caches (RFC 9111, section 4.2.1); None if there is none."""
    shared = directives.seconds("s-maxage")
    if shared is not None:
        return shared
    stated = directives.seconds("max-age")
    if stated is not None:
        return stated if opt_in == "explicit" or directives.targeted or "public" in directives else None
    if directives.targeted or opt_in == "strict" or not values(headers, "expires"):
        return None
    return _until_expires(headers, requested)


def _lifetime_of_error(headers: Headers, directives: Directives, lifetime: float, requested: float | None) -> float:
    """Return the lifetime of an error. One with the lifetime of a file is fresh for a moment only."""
    if directives.targeted or "s-maxage" in directives:
        return lifetime
    common = _cache_control(values(headers, "cache-control"))
    stated: float | None = common.seconds("max-age")
    if stated is None:
        stated = _until_expires(headers, requested) if values(headers, "expires") else 0
    is_of_file = "immutable" in common or stated > _MAX_ERROR_SECONDS
    return min(lifetime, _MISSING_FILE_SECONDS) if is_of_file else lifetime


def _until_expires(headers: Headers, requested: float | None) -> float:
    """Return the seconds from Date, or else the request, to Expires; 0 if one is invalid (RFC 9111, section 5.3)."""
    expires = date_of(_single(headers, "expires"))
    date = date_of(_single(headers, "date")) if values(headers, "date") else requested
    return 0 if expires is None or date is None else min(expires - date, _MAX_SECONDS)


def initial_age(headers: Headers, requested: float | None) -> int:
    """Return the age that a response had when it was requested (RFC 9111, section 4.2.3), in seconds.

    Without ``requested``, its Date does not count.
    """
    age = _number(next(iter(values(headers, "age")), "").partition(",")[0].strip(" \t"), _MAX_AGE)
    date = date_of(_single(headers, "date"))
    if date is None or requested is None:
        return age
    apparent = int(requested - date)
    # A small one is a difference between the clocks.
    return max(age, min(apparent, _MAX_SECONDS)) if apparent > _CLOCK_TOLERANCE else age


def _stale_for(directives: Directives, directive: str, longest: int, *, allowed: bool) -> int:
    """Return what a directive of RFC 5861 grants within the bound of the cache, which is the default if it is positive.

    must-revalidate and proxy-revalidate forbid stale responses, and so does s-maxage unless the operator allows it
    (RFC 9111, sections 5.2.2.2, 5.2.2.8 and 5.2.2.10).
    """
    if "must-revalidate" in directives or "proxy-revalidate" in directives:
        return 0
    if "s-maxage" in directives and not allowed:
        return 0
    stated = directives.seconds(directive)
    if stated is None or directives.arguments[directive] == "":  # without an argument, as Nuxt writes it
        return longest
    return min(stated, longest) if longest > 0 else stated


_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DATES = (
    re.compile(f"(?P<name>[a-z]{{3}}), (?P<day>[0-9]{{2}}) (?P<month>[a-z]{{3}}) (?P<year>[0-9]{{4}}) {_TIME} gmt"),
    re.compile(f"(?P<name>[a-z]{{6,9}}), (?P<day>[0-9]{{2}})-(?P<month>[a-z]{{3}})-(?P<year>[0-9]{{2}}) {_TIME} gmt"),
    re.compile(f"(?P<name>[a-z]{{3}}) (?P<month>[a-z]{{3}}) (?P<day>[ 1-3][0-9]) {_TIME} (?P<year>[0-9]{{4}})"),
)


def date_of(text: str) -> float | None:
    """Return a date in a format of RFC 9110, section 5.6.7, exactly, in epoch seconds; None if it is none."""
    found = next(filter(None, (date.fullmatch(text.lower()) for date in _DATES)), None)
    if found is None or found["month"] not in _MONTHS:
        return None
    year = int(found["year"])
    if len(found["year"]) == 2:
        year += 2000 if year < 69 else 1900
    numbers = (int(found["day"]), int(found["hour"]), int(found["minute"]), int(found["second"]))
    try:
        date = datetime(year, 1 + _MONTHS.index(found["month"]), *numbers, tzinfo=UTC)
    except ValueError:
        return None
    name = _DAYS[date.weekday()]
    return date.timestamp() if found["name"] == (name if len(found["year"]) == 2 else name[:3]) else None


# --- Tags -------------------------------------------------------------------

# The white space of Unicode.
_SPACE = "[\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+"


def tags_of(headers: Headers, max_tags: int, max_bytes: int) -> tuple[str, ...] | None:
    """Return the purge tags that a response names, sorted; None if one is invalid or there are too many.

    They are in Surrogate-Key (separated by spaces), Cache-Tag and X-Next-Cache-Tags
    (by commas), and Cache-Groups (a list of strings, RFC 9875). Without one of its tags, a purge would miss the page.
    """
    found: set[str] = set()
    try:
        for name, value in headers:
            if name == "surrogate-key":  # a comma at the end of a key joins lines
                keys = re.split(_SPACE, value.encode("latin-1").decode())
                found.update(key.rstrip(",") for key in keys)
            elif name in ("cache-tag", "x-next-cache-tags"):
                text = value.encode("latin-1").decode()
                found.update(re.sub(f"^{_SPACE}|{_SPACE}$", "", tag) for tag in text.split(","))
    except UnicodeDecodeError:
        return None
    found.discard("")
    groups = parse_list(", ".join(values(headers, "cache-groups")))
    if groups is None:
        return None
    for group in groups:
        if not isinstance(group, str):
            return None
        found.add(group)
    sizes = [len(tag.encode()) for tag in found]
    fit = len(found) <= max_tags and sum(sizes) <= max_bytes and all(1 <= size <= _MAX_TAG_BYTES for size in sizes)
    return tuple(sorted(found)) if fit and not any(re.search(r"[\x00-\x1f\x7f]", tag) for tag in found) else None


# --- Structured values (RFC 9651) --------------------------------------------

Item = int | bool | str | None
"""None for a type other than these, and for an inner list."""

_KEY = r"[a-z*][a-z0-9_\-.*]*"
_BARE = (
    r'(?:"(?:[ !#-\[\]-~]|\\["\\])*"'
    r"|-?(?:[0-9]{1,12}\.[0-9]{1,3}|[0-9]{1,15})"
    r"|:(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?:"
    r"|\?[01]|@-?[0-9]{1,15}"
    r"|[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*"
    r'|%"(?:[ !#$&-~]|%[0-9a-f]{2})*")'
)
_PARAMETERS = rf"(?:; *{_KEY}(?:={_BARE})?)*"
_INNER_LIST = rf"\( *(?:{_BARE}{_PARAMETERS}(?: +{_BARE}{_PARAMETERS})* *)?\)"
_DICTIONARY_MEMBER = re.compile(rf"({_KEY})(?:=({_BARE}|{_INNER_LIST}))?{_PARAMETERS}")
_LIST_MEMBER = re.compile(rf"({_BARE}|{_INNER_LIST}){_PARAMETERS}")
_SEPARATOR = re.compile(r"[ \t]*,[ \t]*(?=.)", re.DOTALL)


def parse_dictionary(text: str) -> dict[str, Item] | None:
    """Parse a dictionary (section 4.2.2), without parameters; None if it is none. The last of equal names counts."""
    found = _structured(text, _DICTIONARY_MEMBER)
    return None if found is None else {m[1]: True if m[2] is None else _item(m[2]) for m in found}


def parse_list(text: str) -> list[Item] | None:
    """Parse a list (section 4.2.1), without parameters; None if it is none."""
    found = _structured(text, _LIST_MEMBER)
    return None if found is None else [_item(m[1]) for m in found]


def _structured(text: str, member: re.Pattern[str]) -> list[re.Match[str]] | None:
    text = text.lstrip(" ").rstrip(" \t")
    found: list[re.Match[str]] = []
    at = 0
    while at < len(text):
        match = member.match(text, at)
        if match is None:
            return None
        found.append(match)
        if match.end() == len(text):
            break
        separator = _SEPARATOR.match(text, match.end())
        if separator is None:
            return None
        at = separator.end()
    return found


def _item(text: str) -> Item:
    if text.startswith('"'):
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    if text.startswith("?"):
        return text == "?1"
    return int(text) if re.fullmatch("-?[0-9]+", text) else None
