from __future__ import annotations

import os
from dataclasses import dataclass

from theorydb_py.model import ModelDefinition, theorydb_field


@dataclass
class FaceTheoryCacheMetadata:
    pk: str = theorydb_field(roles=["pk"], name="pk")
    sk: str = theorydb_field(roles=["sk"], name="sk")

    s3_key: str = theorydb_field(name="s3_key")
    generated_at: int = theorydb_field(name="generated_at")
    revalidate_seconds: int = theorydb_field(name="revalidate_seconds")
    etag: str | None = theorydb_field(name="etag", omitempty=True, default=None)
    ttl: int | None = theorydb_field(roles=["ttl"], name="ttl", omitempty=True, default=None)


FACE_THEORY_CACHE_METADATA = ModelDefinition.from_dataclass(
    FaceTheoryCacheMetadata,
    table_name=os.environ["FACETHEORY_CACHE_TABLE_NAME"],
)
