"""The errors that callers branch on, one class per kind of failure.

Names correspond across languages: ``LeaseLost`` is ``LeaseLostError`` here and in
TypeScript, and ``ErrLeaseLost`` in Go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class CancellationReason:
    """Why an action of a cancelled transaction failed, or that it did not."""

    index: int
    """The index of the action, from 0."""
    kind: str
    """put, update, delete or condition check."""
    key: Mapping[str, Any]
    """The key of the item, as stored."""
    code: str
    """DynamoDB's code, or the text ``None`` if this action did not fail.

    ``ConditionalCheckFailed``, ``TransactionConflict``, ``ThrottlingError``,
    ``ProvisionedThroughputExceeded``, ``ItemCollectionSizeLimitExceeded``,
    ``ValidationError``, or one that AWS has added.
    """
    message: str
    """DynamoDB's message, for people; it differs between regions and engines."""
    item: Mapping[str, Any] | None = None
    """The stored item if a condition failed; None if there is no item."""

    @property
    def failed(self) -> bool:
        """Whether this action contributed to the cancellation."""
        return self.code != "None"


@dataclass(frozen=True)
class Unprocessed:
    """What is left of a batch, as the caller passed it, for another attempt."""

    puts: tuple[Any, ...] = ()
    """The objects that are not known to be stored."""
    deletes: tuple[Any, ...] = ()
    """The keys of items that are not known to be deleted."""
    gets: tuple[Any, ...] = ()
    """The keys that were not read."""


class TheorydbError(Exception):
    """Base class of this package's errors. The message names what was tried and what to do.

    Network and permission errors that do not concern a write are not wrapped:
    botocore's errors are raised as they are.
    """

    code: ClassVar[str] = "Theorydb"
    """The name of the kind of failure, the same in every language."""
    _peer_codes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, message: str, *, reasons: tuple[CancellationReason, ...] = ()) -> None:
        super().__init__(message)
        self.reasons = reasons
        """One for each action of the cancelled transaction, in order; empty for any other error."""
        self.unprocessed: Unprocessed | None = None
        """What is left of a batch that ended early; None for any other error."""

    @property
    def codes(self) -> tuple[str, ...]:
        """The code, and TableTheory's codes of the same meaning, such as ``ErrLeaseHeld``."""
        return (self.code, *self._peer_codes)


# --- Invalid arguments; nothing was sent ------------------------------------


class ValidationError(TheorydbError):
    """An argument is invalid: the base of the four errors below, which are more specific."""


class InvalidInputError(ValidationError, ValueError):
    """A value has the wrong type, is out of bounds, or cannot be stored exactly.

    Also negative or infinite intervals, and milliseconds instead of seconds.
    """

    code = "InvalidInput"


class InvalidKeyError(ValidationError):
    """A cache key is empty or too long, or a tenant or an idempotency key is invalid."""

    code = "InvalidKey"


class InvalidModelError(ValidationError):
    """The fields of a class do not form a valid model."""

    code = "InvalidModel"
    _peer_codes = ("ErrInvalidModel",)


class InvalidQueryError(ValidationError):
    """A query, an update or a transaction is inconsistent, or DynamoDB rejected it as invalid."""

    code = "InvalidQuery"
    _peer_codes = ("ErrInvalidOperator",)


# --- Errors from DynamoDB ---------------------------------------------------


class ItemNotFoundError(TheorydbError):
    """The item does not exist: a ``get``, or an ``update``, which then changed nothing."""

    code = "ItemNotFound"
    _peer_codes = ("ErrItemNotFound",)


class ConditionFailedError(TheorydbError):
    """The condition on the stored item failed; nothing was changed."""

    code = "ConditionFailed"
    _peer_codes: ClassVar[tuple[str, ...]] = ("ErrConditionFailed",)

    def __init__(
        self,
        message: str,
        *,
        item: Mapping[str, Any] | None = None,
        reasons: tuple[CancellationReason, ...] = (),
    ) -> None:
        super().__init__(message, reasons=reasons)
        self.item = item
        """The stored item; None if there is none. Of a transaction: the item of the first failed condition."""


class VersionConflictError(ConditionFailedError):
    """The stored item has another version: it was changed since it was read."""

    code = "VersionConflict"
    _peer_codes = ("ErrVersionConflict", "ErrConditionFailed")


class TransactionConflictError(TheorydbError):
    """The item was part of another transaction at the time. A new attempt may succeed."""

    code = "TransactionConflict"


class ThrottledError(TheorydbError):
    """The table or the account has reached its capacity.

    A single write may have been applied nevertheless: boto3 retries by itself, and the
    reply to an earlier attempt may have been lost.
    """

    code = "Throttled"


class TableNotFoundError(TheorydbError):
    """The table does not exist or is not active yet."""

    code = "TableNotFound"
    _peer_codes = ("ErrTableNotFound",)


class UnknownOutcomeError(TheorydbError):
    """It is unknown whether a write was applied, or still will be."""

    code = "UnknownOutcome"


class MalformedRowError(TheorydbError):
    """An attribute of a stored item is invalid.

    The fields are empty if the error does not concern a stored row.
    """

    code = "MalformedRow"

    def __init__(
        self, message: str, *, pk: str = "", sk: str = "", attribute: str = "", expected: str = "", found: str = ""
    ) -> None:
        super().__init__(message)
        self.pk = pk
        self.sk = sk
        self.attribute = attribute
        """The name of the attribute; a dot separates the members of maps."""
        self.expected = expected
        """For people, like ``found``."""
        self.found = found


# --- Encrypted attributes ---------------------------------------------------


class NotEncryptedError(TheorydbError):
    """An attribute that the model encrypts is stored in plaintext: its writer need not have had a key."""

    code = "NotEncrypted"
    _peer_codes = ("ErrInvalidEncryptedEnvelope",)


class TamperedError(TheorydbError):
    """An encrypted attribute, or its data key, was modified or copied from another attribute, item or table."""

    code = "Tampered"
    _peer_codes = ("ErrInvalidEncryptedEnvelope",)


class UnknownKeyError(TheorydbError):
    """The key provider does not have the master key that sealed the data key of an attribute."""

    code = "UnknownKey"


class KeyProviderError(TheorydbError):
    """The key provider failed to create or open a data key; its error is the ``__cause__``.

    A write that raises it was not sent.
    """

    code = "KeyProvider"


# --- Leases -----------------------------------------------------------------


class LeaseHeldError(TheorydbError):
    """Another process holds the lease, or it is in backoff after a failure."""

    code = "LeaseHeld"
    _peer_codes = ("ErrLeaseHeld",)

    def __init__(self, message: str, *, owner: str = "", expires_at: int = 0, failures: int = 0) -> None:
        super().__init__(message)
        self.owner = owner
        """The holder, for people; empty if unnamed, or in backoff."""
        self.expires_at = expires_at
        """When it expires unless it is refreshed, in epoch seconds; 0 if unknown."""
        self.failures = failures
        """How many attempts have failed in a row."""


class LeaseLostError(TheorydbError):
    """The lease expired or was taken by another holder. It cannot be regained."""

    code = "LeaseLost"
    _peer_codes = ("ErrLeaseNotOwned",)


# --- Publishing and rollbacks -----------------------------------------------


class MovedError(TheorydbError):
    """The entry is no longer what was read before the write: another writer was first."""

    code = "Moved"


class PinnedError(TheorydbError):
    """The current entry is pinned, and the write does not unpin it."""

    code = "Pinned"


class PurgedError(TheorydbError):
    """A hard purge covers the generation: it must not be served again."""

    code = "Purged"


class NoVersionError(TheorydbError):
    """The version is not kept."""

    code = "NoVersion"


# --- Request records --------------------------------------------------------


class RequestCompletedError(TheorydbError):
    """The request was completed before; its result is recorded here."""

    code = "RequestCompleted"

    def __init__(self, message: str, *, result_s3_key: str = "", generation_id: str = "") -> None:
        super().__init__(message)
        self.result_s3_key = result_s3_key
        """The stored body of the result; empty if it was not recorded."""
        self.generation_id = generation_id
        """The generation of the result; empty if it was not recorded."""


class RequestInProgressError(TheorydbError):
    """Another attempt at the request is in progress."""

    code = "RequestInProgress"

    def __init__(self, message: str, *, until: int = 0) -> None:
        super().__init__(message)
        self.until = until
        """When it may be taken over unless it is refreshed, in epoch seconds."""


class RequestMismatchError(TheorydbError):
    """The idempotency key was used with other inputs. Use a new key for a new request."""

    code = "RequestMismatch"


class ResultGoneError(TheorydbError):
    """The request was completed before, but its result is no longer kept."""

    code = "ResultGone"


# --- TableTheory's names of these errors -------------------------------------

TheorydbPyError = TheorydbError
NotFoundError = ItemNotFoundError
LeaseNotOwnedError = LeaseLostError
ModelDefinitionError = InvalidModelError
EncryptionNotConfiguredError = InvalidModelError
BatchRetryExceededError = ThrottledError
