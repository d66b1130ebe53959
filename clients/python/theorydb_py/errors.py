"""What callers branch on: one class per kind of failure.

The names are those of the TypeScript client and of Go: ``LeaseLost`` is
``LeaseLostError`` here and in TypeScript, and ``ErrLeaseLost`` in Go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class CancellationReason:
    """Why one action of a cancelled transaction was, or would have been, refused."""

    index: int
    """Of the action, from 0."""
    kind: str
    """put, update, delete or condition check."""
    key: Mapping[str, Any]
    """Of the item, as it is stored."""
    code: str
    """DynamoDB's: ``None`` (this text) if nothing was wrong with this action,
    ``ConditionalCheckFailed``, ``TransactionConflict``, ``ThrottlingError``,
    ``ProvisionedThroughputExceeded``, ``ItemCollectionSizeLimitExceeded``,
    ``ValidationError`` or one that AWS has added."""
    message: str
    """DynamoDB's, for people; it differs between regions and engines."""
    item: Mapping[str, Any] | None = None
    """The stored item if a condition failed, as it is stored; None if there is none."""

    @property
    def failed(self) -> bool:
        """Whether this action had a part in the cancellation."""
        return self.code != "None"


class TheorydbError(Exception):
    """Any error of this package. Its text names what was tried and what to do.

    Errors of the network and of permissions that say nothing about a write are
    not wrapped: they stay what botocore raised.
    """

    code: ClassVar[str] = "Theorydb"
    """The name of the kind of failure, the same in every language."""

    def __init__(self, message: str, *, reasons: tuple[CancellationReason, ...] = ()) -> None:
        super().__init__(message)
        self.reasons = reasons
        """One for each action of the cancelled transaction that this error tells
        of, in order; empty for any other error."""


# --- What was asked is wrong; nothing was sent ------------------------------


class InvalidInputError(TheorydbError, ValueError):
    """A value has the wrong type, is out of bounds, or cannot be stored exactly.

    Negative or endless intervals, and milliseconds where seconds belong, are such.
    """

    code = "InvalidInput"


class InvalidKeyError(TheorydbError):
    """A cache key is empty or too long, a tenant has a ``#``, or an idempotency key is none."""

    code = "InvalidKey"


class InvalidModelError(TheorydbError):
    """A class cannot be what its fields say."""

    code = "InvalidModel"


class InvalidQueryError(TheorydbError):
    """The parts of a query, an update or a transaction do not go together.

    DynamoDB's own refusal of a request as invalid is one too.
    """

    code = "InvalidQuery"


# --- What the table says ----------------------------------------------------


class ItemNotFoundError(TheorydbError):
    """There is no such item."""

    code = "ItemNotFound"


class ConditionFailedError(TheorydbError):
    """The stored item is not as a condition demands, and nothing was changed."""

    code = "ConditionFailed"

    def __init__(
        self,
        message: str,
        *,
        item: Mapping[str, Any] | None = None,
        reasons: tuple[CancellationReason, ...] = (),
    ) -> None:
        super().__init__(message, reasons=reasons)
        self.item = item
        """The stored item, as it is stored; None if there is none. Of a
        transaction, that of the first action whose condition failed."""


class VersionConflictError(ConditionFailedError):
    """The stored item has another version: it was changed since it was read."""

    code = "VersionConflict"


class TransactionConflictError(TheorydbError):
    """Another transaction was at work on the item. A new attempt may get through."""

    code = "TransactionConflict"


class ThrottledError(TheorydbError):
    """The table or the account is at the limit of its capacity.

    Of a single write this does not say that it did not happen: boto3 repeats
    requests by itself, and the answer to one before the last may have been lost.
    """

    code = "Throttled"


class TableNotFoundError(TheorydbError):
    """There is no such table, or it cannot be used yet."""

    code = "TableNotFound"


class UnknownOutcomeError(TheorydbError):
    """Nobody can tell whether a write happened, or still will."""

    code = "UnknownOutcome"


class MalformedRowError(TheorydbError):
    """An attribute of a stored item is not what it is there for.

    The fields are empty where the error is not about a stored row.
    """

    code = "MalformedRow"

    def __init__(
        self, message: str, *, pk: str = "", sk: str = "", attribute: str = "", expected: str = "", found: str = ""
    ) -> None:
        super().__init__(message)
        self.pk = pk
        self.sk = sk
        self.attribute = attribute
        """Its name, with a dot before the name of a map's member."""
        self.expected = expected
        """For people, as ``found``."""
        self.found = found


# --- Leases -----------------------------------------------------------------


class LeaseHeldError(TheorydbError):
    """Somebody else has the lease, or it rests after a failure."""

    code = "LeaseHeld"

    def __init__(self, message: str, *, owner: str = "", expires_at: int = 0, failures: int = 0) -> None:
        super().__init__(message)
        self.owner = owner
        """Who has it, for people; empty if it did not say, or after a failure."""
        self.expires_at = expires_at
        """When it ends unless it is extended, in epoch seconds; 0 if that is not known."""
        self.failures = failures
        """How many attempts have failed in a row."""


class LeaseLostError(TheorydbError):
    """The lease expired or was taken by another holder. It cannot come back."""

    code = "LeaseLost"


# --- Publishing and history -------------------------------------------------


class MovedError(TheorydbError):
    """The entry is no longer what was read before the write: another writer was first."""

    code = "Moved"


class PinnedError(TheorydbError):
    """The current entry is pinned, and the write does not unpin it."""

    code = "Pinned"


class PurgedError(TheorydbError):
    """A hard purge covers the generation, which may never be served again."""

    code = "Purged"


class NoVersionError(TheorydbError):
    """The generation is not kept."""

    code = "NoVersion"


# --- Requests with an idempotency key ---------------------------------------


class RequestCompletedError(TheorydbError):
    """The request has succeeded before; its result is recorded here."""

    code = "RequestCompleted"

    def __init__(self, message: str, *, result_s3_key: str = "", generation_id: str = "") -> None:
        super().__init__(message)
        self.result_s3_key = result_s3_key
        """The body that answers it; empty if that was not recorded."""
        self.generation_id = generation_id
        """The generation that answers it; empty if that was not recorded."""


class RequestInProgressError(TheorydbError):
    """Somebody is at the request."""

    code = "RequestInProgress"

    def __init__(self, message: str, *, until: int = 0) -> None:
        super().__init__(message)
        self.until = until
        """When it may be taken over unless it is extended, in epoch seconds."""


class RequestMismatchError(TheorydbError):
    """The idempotency key was used before for other inputs. Use a new key for a new request."""

    code = "RequestMismatch"


class ResultGoneError(TheorydbError):
    """The request has succeeded before, and its result is not kept any more."""

    code = "ResultGone"
