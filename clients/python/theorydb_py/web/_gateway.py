"""Purges through the admin API of ``isr serve``, for sites behind the gateway."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Collection
from urllib.parse import urlsplit

from theorydb_py import InvalidInputError
from theorydb_py.isr import Receipt

_MAX_ANSWER = 1 << 20


class Gateway:
    """The admin API of a running ``isr serve``. Safe for concurrent use."""

    def __init__(self, url: str, token: str, *, timeout_seconds: float = 5.0) -> None:
        """Use the API at a URL such as ``http://127.0.0.1:9180``, with its token (``$ISR_ADMIN_TOKEN``).

        ``timeout_seconds`` bounds the wait for a connection, and for each part of an
        answer.

        Raises:
            InvalidInputError: the URL or the token is invalid.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise InvalidInputError(f"the URL of the admin API is {url!r}: expected one like http://127.0.0.1:9180")
        if not token or not token.isascii() or not token.isprintable():
            raise InvalidInputError("the token of the admin API is empty or no printable ASCII: expected its text")
        self._url = url.rstrip("/") + "/-/purge"
        self._token = token
        self._timeout = timeout_seconds

    def purge(
        self,
        *,
        urls: Collection[str] = (),
        tags: Collection[str] = (),
        prefixes: Collection[str] = (),
        hard: bool = False,
    ) -> Receipt:
        """Purge pages, as PageCache.purge does.

        Raises:
            OSError: there is no answer, or another one than 200, whose message it has.
                The purge may have been made.
        """
        targets = [
            {kind: value} for kind, several in (("url", urls), ("tag", tags), ("prefix", prefixes)) for value in several
        ]
        body = json.dumps({"targets": targets, "mode": "hard" if hard else "soft"}).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url, body, headers, method="POST")  # noqa: S310 - checked above
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:  # noqa: S310
                answer = json.loads(response.read(_MAX_ANSWER))
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(1000).decode(errors="replace").strip()
            raise OSError(f"the gateway refused the purge with {error.code}: {text}") from None
        except ValueError as error:
            raise OSError(f"the answer of {self._url} is no receipt: {error}") from error
        if not isinstance(answer, dict) or not isinstance(answer.get("seq"), int):
            raise OSError(f"the answer of {self._url} is no receipt: is it the admin API of isr serve?")
        return Receipt(seq=answer["seq"])
