"""Seals and opens attributes (envelope encryption).

Go's package tabletheory/envelope has the same format. An encrypted attribute is a map
of ``v`` (the version of the format), ``edk`` (the sealed data key), ``nonce`` and ``ct``
(the AES-256-GCM ciphertext, with its tag). Encryption does not detect that an attribute
was removed, or replaced by an older value of the same attribute of the same item.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from theorydb_py._values import Attribute
from theorydb_py.encryption._cipher import NONCE_SIZE, TAG_SIZE, Cipher
from theorydb_py.encryption._location import VERSION, Location
from theorydb_py.encryption._plaintext import canonical_number, format_plaintext, parse_plaintext
from theorydb_py.encryption._provider import DATA_KEY_SIZE, MAX_SEALED_SIZE, KeyProvider
from theorydb_py.errors import (
    KeyProviderError,
    MalformedRowError,
    NotEncryptedError,
    TamperedError,
    UnknownKeyError,
)

_MAX_CIPHERTEXT = 400 << 10  # bytes; DynamoDB's limit of an item

_SIZES = {"edk": (1, MAX_SEALED_SIZE), "nonce": (NONCE_SIZE, NONCE_SIZE), "ct": (TAG_SIZE, _MAX_CIPHERTEXT)}


def seal(keys: KeyProvider, location: Location, attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """Encrypt attributes of an item under a new data key.

    Raises:
        KeyProviderError: there is no data key.
    """
    what = f"encrypt {location.describe(', '.join(attributes))}"
    try:
        key = keys.new_data_key()
    except KeyProviderError as error:
        raise KeyProviderError(f"{what}: {error}") from error.__cause__
    except Exception as error:
        raise KeyProviderError(f"{what}: the key provider failed: {error}") from error
    _check_size(what, key.plain)
    if not 1 <= len(key.sealed) <= MAX_SEALED_SIZE:
        raise KeyProviderError(
            f"{what}: expected a sealed data key of 1 to {MAX_SEALED_SIZE} bytes from the key provider, "
            f"found {len(key.sealed)}"
        )
    cipher, sealed = Cipher(key.plain), dict[str, Attribute]()
    for name, value in attributes.items():
        nonce, ciphertext = cipher.encrypt(format_plaintext(value), location.additional_data(name))
        members = {"edk": {"B": key.sealed}, "nonce": {"B": nonce}, "ct": {"B": ciphertext}}
        sealed[name] = {"M": {"v": {"N": str(VERSION)}, **members}}
    return sealed


def unseal(keys: KeyProvider, location: Location, attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """Decrypt attributes of an item. A data key that several of them share is opened once.

    Raises:
        NotEncryptedError: an attribute is stored in plaintext.
        TamperedError: it, or its data key, was modified or belongs elsewhere.
        UnknownKeyError: the provider does not have the master key.
        MalformedRowError: it does not have the format.
        KeyProviderError: the provider failed.
    """
    ciphers: dict[bytes, Cipher] = {}
    return {name: _Opening(location, name).open(keys, value, ciphers) for name, value in attributes.items()}


class _Opening:
    """The opening of one attribute."""

    def __init__(self, location: Location, name: str) -> None:
        self._location = location
        self._name = name
        self._what = f"decrypt {location.describe(name)}"

    def open(self, keys: KeyProvider, value: Attribute, ciphers: dict[bytes, Cipher]) -> Attribute:
        """Decrypt the attribute. ``ciphers`` are the opened data keys, by their sealed form."""
        stored = self._stored(value)
        edk = stored["edk"]
        if edk not in ciphers:
            ciphers[edk] = Cipher(self._data_key(keys, edk))
        data = self._location.additional_data(self._name)
        plaintext = ciphers[edk].decrypt(stored["nonce"], stored["ct"], data)
        if plaintext is None:
            raise TamperedError(
                f"{self._what}: authentication failed: "
                "the value was modified or copied from another attribute, item or table; write it again or restore it"
            )
        parsed = parse_plaintext(plaintext)
        if parsed is None:
            raise self._malformed("a value in DynamoDB JSON as the plaintext", "another one")
        return parsed

    def _stored(self, value: Attribute) -> dict[str, bytes]:
        """Return the binary members of a stored attribute."""
        members = value.get("M", {})
        if "edk" not in members:
            raise NotEncryptedError(
                f"{self._what}: the attribute is stored in plaintext: to encrypt it, read it with a model whose field "
                "is not encrypted and write it with this one"
            )
        if not _is_version(members.get("v")):
            raise self._malformed(
                f"version {VERSION} of the format (update this package for a later one)", "another one"
            )
        if members.keys() != {"v", *_SIZES}:
            raise self._malformed("the members v, edk, nonce and ct", f"{len(members)} members")
        for member, (low, high) in _SIZES.items():
            content = members[member].get("B")
            if content is None or not low <= len(content) <= high:
                found = "another type" if content is None else f"{len(content)} bytes"
                raise self._malformed(f"{low} to {high} bytes in {member}", found)
        return {member: members[member]["B"] for member in _SIZES}

    def _data_key(self, keys: KeyProvider, edk: bytes) -> bytes:
        try:
            plain = keys.open_data_key(edk)
        except UnknownKeyError as error:
            raise UnknownKeyError(f"{self._what}: {error}") from error
        except TamperedError as error:
            raise TamperedError(f"{self._what}: {error}") from error
        except MalformedRowError as error:
            raise self._malformed(error.expected, error.found) from error
        except KeyProviderError as error:
            raise KeyProviderError(f"{self._what}: {error}") from error.__cause__
        except Exception as error:
            raise KeyProviderError(f"{self._what}: the key provider failed: {error}") from error
        _check_size(self._what, plain)
        return plain

    def _malformed(self, expected: str, found: str) -> MalformedRowError:
        pk, sk = ([str(next(iter(value.values()))) for value in self._location.key.values()] + [""])[:2]
        return MalformedRowError(
            f"{self._what}: expected {expected}, found {found}",
            pk=pk,
            sk=sk,
            attribute=self._name,
            expected=expected,
            found=found,
        )


def _check_size(what: str, plain: bytes) -> None:
    if len(plain) != DATA_KEY_SIZE:
        raise KeyProviderError(
            f"{what}: expected a data key of {DATA_KEY_SIZE} bytes from the key provider, found {len(plain)}"
        )


def _is_version(stored: Any) -> bool:
    try:
        return canonical_number((stored or {}).get("N", "")) == str(VERSION)
    except ValueError:
        return False
