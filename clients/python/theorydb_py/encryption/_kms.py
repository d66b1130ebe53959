"""A key provider whose master keys are in AWS KMS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from botocore.exceptions import ClientError

from theorydb_py._outcome import error_code
from theorydb_py.encryption._provider import DataKey
from theorydb_py.errors import InvalidInputError, KeyProviderError, TamperedError, UnknownKeyError

# KMS authenticates it, and CloudTrail logs it. It separates these data keys from other
# uses of the same master key. It does not name the item: the attributes' own additional
# data does.
_CONTEXT = {"purpose": "tabletheory-envelope"}


class KmsClient(Protocol):
    """The part of a boto3 KMS client that is used: ``boto3.client("kms")``."""

    @property
    def generate_data_key(self) -> Callable[..., Any]:
        """Create a data key."""

    @property
    def decrypt(self) -> Callable[..., Any]:
        """Open a data key."""


class KmsKeys:
    """A provider with master keys in AWS KMS. Safe for concurrent use.

    Writing an item with encrypted attributes costs a call of GenerateDataKey. Reading
    one costs a call of Decrypt for each different write that its encrypted attributes
    are from.
    """

    def __init__(self, client: KmsClient, key_id: str, *, previous: Sequence[str] = ()) -> None:
        """``key_id`` seals: the ID or ARN of a symmetric key, or the name or ARN of an alias.

        Only data keys that were sealed by it or by one of the ``previous`` keys are
        opened: otherwise an attacker with write access to the table could plant values that
        are sealed with a key of another account. KMS's rotation of key material needs
        no change here. To use another key, pass the old one as previous, by its ID or
        ARN: an alias that points to the new key does not name it any more.

        It takes kms:GenerateDataKey on the current key, and kms:Decrypt on all of them.
        A policy may require the encryption context
        ``{"purpose": "tabletheory-envelope"}``.

        Raises:
            InvalidInputError: a key is not text, or empty.
        """
        self._client = client
        self._keys = (key_id, *previous)
        for key in self._keys:
            if not isinstance(key, str) or not key:
                raise InvalidInputError(f"a KMS key: expected an ID, an ARN or an alias, found {key!r:.60}")

    def new_data_key(self) -> DataKey:
        """Call GenerateDataKey.

        Raises:
            KeyProviderError: it failed; the cause is botocore's error.
        """
        key = self._keys[0]
        try:
            made = self._client.generate_data_key(KeyId=key, KeySpec="AES_256", EncryptionContext=_CONTEXT)
        except Exception as error:
            raise KeyProviderError(f"generate a data key with the KMS key {key!r}: {error}") from error
        return DataKey(made["Plaintext"], made["CiphertextBlob"])

    def open_data_key(self, sealed: bytes) -> bytes:
        """Call Decrypt with one key after another until KMS accepts one.

        Raises:
            UnknownKeyError: none of the keys sealed it.
            TamperedError: it was modified.
            KeyProviderError: KMS failed; its ``__cause__`` is botocore's error.
        """
        for key in self._keys:
            try:
                opened = self._client.decrypt(KeyId=key, CiphertextBlob=sealed, EncryptionContext=_CONTEXT)
            except ClientError as error:
                match error_code(error):
                    case "IncorrectKeyException":
                        continue
                    case "InvalidCiphertextException":
                        raise TamperedError(f"KMS did not authenticate the data key: {error}") from error
                raise _failure(key, error) from error
            except Exception as error:
                raise _failure(key, error) from error
            plain: bytes = opened["Plaintext"]
            return plain
        raise UnknownKeyError(
            f"unknown master key: the data key was not sealed by any of the KMS keys {', '.join(self._keys)}: "
            "pass the ID of the key that sealed it to KmsKeys, as previous"
        )


def _failure(key: str, error: Exception) -> KeyProviderError:
    return KeyProviderError(f"decrypt a data key with the KMS key {key!r}: {error}")
