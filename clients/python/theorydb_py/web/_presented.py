"""How pages of other services are served: with the status and header beside their bodies (spec/schema.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from theorydb_py.isr import Entry

_MAX_TEXT = 8 << 10
_TEXT = re.compile(r"(?!=\?)[!-~](?:[ -~]*[!-~])?")
_MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~\w-]+/[!#$%&'*+.^_`|~\w-]+ *(?:;.*)?", re.ASCII)
_PRIVATE_OR_FAILED = frozenset({206, 401, 407, 408, 412, 416, 425, 429})


def presented(entry: Entry, metadata: Mapping[str, str]) -> Entry:
    """Return an entry of another service with the status and header in the metadata of its body.

    Raises ValueError if a response like that must not be served.
    """
    status = metadata.get("facetheory-status") or "200"
    kind = metadata.get("facetheory-content-type", "")
    policy = metadata.get("facetheory-content-security-policy", "")
    if not re.fullmatch("[0-9]{3}", status):
        raise ValueError(f"{status[:100]!r} is no status")
    code = int(status)
    if 300 <= code < 400:
        raise ValueError(f"status {code} is a redirect, whose Location is not known")
    if not 200 <= code < 500 or code in _PRIVATE_OR_FAILED:
        raise ValueError(f"status {code} is not the status of a page")
    if kind and not (_MEDIA_TYPE.fullmatch(kind) and _is_text(kind)):
        raise ValueError(f"content type {kind[:100]!r} is no media type")
    if policy and not _is_text(policy):
        raise ValueError(f"content security policy {policy[:100]!r} is no text of at most {_MAX_TEXT} ASCII characters")
    header = {"content-type": kind, "content-security-policy": policy}
    return replace(entry, status=code, headers={name: (value,) for name, value in header.items() if value})


def _is_text(value: str) -> bool:
    return len(value) <= _MAX_TEXT and _TEXT.fullmatch(value) is not None
