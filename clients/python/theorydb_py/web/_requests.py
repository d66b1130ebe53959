"""Requests: which bypass the cache, the key of the others, and the request that the application is called with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote_plus, unquote_to_bytes, urljoin, urlsplit

from theorydb_py import InvalidInputError, InvalidKeyError
from theorydb_py.isr import canonical_key

from ._wellknown import COOKIE_PREFIXES, COOKIES, PARAMETER_PREFIXES, PARAMETERS

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "QUERY", "REPORT", "SEARCH"})
_TENANT_HEADERS = ("x-tenant", "x-tenant-id", "tenant-id", "x-org-id", "x-organization-id", "x-account-id")
_MAX_REFERENCE = 4096
_PATH_SAFE = "/!$&'()*+,;=:@[]-._~"


@dataclass(frozen=True)
class Request:
    """What the cache reads of a request."""

    method: str
    path: str
    """Decoded, as applications get it, with the path that the application is mounted at."""
    query: str
    """As it was sent."""
    headers: Mapping[str, str]
    """Names in lower case; the lines of a repeated header are joined by commas."""
    has_body: bool

    @property
    def host(self) -> str:
        """The Host header; empty if there is none."""
        return self.headers.get("host", "")

    @property
    def unsafe(self) -> bool:
        """Whether the request may change its page (RFC 9110, section 9.2.1)."""
        return self.method not in _SAFE_METHODS


@dataclass(frozen=True)
class Projected:
    """The request that a page is rendered for. It is made of the cache key alone."""

    host: str
    path: str
    """Percent-encoded."""
    query: str

    @classmethod
    def of(cls, key: str) -> Projected:
        """Return the request of a key."""
        rest, _, query = key.partition("?")
        host, _, path = rest.partition("/")
        return cls(host, "/" + path, query)

    def headers(self, scheme: str) -> tuple[tuple[str, str], ...]:
        """Return all of its headers. The scheme is the public URLs', which some applications read there."""
        same = (("accept", "*/*"), ("accept-encoding", "identity"), ("user-agent", "isr"))
        return (("host", self.host), *same, ("x-forwarded-proto", scheme))

    def server(self, scheme: str) -> tuple[str, int]:
        """Return the name and the port of the server that the request names."""
        name, colon, port = self.host.rpartition(":")
        if not colon or self.host.endswith("]"):
            return self.host, 443 if scheme == "https" else 80
        return name, int(port)


class Projection:
    """Maps requests to keys."""

    def __init__(self, hosts: tuple[str, ...], query: tuple[str, ...], ignore_cookies: tuple[str, ...]) -> None:
        """Create the mapping of a cache with these hosts (none: any), query parameters and ignored cookies.

        Raises InvalidKeyError if a host is none.
        """
        self._hosts = frozenset(canonical_key(host + "/").partition("/")[0] for host in hosts)
        self._query = frozenset(query)
        self._cookies = tuple(name for name in ignore_cookies if not name.startswith("!"))
        self._counted = tuple(name[1:] for name in ignore_cookies if name.startswith("!"))

    def bypass(self, request: Request) -> str:
        """Return why a request must not be answered from the cache; empty if it may be."""
        headers = request.headers
        for applies, reason in (
            (request.host == "", "host"),
            (any(name in headers for name in _TENANT_HEADERS), "tenant"),
            (request.method not in ("GET", "HEAD"), "method"),
            ("authorization" in headers, "authorization"),
            (headers.get("upgrade", "").lower() == "websocket", "upgrade"),
            (request.has_body, "body"),
            (not self._ignores_cookies(headers.get("cookie", "")), "cookie"),
        ):
            if applies:
                return reason
        return ""

    def key(self, request: Request) -> tuple[str, str]:
        """Return the key of a request and an empty text, or an empty key and why it has none."""
        return self.key_of(request.host, request.path, request.query)

    def key_of(self, host: str, path: str, query: str) -> tuple[str, str]:
        """Return the key of a URL, as key does. The path is decoded."""
        kept = self._kept(query)
        if kept is None:
            return "", "query"
        if any(character in host for character in "/?#"):
            return "", "host"
        encoded = quote(path.encode("utf-8", "surrogateescape"), safe=_PATH_SAFE)
        try:
            key = canonical_key(f"{host}{encoded}" + (f"?{kept}" if kept else ""))
        except (InvalidKeyError, InvalidInputError):
            return "", "host" if len(encoded) + len(kept) < 1024 else "key-length"
        known = not self._hosts or key.partition("/")[0] in self._hosts
        return (key, "") if known else ("", "host")

    def key_at(self, base: str, reference: str) -> str:
        """Return the key of a reference in a response from a URL, such as its Location; empty if it has none.

        The reference is a header value: each character is a byte.
        """
        try:
            url = urlsplit(urljoin(base, reference[:_MAX_REFERENCE]))
        except ValueError:
            return ""
        if url.scheme not in ("http", "https"):
            return ""
        path = unquote_to_bytes((url.path or "/").encode("latin-1", "replace"))
        return self.key_of(url.netloc, path.decode("utf-8", "surrogateescape"), url.query)[0]

    def _kept(self, query: str) -> str | None:
        """Return the declared parameters; None if there are others, or their meaning is ambiguous."""
        kept: list[str] = []
        for part in filter(None, query.split("&")):
            try:
                name = unquote_plus(part.partition("=")[0], errors="strict")
            except UnicodeDecodeError:
                return None
            if name in self._query and ";" not in part and "#" not in part:
                kept.append(part.replace("?", "%3F"))
            elif name not in PARAMETERS and not name.startswith(PARAMETER_PREFIXES):
                return None
        return "&".join(kept)

    def _ignores_cookies(self, header: str) -> bool:
        names = (pair.strip(" \t").partition("=")[0] for pair in header.replace(",", ";").split(";"))
        return all(self._ignores_cookie(name) for name in names if name)

    def _ignores_cookie(self, name: str) -> bool:
        """Return whether pages do not depend on a cookie."""
        if any(_matches(pattern, name) for pattern in self._counted):
            return False
        if name in COOKIES or name.startswith(COOKIE_PREFIXES):
            return True
        return any(_matches(pattern, name) for pattern in self._cookies)


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
