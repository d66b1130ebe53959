"""Canonical cache keys: the key under which ``isr serve`` stores the page of a URL.

    host + path ['?' + query, sorted by names, percent-encoded] ['#' + variant]

The host is a name or an IP address in lower case, without a trailing dot and without a
default port. The key has no scheme.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from urllib.parse import quote_from_bytes

from theorydb_py.errors import InvalidInputError, InvalidKeyError
from theorydb_py.isr._keys import check_cache_key

_MAX_HOST = 260
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_LAST_PORT = 65535
_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{0,5}))?")
_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_PATH = re.compile(r"/[!$-;=@A-Z\[\]_a-z~]*")  # printable ASCII without " # < > ? \ ^ ` { | }
_ESCAPE = re.compile(r"%(.{0,2})", re.DOTALL)
_HEX = re.compile(r"[0-9A-Fa-f]{2}")
_UNRESERVED = re.compile(r"[A-Za-z0-9\-._~]")


def canonical_key(text: str) -> str:
    """Return the canonical key of a URL or of a key, with all its query parameters.

    Raises:
        InvalidKeyError: the text does not begin with a host name, is not percent-encoded
            like a URL, or the key is longer than 4,096 bytes.
        InvalidInputError: it is no str.
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"the key is {text!r}: expected a str such as https://example.com/page")
    rest, _, variant = _SCHEME.sub("", text, count=1).partition("#") if _SCHEME.match(text) else text.partition("#")
    rest, _, query = rest.partition("?")
    host, slash, path = rest.partition("/")
    if host.endswith(":") and path.startswith("/"):
        raise InvalidKeyError(
            f"{text[:100]!r} has a scheme other than http and https: expected a URL like https://example.com/page "
            "or a key like example.com/page"
        )
    key = _canonical_host(host, text) + _canonical_path(slash + path or "/", text)
    query = _canonical_query(query, text)
    return check_cache_key(key + (f"?{query}" if query else "") + (f"#{variant}" if variant else ""))


def _canonical_host(host: str, text: str) -> str:
    refused = InvalidKeyError(
        f"{text[:100]!r} does not begin with a host name: expected a URL like https://example.com/page "
        "or a key like example.com/page"
    )
    found = _HOST.fullmatch(host)
    if len(host) > _MAX_HOST or found is None:
        raise refused
    name, port = found[1], found[2] or ""
    if not name.startswith("["):
        name = name.removesuffix(".")
    if not (_is_ipv6(name) if name.startswith("[") else _NAME.fullmatch(name)):
        raise refused
    if port and (port[0] == "0" or int(port) > _LAST_PORT):
        raise refused
    name = name.lower()
    # The key has no scheme, so both default ports are dropped.
    return name if port in ("", "80", "443") else f"{name}:{port}"


def _is_ipv6(bracketed: str) -> bool:
    try:
        address = IPv6Address(bracketed[1:-1])
    except ValueError:
        return False
    return address.scope_id is None


def _canonical_path(path: str, text: str) -> str:
    """Normalize percent-encoding (RFC 3986, section 6.2.2): unreserved characters are decoded."""
    refused = InvalidKeyError(f"the path of {text[:100]!r} is not percent-encoded like a URL's")
    if _PATH.fullmatch(path) is None:
        raise refused

    def normal(escape: re.Match[str]) -> str:
        digits = escape[1]
        if _HEX.fullmatch(digits) is None:
            raise refused
        character = chr(int(digits, 16))
        return character if _UNRESERVED.fullmatch(character) else "%" + digits.upper()

    return _ESCAPE.sub(normal, path)


def _canonical_query(query: str, text: str) -> str:
    """Sort and percent-encode parameters. Equal names keep their order, which may be significant."""
    pairs: list[tuple[str, str]] = []
    for part in filter(None, query.split("&")):
        if ";" in part:  # some servers separate parameters there: ambiguous
            raise InvalidKeyError(f"the query of {text[:100]!r} contains a semicolon: percent-encode it as %3B")
        name, equals, value = part.partition("=")
        encoded = _requote(name, text)
        pairs.append((encoded, encoded + (equals and equals + _requote(value, text))))
    pairs.sort(key=lambda pair: pair[0])
    return "&".join(pair[1] for pair in pairs)


def _requote(part: str, text: str) -> str:
    """Percent-encode everything in a name or value except unreserved characters, once."""
    refused = InvalidKeyError(f"the query of {text[:100]!r} is not percent-encoded like a URL's")

    def byte(escape: re.Match[bytes]) -> bytes:
        if re.fullmatch(rb"[0-9A-Fa-f]{2}", escape[1]) is None:
            raise refused
        return bytes.fromhex(escape[1].decode("ascii"))

    try:
        raw = part.replace("+", " ").encode()
    except UnicodeEncodeError:
        raise refused from None
    return quote_from_bytes(re.sub(rb"(?s)%(.{0,2})", byte, raw), safe="")
