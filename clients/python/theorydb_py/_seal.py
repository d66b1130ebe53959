"""Encrypts and decrypts the encrypted fields of items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from theorydb_py._expression import Expression
from theorydb_py._values import Attribute
from theorydb_py.encryption._cipher import aead_module
from theorydb_py.encryption._envelope import seal, unseal
from theorydb_py.encryption._location import Location
from theorydb_py.encryption._provider import KeyProvider
from theorydb_py.errors import InvalidModelError, InvalidQueryError, MalformedRowError
from theorydb_py.model import ModelDefinition


class Encryption:
    """The encryption of a model's items in one table. Without encrypted fields, it does nothing."""

    def __init__(self, model: ModelDefinition[Any], table: str, keys: KeyProvider | None) -> None:
        """Without keys for encrypted fields it raises InvalidModelError, without cryptography ImportError."""
        self._model = model
        self._table = table
        fields = [field for field in model.structure.fields if field.encrypted]
        self._names = [field.attribute for field in fields]
        if not fields:
            return
        if keys is None:
            names = ", ".join(field.name for field in fields)
            raise InvalidModelError(
                f"{model.name}: there are no keys for the encrypted fields {names}: pass keys to the Table"
            )
        aead_module()
        self._keys = keys

    def seal(self, key: Mapping[str, Attribute], secrets: Mapping[str, Attribute]) -> dict[str, Attribute]:
        """Encrypt values of encrypted fields of the item with this key, under one data key.

        Raises:
            KeyProviderError: there is no data key.
        """
        return seal(self._keys, Location(self._table, key), secrets) if secrets else {}

    def seal_item(self, item: Mapping[str, Attribute]) -> dict[str, Attribute]:
        """Return the item with its encrypted fields encrypted. Raises KeyProviderError."""
        secrets = {name: item[name] for name in self._names if name in item}
        return {**item, **self.seal(self._model.key_of(item), secrets)}

    def open_item(self, item: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        """Return the item, or the read part of it, with its encrypted fields decrypted.

        Raises:
            NotEncryptedError, TamperedError, UnknownKeyError, MalformedRowError, KeyProviderError:
                a field cannot be decrypted.
        """
        sealed = {name: item[name] for name in self._names if name in item}
        if not sealed:
            return item
        for key in (self._model.pk, self._model.sk):
            if key is not None and key.attribute not in item:
                raise MalformedRowError(
                    f"decrypt {self._model.name}: expected an item with its key, found none: {key.attribute}",
                    attribute=key.attribute,
                    expected=key.codec.expected,
                    found="nothing",
                )
        return {**item, **unseal(self._keys, Location(self._table, self._model.key_of(item)), sealed)}

    def check(self, expression: Expression) -> Expression:
        """Return the caller's expression. Raises InvalidQueryError if it compares an encrypted field."""
        compared = sorted(expression.compared().intersection(self._names))
        if compared:
            raise InvalidQueryError(
                f"{self._model.name}: {', '.join(compared)}: encrypted, and so an expression can only use "
                "attribute_exists and attribute_not_exists of it"
            )
        return expression
