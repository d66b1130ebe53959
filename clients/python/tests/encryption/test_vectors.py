"""The vectors of encrypted attributes that all languages share."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.isr.vectors import item_from, load
from theorydb_py.encryption import DataKey, KeyFile
from theorydb_py.encryption._envelope import seal, unseal
from theorydb_py.encryption._location import Location
from theorydb_py.encryption._plaintext import format_plaintext, parse_plaintext
from theorydb_py.errors import TheorydbError

VECTORS = load("encryption.json")


class OneKey:
    """A provider that always returns the data key of a vector."""

    def __init__(self, vector: Mapping[str, Any]) -> None:
        self._plain = bytes.fromhex(vector["data_key"])
        self._stored = value_of(vector["stored"])

    def new_data_key(self) -> DataKey:
        return DataKey(self._plain, self._stored["M"]["edk"]["B"])

    def open_data_key(self, sealed: bytes) -> bytes:
        assert sealed == self._stored["M"]["edk"]["B"]
        return self._plain


def location_of(vector: Mapping[str, Any]) -> Location:
    return Location(vector["table"], {key["name"]: value_of(key["value"]) for key in vector["key"]})


def value_of(stored: Mapping[str, Any]) -> Any:
    return item_from({"value": stored})["value"]


def test_attributes(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(VECTORS["attributes"]) >= 14
    for vector in VECTORS["attributes"]:
        with subtests.test(vector["name"]):
            location, name, value = location_of(vector), vector["attribute"], value_of(vector["value"])
            assert location.additional_data(name).hex() == vector["additional_data"]
            assert format_plaintext(value).decode() == vector["plaintext"]
            stored = value_of(vector["stored"])
            monkeypatch.setattr("os.urandom", lambda size, stored=stored: stored["M"]["nonce"]["B"][:size])
            assert seal(OneKey(vector), location, {name: value}) == {name: stored}
            opened = unseal(OneKey(vector), location, {name: stored})[name]
            assert format_plaintext(opened).decode() == vector["plaintext"]


def test_refused_attributes(subtests: pytest.Subtests) -> None:
    for vector in VECTORS["refused"]:
        with subtests.test(vector["name"]):
            name, location = vector["attribute"], location_of(vector)
            with pytest.raises(TheorydbError) as refused:
                unseal(OneKey(vector), location, {name: value_of(vector["stored"])})
            assert refused.value.code == vector["error"]
            assert f"decrypt attribute '{name}' of the item pk='USER#1' sk=" in str(refused.value)
            assert f" in table {vector['table']}: " in str(refused.value)


def test_plaintexts(subtests: pytest.Subtests) -> None:
    for vector in VECTORS["plaintexts"]:
        with subtests.test(vector["name"]):
            parsed = parse_plaintext(vector["plaintext"].encode())
            assert (parsed is None) == ("error" in vector)
            if parsed is not None:
                assert format_plaintext(parsed).decode() == vector["canonical"]


def test_key_files(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for number, vector in enumerate(VECTORS["key_files"]):
        with subtests.test(vector["name"]):
            path = tmp_path / str(number)
            path.write_bytes(vector["text"].encode())
            path.chmod(0o600)
            opened, error = "", None
            try:
                opened = KeyFile(path).open_data_key(base64.b64decode(vector["edk"])).hex()
            except TheorydbError as raised:
                error = raised.code
            assert (opened, error) == (vector.get("data_key", ""), vector.get("error"))
