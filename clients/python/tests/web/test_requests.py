"""Which cookies and parameters pages do not depend on: spec/requests.json, and a site's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from theorydb_py.web._requests import Projection, Request

LISTS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[4] / "spec/requests.json").read_text(encoding="utf-8")
)


def _names(list_: str) -> list[str]:
    return [entry["name"] + ("x1" if entry["kind"] == "prefix" else "") for entry in LISTS[list_]]


def _bypass(*ignored: str, cookie: str) -> str:
    request = Request("GET", "/a", "", {"host": "site.test", "cookie": cookie}, has_body=False)
    return Projection((), ("page",), ignored).bypass(request)


def _key(query: str, *declared: str) -> tuple[str, str]:
    return Projection((), ("page", *declared), ()).key_of("site.test", "/a", query)


def test_well_known_cookies_are_ignored() -> None:
    for name in _names("cookies"):
        assert _bypass(cookie=f"{name}=1") == "", name
        assert _bypass(cookie=f"{name}=1; session=1") == "cookie", name


def test_well_known_parameters_are_dropped() -> None:
    for name in _names("parameters"):
        assert _key(f"page=2&{name}=1") == ("site.test/a?page=2", ""), name
    assert _key("hsa_cam=1", "hsa_cam") == ("site.test/a?hsa_cam=1", "")


def test_what_servers_read_is_left_out() -> None:
    for entry in LISTS["left_out"]:
        if entry["where"] == "cookie":
            assert _bypass(cookie=f"{entry['name']}=1") == "cookie", entry
        else:
            assert _key(f"{entry['name']}=1") == ("", "query"), entry


@pytest.mark.parametrize(
    ("ignored", "cookie", "reason"),
    [
        (("!OptanonConsent",), "OptanonConsent=1", "cookie"),
        (("!OptanonConsent",), "OptanonAlertBoxClosed=1", ""),
        (("!Optanon*",), "OptanonAlertBoxClosed=1", "cookie"),
        (("!session", "*"), "a=1; session=1", "cookie"),
        (("*", "!session"), "a=1", ""),
    ],
)
def test_cookies_that_a_site_takes_back(ignored: tuple[str, ...], cookie: str, reason: str) -> None:
    assert _bypass(*ignored, cookie=cookie) == reason
