"""Tables by the name that TableTheory gives their module; see theorydb_py.Table."""

from theorydb_py._client import DynamoDB
from theorydb_py._table import Table

__all__ = ["DynamoDB", "Table"]
