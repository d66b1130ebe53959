"""DynamoDB tables of dataclasses, leases, and the metadata of a FaceTheory ISR cache.

Services in Go and TypeScript share the same tables and rows.
"""

from theorydb_py.actions import (
    TransactConditionCheck,
    TransactDelete,
    TransactPut,
    TransactUpdate,
    TransactWriteAction,
    UpdateAdd,
    UpdateSetIfNotExists,
)
from theorydb_py.errors import (
    CancellationReason,
    ConditionFailedError,
    InvalidInputError,
    InvalidKeyError,
    InvalidModelError,
    InvalidQueryError,
    ItemNotFoundError,
    LeaseHeldError,
    LeaseLostError,
    MalformedRowError,
    MovedError,
    NoVersionError,
    PinnedError,
    PurgedError,
    RequestCompletedError,
    RequestInProgressError,
    RequestMismatchError,
    ResultGoneError,
    TableNotFoundError,
    TheorydbError,
    ThrottledError,
    TransactionConflictError,
    UnknownOutcomeError,
    VersionConflictError,
)
from theorydb_py.isr import FaceTheoryIsrMetaStore
from theorydb_py.lease import Lease, LeaseKey, LeaseManager
from theorydb_py.model import ModelDefinition, theorydb_field
from theorydb_py.outcome import Outcome, outcome_of
from theorydb_py.query import Page, SortKeyCondition
from theorydb_py.retry import Retry
from theorydb_py.table import Table

__version__ = "0.1.0"

__all__ = [
    "CancellationReason",
    "ConditionFailedError",
    "FaceTheoryIsrMetaStore",
    "InvalidInputError",
    "InvalidKeyError",
    "InvalidModelError",
    "InvalidQueryError",
    "ItemNotFoundError",
    "Lease",
    "LeaseHeldError",
    "LeaseKey",
    "LeaseLostError",
    "LeaseManager",
    "MalformedRowError",
    "ModelDefinition",
    "MovedError",
    "NoVersionError",
    "Outcome",
    "Page",
    "PinnedError",
    "PurgedError",
    "RequestCompletedError",
    "RequestInProgressError",
    "RequestMismatchError",
    "ResultGoneError",
    "Retry",
    "SortKeyCondition",
    "Table",
    "TableNotFoundError",
    "TheorydbError",
    "ThrottledError",
    "TransactConditionCheck",
    "TransactDelete",
    "TransactPut",
    "TransactUpdate",
    "TransactWriteAction",
    "TransactionConflictError",
    "UnknownOutcomeError",
    "UpdateAdd",
    "UpdateSetIfNotExists",
    "VersionConflictError",
    "outcome_of",
    "theorydb_field",
]
