from __future__ import annotations

import os
from dataclasses import dataclass

from theorydb_py.model import ModelDefinition, theorydb_field


@dataclass
class FaceTheoryCacheLease:
    pk: str = theorydb_field(roles=["pk"], name="pk")
    sk: str = theorydb_field(roles=["sk"], name="sk")

    lease_token: str = theorydb_field(name="lease_token")
    lease_expires_at: int = theorydb_field(name="lease_expires_at")
    ttl: int | None = theorydb_field(roles=["ttl"], name="ttl", omitempty=True, default=None)


FACE_THEORY_CACHE_LEASE = ModelDefinition.from_dataclass(
    FaceTheoryCacheLease,
    table_name=os.environ["FACETHEORY_CACHE_TABLE_NAME"],
)
