"""DynamoDB tables of dataclasses, leases, and the metadata of a FaceTheory ISR cache.

Services in Go and TypeScript share the same tables and rows.
"""

from theorydb_py._client import DynamoDB
from theorydb_py._filter import Filter, Operator, where
from theorydb_py._index import Index, gsi, lsi
from theorydb_py._outcome import Outcome, outcome_of
from theorydb_py._query import Page, SortKeyCondition
from theorydb_py._reader import Query, Reader
from theorydb_py._retry import Retry
from theorydb_py._structure import Field
from theorydb_py._table import Table
from theorydb_py._transact import (
    TransactConditionCheck,
    TransactDelete,
    TransactPut,
    TransactUpdate,
    TransactUpsert,
    TransactWriteAction,
    UpdateAdd,
    UpdateSetIfNotExists,
)
from theorydb_py._update import Update, UpdateChange
from theorydb_py.errors import (
    CancellationReason,
    ConditionFailedError,
    InvalidInputError,
    InvalidKeyError,
    InvalidModelError,
    InvalidQueryError,
    ItemNotFoundError,
    KeyProviderError,
    LeaseHeldError,
    LeaseLostError,
    MalformedRowError,
    MovedError,
    NotEncryptedError,
    NoVersionError,
    PinnedError,
    PurgedError,
    RequestCompletedError,
    RequestInProgressError,
    RequestMismatchError,
    ResultGoneError,
    TableNotFoundError,
    TamperedError,
    TheorydbError,
    ThrottledError,
    TransactionConflictError,
    UnknownKeyError,
    UnknownOutcomeError,
    Unprocessed,
    VersionConflictError,
)
from theorydb_py.isr import FaceTheoryIsrMetaStore
from theorydb_py.leases import Lease, LeaseKey, LeaseManager
from theorydb_py.model import IndexDefinition, ModelDefinition, theorydb_field, theorydb_model

__version__ = "0.1.0"

__all__ = [
    "CancellationReason",
    "ConditionFailedError",
    "DynamoDB",
    "FaceTheoryIsrMetaStore",
    "Field",
    "Filter",
    "Index",
    "IndexDefinition",
    "InvalidInputError",
    "InvalidKeyError",
    "InvalidModelError",
    "InvalidQueryError",
    "ItemNotFoundError",
    "KeyProviderError",
    "Lease",
    "LeaseHeldError",
    "LeaseKey",
    "LeaseLostError",
    "LeaseManager",
    "MalformedRowError",
    "ModelDefinition",
    "MovedError",
    "NoVersionError",
    "NotEncryptedError",
    "Operator",
    "Outcome",
    "Page",
    "PinnedError",
    "PurgedError",
    "Query",
    "Reader",
    "RequestCompletedError",
    "RequestInProgressError",
    "RequestMismatchError",
    "ResultGoneError",
    "Retry",
    "SortKeyCondition",
    "Table",
    "TableNotFoundError",
    "TamperedError",
    "TheorydbError",
    "ThrottledError",
    "TransactConditionCheck",
    "TransactDelete",
    "TransactPut",
    "TransactUpdate",
    "TransactUpsert",
    "TransactWriteAction",
    "TransactionConflictError",
    "UnknownKeyError",
    "UnknownOutcomeError",
    "Unprocessed",
    "Update",
    "UpdateAdd",
    "UpdateChange",
    "UpdateSetIfNotExists",
    "VersionConflictError",
    "gsi",
    "lsi",
    "outcome_of",
    "theorydb_field",
    "theorydb_model",
    "where",
]
