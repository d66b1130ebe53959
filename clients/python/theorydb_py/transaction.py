"""The actions of transactions by the name that TableTheory gives their module; see theorydb_py.Table.transact_write."""

from theorydb_py._transact import (
    TransactConditionCheck,
    TransactDelete,
    TransactPut,
    TransactUpdate,
    TransactUpsert,
    TransactWriteAction,
)
from theorydb_py._update import UpdateAdd, UpdateSetIfNotExists

__all__ = [
    "TransactConditionCheck",
    "TransactDelete",
    "TransactPut",
    "TransactUpdate",
    "TransactUpsert",
    "TransactWriteAction",
    "UpdateAdd",
    "UpdateSetIfNotExists",
]
