"""Providers that break their contract, and what is left out of errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.encryption.providers import Counting, Fixed, messages
from theorydb_py.encryption import DataKey, KeyFile
from theorydb_py.encryption._envelope import seal, unseal
from theorydb_py.encryption._location import Location
from theorydb_py.encryption._plaintext import parse_plaintext
from theorydb_py.errors import (
    KeyProviderError,
    MalformedRowError,
    NotEncryptedError,
    TamperedError,
    TheorydbError,
    UnknownKeyError,
)

HOME = Location("users", {"pk": {"S": "USER#1"}, "sk": {"S": "PROFILE"}})


@pytest.mark.parametrize(
    "keys",
    [
        Fixed(plain=b""),
        Fixed(plain=bytes(16)),
        Fixed(sealed=b""),
        Fixed(sealed=bytes(6145)),
        Fixed(error=OSError("no")),
    ],
)
def test_bad_providers_do_not_seal(keys: Fixed) -> None:
    with pytest.raises(
        KeyProviderError, match=r"encrypt attribute 'x, y' of the item pk='USER#1' sk='PROFILE' in table"
    ):
        seal(keys, HOME, {"x": {"S": "1"}, "y": {"S": "2"}})


@pytest.mark.parametrize("keys", [Fixed(plain=b""), Fixed(plain=bytes(16)), Fixed(error=OSError("no"))])
def test_bad_providers_do_not_open(keys: Fixed) -> None:
    sealed = seal(Fixed(), HOME, {"x": {"S": "1"}})
    with pytest.raises(KeyProviderError, match="decrypt attribute 'x' of the item"):
        unseal(keys, HOME, sealed)
    with pytest.raises(TamperedError, match="authentication failed"):
        unseal(Fixed(plain=bytes([1] * 32)), HOME, sealed)


def test_errors_of_providers_are_kept() -> None:
    sealed = seal(Fixed(), HOME, {"x": {"S": "1"}})
    broken = OSError("no connection")
    with pytest.raises(KeyProviderError, match="the key provider failed: no connection") as failed:
        unseal(Fixed(error=broken), HOME, sealed)
    assert failed.value.__cause__ is broken
    for error in (
        UnknownKeyError("which?"),
        TamperedError("changed"),
        MalformedRowError("odd", expected="a key", found="none"),
    ):
        with pytest.raises(
            type(error), match="decrypt attribute 'x' of the item pk='USER#1' sk='PROFILE' in table users"
        ):
            unseal(Fixed(error=error), HOME, sealed)


def test_one_data_key_per_write(tmp_path: Path) -> None:
    keys = Counting(tmp_path / "keys")
    first = seal(keys, HOME, {"x": {"S": "1"}, "y": {"S": "2"}})
    second = seal(keys, HOME, {"z": {"S": "3"}})
    assert keys.created == 2
    assert len({sealed["M"]["nonce"]["B"] for sealed in (*first.values(), *second.values())}) == 3
    assert unseal(keys, HOME, first | second) == {"x": {"S": "1"}, "y": {"S": "2"}, "z": {"S": "3"}}
    assert keys.opened == 2


def test_every_bit_is_authenticated(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys")
    sealed = seal(keys, HOME, {"x": {"S": "1"}})["x"]["M"]
    for member in ("edk", "nonce", "ct"):
        content = sealed[member]["B"]
        for i in range(len(content)):
            changed = content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :]
            # The id of a master key may become another key's id, or no id.
            known = (TamperedError, UnknownKeyError, MalformedRowError) if member == "edk" else TamperedError
            with pytest.raises(known):
                unseal(keys, HOME, {"x": {"M": {**sealed, member: {"B": changed}}}})


def test_plaintexts_of_others_are_bounded() -> None:
    for text in (
        b"\xff",
        b'\xef\xbb\xbf{"S":"x"}',
        '{"S":"x"}'.encode("utf-16"),
        b'{"N":' + b"1" * 5000 + b"}",
        b'{"N":"' + b"1" * 257 + b'"}',
        b'{"L":[' * 100_000,
        b'{"B":"AB=="}',
        b'{"M":{"\\ud800":{"S":"x"}}}',
        b'{"M":{"a":{"S":"1"},"a":{"S":"2"}}}',
        b'{"S":NaN}',
        b'{"BOOL":1}',
    ):
        assert parse_plaintext(text) is None


def test_errors_do_not_show_values_or_keys(tmp_path: Path) -> None:
    with pytest.raises(NotEncryptedError) as plain:
        unseal(Fixed(), HOME, {"x": {"S": "hush"}})
    with pytest.raises(MalformedRowError) as odd:
        unseal(Fixed(), HOME, {"x": {"M": {"v": {"S": "hush"}, "edk": {"S": "hush"}, "nonce": {}, "ct": {}}}})
    path = tmp_path / "keys"
    KeyFile(path)
    key = path.read_text().split()[-1]
    path.write_text(f"hush {key} {key}\n")
    with pytest.raises(TheorydbError) as invalid:
        KeyFile(path)
    for error in (plain.value, odd.value, invalid.value):
        shown = " ".join(messages(error))
        assert "hush" not in shown
        assert key not in shown
    assert key not in repr(DataKey(key.encode(), b""))
