"""Which responses are stored, and which requests are answered: spec/vectors/storable.json."""

from __future__ import annotations

import base64
from typing import Any

from tests.isr.vectors import load
from theorydb_py.web._header import etag_of, stored_headers
from theorydb_py.web._requests import Projection, Request
from theorydb_py.web._rules import Headers, initial_age, judge, stale_if_error

VECTORS = load("storable.json")


def _line(line: Any) -> str:
    """Return a line as WSGI has it: each character is a byte."""
    if isinstance(line, str):
        return line.encode().decode("latin-1")
    if "base64" in line:
        return base64.b64decode(line["base64"]).decode("latin-1")
    return str(line["repeat"]) * int(line["times"])


def _headers(vector: dict[str, list[Any]]) -> Headers:
    return [(name, _line(line)) for name, lines in vector.items() for line in lines]


def _answer(vector: dict[str, Any]) -> dict[str, Any]:
    """Return this package's verdict on a response, in the form of its vector."""
    headers, config = _headers(vector.get("headers", {})), vector.get("config", {})
    requested = vector["requested_ms"] / 1000 if "requested_ms" in vector else None
    stale = config.get("stale_seconds", 0)
    names = {"max_header_bytes": "max_header", "max_tags": "max_tags", "opt_in": "opt_in"}
    options = {names[name]: value for name, value in config.items() if name in names}
    verdict = judge(
        vector["status"],
        headers,
        stale_seconds=stale,
        max_body=config.get("max_body_bytes", 16 << 20),
        requested=requested,
        **options,
    )
    is_stored = not verdict.failed and not verdict.refused
    answer = {
        "verdict": "failed" if verdict.failed else "refused" if verdict.refused else "stored",
        "reason": verdict.refused,
        "withdraws": verdict.withdraws,
        "fresh_seconds": verdict.fresh_seconds,
        "stale_seconds": verdict.stale_seconds,
        "stale_if_error_seconds": stale_if_error(
            stored_headers(headers), stale, config.get("stale_if_error_seconds", 0)
        )
        if is_stored
        else 0,
        "age_seconds": initial_age(headers, requested),
        "tags": list(verdict.tags),
    }
    return {name: value for name, value in answer.items() if value}


def test_responses() -> None:
    questions = {"name", "rule", "config", "requested_ms", "status", "headers"}
    for vector in VECTORS["responses"]:
        expected = {name: value for name, value in vector.items() if name not in questions}
        assert _answer(vector) == expected, vector["name"]


def test_fields_that_are_stored() -> None:
    for vector in VECTORS["fields"]:
        headers = _headers(vector["headers"])
        assert sorted(stored_headers(headers)) == sorted(_headers(vector.get("stored", {}))), vector["name"]
        assert etag_of(headers) == vector.get("etag", ""), vector["name"]


def test_requests() -> None:
    for vector in VECTORS["requests"]:
        path, _, query = vector["target"].partition("?")
        headers = {name: ", ".join(map(_line, lines)) for name, lines in vector.get("headers", {}).items()}
        request = Request(vector["method"], path, query, {"host": "example.com", **headers}, has_body=False)
        projection = Projection(("example.com",), ("page",), tuple(vector.get("ignore_cookies", ())))
        bypass = projection.bypass(request)
        key, reason = ("", bypass) if bypass else projection.key(request)
        assert (key, reason) == (vector.get("key", ""), vector.get("bypass", "")), vector["name"]
