"""The snippets of the reference documents, verbatim."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from theorydb_py import ConditionFailedError, Table, TransactDelete, TransactPut

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

SNIPPETS = Path(__file__).parent / "reference"


class Snippets:
    """The modules of the reference documents, created for one table."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def load(self, name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"reference_{name}", SNIPPETS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # like an import, so that annotations can be resolved
        self.names.append(spec.name)
        spec.loader.exec_module(module)
        return module


@pytest.fixture
def snippets(table_name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Snippets]:
    monkeypatch.setenv("FACETHEORY_CACHE_TABLE_NAME", table_name)
    loaded = Snippets()
    yield loaded
    for name in loaded.names:
        del sys.modules[name]


PK = "TENANT#t1#CACHE#abc"
NOW = 1_800_000_000


def test_reference_models_and_transaction(snippets: Snippets, client: DynamoDBClient, table_name: str) -> None:
    metadata, lease = snippets.load("metadata_model"), snippets.load("lease_model")
    table = Table(metadata.FACE_THEORY_CACHE_METADATA, client=client)
    leases = Table(lease.FACE_THEORY_CACHE_LEASE, client=client)
    leases.put(lease.FaceTheoryCacheLease(PK, "LOCK", "token", NOW + 30, ttl=NOW + 3630))
    names = {
        "table": table,
        "FaceTheoryCacheMetadata": metadata.FaceTheoryCacheMetadata,
        "TransactPut": TransactPut,
        "TransactDelete": TransactDelete,
        "pk": PK,
        "s3_key": "s3://bucket/key.html",
        "now_unix": NOW,
        "revalidate_seconds": 60,
        "etag": '"abc123"',
        "ttl": NOW + 86400,
        "lease_token": "token",
    }
    code = compile((SNIPPETS / "transact_write.py").read_text(), "transact_write.py", "exec")
    exec(code, names)  # noqa: S102 the snippet has no imports
    stored = client.query(
        TableName=table_name,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": PK}},
        ConsistentRead=True,
    )
    assert stored["Items"] == [
        {
            "pk": {"S": PK},
            "sk": {"S": "META"},
            "s3_key": {"S": "s3://bucket/key.html"},
            "generated_at": {"N": str(NOW)},
            "revalidate_seconds": {"N": "60"},
            "etag": {"S": '"abc123"'},
            "ttl": {"N": str(NOW + 86400)},
        }
    ]
    with pytest.raises(ConditionFailedError) as failed:  # the lease is gone
        exec(code, names)  # noqa: S102
    assert [reason.code for reason in failed.value.reasons] == ["None", "ConditionalCheckFailed"]


def test_optional_attributes_are_omitted(snippets: Snippets) -> None:
    metadata = snippets.load("metadata_model")
    item = metadata.FaceTheoryCacheMetadata(PK, "META", s3_key="k", generated_at=NOW, revalidate_seconds=60)
    stored = metadata.FACE_THEORY_CACHE_METADATA.marshal(item)
    assert sorted(stored) == ["generated_at", "pk", "revalidate_seconds", "s3_key", "sk"]
    assert metadata.FACE_THEORY_CACHE_METADATA.unmarshal(stored) == item
