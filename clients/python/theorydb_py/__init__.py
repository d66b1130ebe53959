"""DynamoDB tables of dataclasses, leases, and the metadata of a FaceTheory ISR cache.

Services in Go and TypeScript share the same tables and rows.
"""

from theorydb_py._client import DynamoDB
from theorydb_py._filter import Filter, Operator, where
from theorydb_py._filterable import FilterBuilder
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
)
from theorydb_py._update import Update, UpdateAdd, UpdateChange, UpdateSetIfNotExists
from theorydb_py.errors import (
    BatchRetryExceededError,
    CancellationReason,
    ConditionFailedError,
    EncryptionNotConfiguredError,
    InvalidInputError,
    InvalidKeyError,
    InvalidModelError,
    InvalidQueryError,
    ItemNotFoundError,
    KeyProviderError,
    LeaseHeldError,
    LeaseLostError,
    LeaseNotOwnedError,
    MalformedRowError,
    ModelDefinitionError,
    MovedError,
    NotEncryptedError,
    NotFoundError,
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
    TheorydbPyError,
    ThrottledError,
    TransactionConflictError,
    UnknownKeyError,
    UnknownOutcomeError,
    Unprocessed,
    ValidationError,
    VersionConflictError,
)
from theorydb_py.isr import FaceTheoryIsrMetaStore
from theorydb_py.leases import Lease, LeaseKey, LeaseManager
from theorydb_py.model import IndexDefinition, ModelDefinition, theorydb_field, theorydb_model
from theorydb_py.query import FilterCondition, FilterGroup
from theorydb_py.streams import StreamImage, StreamItems, unmarshal_stream_image, unmarshal_stream_record

__version__ = "0.1.0"

__all__ = [
    "BatchRetryExceededError",
    "CancellationReason",
    "ConditionFailedError",
    "DynamoDB",
    "EncryptionNotConfiguredError",
    "FaceTheoryIsrMetaStore",
    "Field",
    "Filter",
    "FilterBuilder",
    "FilterCondition",
    "FilterGroup",
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
    "LeaseNotOwnedError",
    "MalformedRowError",
    "ModelDefinition",
    "ModelDefinitionError",
    "MovedError",
    "NoVersionError",
    "NotEncryptedError",
    "NotFoundError",
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
    "StreamImage",
    "StreamItems",
    "Table",
    "TableNotFoundError",
    "TamperedError",
    "TheorydbError",
    "TheorydbPyError",
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
    "ValidationError",
    "VersionConflictError",
    "gsi",
    "lsi",
    "outcome_of",
    "theorydb_field",
    "theorydb_model",
    "unmarshal_stream_image",
    "unmarshal_stream_record",
    "where",
]
