"""Master keys in KMS, by boto3's client."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from tests.encryption.kms import ARN, Kms, connected, serving
from theorydb_py import Outcome, outcome_of
from theorydb_py.encryption import KmsKeys
from theorydb_py.encryption._envelope import seal, unseal
from theorydb_py.encryption._location import Location
from theorydb_py.errors import InvalidInputError, KeyProviderError, TamperedError, UnknownKeyError

HOME = Location("users", {"pk": {"S": "USER#1"}})


@pytest.fixture
def kms() -> Kms:
    return Kms("key-1", "key-2")


@pytest.fixture
def client(kms: Kms) -> Iterator[Any]:
    with serving(kms) as made:
        yield made


def test_seal_and_open(kms: Kms, client: Any) -> None:
    for name in ("key-1", ARN + "key-1"):
        keys = KmsKeys(client, name)
        sealed = seal(keys, HOME, {"x": {"S": "1"}, "y": {"S": "2"}})
        assert len(sealed["x"]["M"]["edk"]["B"]) == 184
        assert unseal(keys, HOME, sealed) == {"x": {"S": "1"}, "y": {"S": "2"}}
    assert kms.calls == ["TrentService.GenerateDataKey", "TrentService.Decrypt"] * 2


def test_previous_keys(kms: Kms, client: Any) -> None:
    kms.keys["alias/app"] = "key-1"
    former = KmsKeys(client, "alias/app").new_data_key()
    kms.keys["alias/app"] = "key-2"
    with pytest.raises(UnknownKeyError, match="KMS keys alias/app: pass the ID of the key that sealed it to KmsKeys"):
        KmsKeys(client, "alias/app").open_data_key(former.sealed)
    both = KmsKeys(client, "alias/app", previous=["key-1"])
    current = both.new_data_key()
    for key in (former, current):
        assert both.open_data_key(key.sealed) == key.plain
    assert KmsKeys(client, "key-2").open_data_key(current.sealed) == current.plain


def test_foreign_keys_are_refused(client: Any) -> None:
    forged = KmsKeys(client, "key-2").new_data_key()
    with pytest.raises(UnknownKeyError):
        KmsKeys(client, "key-1").open_data_key(forged.sealed)


def test_other_encryption_contexts_are_refused(client: Any) -> None:
    made = client.generate_data_key(KeyId="key-1", KeySpec="AES_256", EncryptionContext={"purpose": "another"})
    with pytest.raises(TamperedError, match="KMS did not authenticate the data key"):
        KmsKeys(client, "key-1").open_data_key(made["CiphertextBlob"])


def test_failures(kms: Kms, client: Any) -> None:
    sealed = seal(KmsKeys(client, "key-1"), HOME, {"x": {"S": "1"}})
    missing = KmsKeys(client, "key-0")
    with pytest.raises(
        KeyProviderError, match=r"attribute 'x' of the item .* with the KMS key 'key-0': .*NotFound"
    ) as write:
        seal(missing, HOME, {"x": {"S": "1"}})
    assert outcome_of(write.value) is Outcome.CANCELLED  # it was not sent
    with pytest.raises(
        KeyProviderError, match=r"attribute 'x' of .* decrypt a data key with the KMS key 'key-0'"
    ) as read:
        unseal(missing, HOME, sealed)
    for error in (write.value, read.value):
        assert isinstance(error.__cause__, ClientError)
    kms.failures.append(("DisabledException", "key-1 is disabled."))
    with pytest.raises(KeyProviderError, match=r"key-1 is disabled") as failed:  # no other key is tried
        KmsKeys(client, "key-1", previous=["key-2"]).open_data_key(sealed["x"]["M"]["edk"]["B"])
    assert isinstance(failed.value.__cause__, ClientError)


def test_no_connection() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        with connected(closed.getsockname()[1]) as client:
            keys = KmsKeys(client, "key-1")
            for call in (keys.new_data_key, lambda: keys.open_data_key(b"sealed")):
                with pytest.raises(KeyProviderError, match="with the KMS key 'key-1': Could not connect") as failed:
                    call()
                assert isinstance(failed.value.__cause__, EndpointConnectionError)


@pytest.mark.parametrize(("key", "previous"), [("", ()), (None, ()), ("key-1", [""])])
def test_keys_are_checked(client: Any, key: Any, previous: Any) -> None:
    with pytest.raises(InvalidInputError, match="a KMS key: expected an ID, an ARN or an alias"):
        KmsKeys(client, key, previous=previous)
