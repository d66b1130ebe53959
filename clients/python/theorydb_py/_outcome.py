"""Classifies the outcome of a write by its error."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any

from botocore.exceptions import ClientError, NoCredentialsError, ParamValidationError

from theorydb_py.errors import (
    ConditionFailedError,
    KeyProviderError,
    LeaseHeldError,
    LeaseLostError,
    MovedError,
    NotEncryptedError,
    TamperedError,
    TheorydbError,
    ThrottledError,
    TransactionConflictError,
    UnknownKeyError,
    UnknownOutcomeError,
)


class Outcome(enum.Enum):
    """The outcome of one write."""

    APPLIED = "applied"
    """The write was applied."""
    CONDITION_FAILED = "condition failed"
    """Not applied: its condition failed."""
    REFUSED = "refused"
    """Not applied, and repeating it would not help."""
    CANCELLED = "cancelled"
    """Not applied for a transient reason: a conflict or throttling. A new attempt is a new request."""
    UNKNOWN = "unknown"
    """Unknown whether it was applied or still will be. An idempotent request may be repeated.

    boto3 retries by itself and returns only the last answer, and the reply to an
    earlier attempt may have been lost. So throttling counts as unknown, and so does any
    refusal of a retried request, with two exceptions: a failed condition, which callers
    compare with what they sent, and a cancelled transaction, whose client token makes
    the answer definite.
    """


def outcome_of(error: BaseException | None) -> Outcome:
    """Classify the error of one write, of this package or of botocore; None: it succeeded.

    Types and codes decide, never messages, which differ between regions and engines.
    Anything that is not certainly a reply is UNKNOWN.
    """
    if error is None:
        return Outcome.APPLIED
    if isinstance(error, ClientError):
        return _outcome_of_response(error)
    if isinstance(error, TheorydbError):
        return _outcome_of_package_error(error)
    if isinstance(error, (ParamValidationError, NoCredentialsError)):
        return Outcome.REFUSED  # never left this process
    return Outcome.UNKNOWN  # network, deadline, interruption


def condition_held(write: Callable[[], object]) -> bool:
    """Execute a write; return whether its condition held. Raises its other errors."""
    try:
        write()
    except Exception as error:
        if outcome_of(error) is not Outcome.CONDITION_FAILED:
            raise
        return False
    return True


def outcome_of_codes(codes: Iterable[str]) -> Outcome:
    """Classify a cancelled transaction by the codes of all its actions.

    It was certainly not applied; the question is whether a retry can succeed. A failed
    condition decides even if another action met a conflict: conditions (a lease token,
    an unchanged version) never become true again.
    """
    outcome = Outcome.REFUSED
    for code in codes:
        if code == CONDITION_FAILED:
            return Outcome.CONDITION_FAILED
        if code in PASSING:
            outcome = Outcome.CANCELLED
    return outcome


def is_retryable(error: BaseException) -> bool:
    """Return whether a request with a client token may succeed at the next attempt.

    That is so if its outcome is unknown, or if it was cancelled for transient reasons
    only.
    """
    codes = reason_codes(error)
    if codes:
        return all(c in PASSING or c == NONE for c in codes) and any(c in PASSING for c in codes)
    return outcome_of(error) in (Outcome.CANCELLED, Outcome.UNKNOWN)


def error_code(error: BaseException | None) -> str:
    """Return DynamoDB's code of an error, such as ``ThrottlingException``; else the empty string."""
    if not isinstance(error, ClientError):
        return ""
    return str(error.response.get("Error", {}).get("Code", ""))


def was_retried(error: BaseException | None) -> bool:
    """Return whether boto3 sent the request more than once: replies to earlier attempts may have been lost."""
    if not isinstance(error, ClientError):
        return False
    metadata: Any = error.response.get("ResponseMetadata", {})
    return int(metadata.get("RetryAttempts", 0)) > 0


def cancellation_reasons(error: BaseException | None) -> tuple[dict[str, Any], ...]:
    """Return DynamoDB's reason for each action of a cancelled transaction, in order.

    Members are ``Code``, ``Message`` and, if a failed condition asked for it, ``Item``.
    Empty for any other error.
    """
    if not isinstance(error, ClientError) or error_code(error) != TRANSACTION_CANCELED:
        return ()
    reasons: Any = error.response.get("CancellationReasons", [])
    return tuple(reasons)


def reason_codes(error: BaseException) -> tuple[str, ...]:
    """Return the codes of :func:`cancellation_reasons`, or of an error of this package."""
    if isinstance(error, TheorydbError):
        return tuple(reason.code for reason in error.reasons)
    return tuple(str(reason.get("Code") or NONE) for reason in cancellation_reasons(error))


# The code of a cancelled transaction.
TRANSACTION_CANCELED = "TransactionCanceledException"

# Codes of cancellation reasons.
NONE = "None"
CONDITION_FAILED = "ConditionalCheckFailed"
CONFLICT = "TransactionConflict"
THROTTLED = frozenset({"ThrottlingError", "ProvisionedThroughputExceeded"})

# Transient cancellation reasons.
PASSING = THROTTLED | {CONFLICT, "InternalServerError"}

# The corresponding codes of single requests.
CONFLICT_CODES = frozenset({"TransactionConflictException", "ReplicatedWriteConflictException"})
THROTTLING_CODES = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)

# Codes after which the request may have been applied, or may yet be.
_UNKNOWN_ANSWERS = THROTTLING_CODES | {
    "TransactionInProgressException",
    "InternalServerError",
    "InternalFailure",
    "ServiceUnavailable",
    "RequestTimeout",
    "RequestTimeoutException",
}

# HTTP statuses: throttling, and the lowest server error.
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500


def _outcome_of_response(error: ClientError) -> Outcome:
    code = error_code(error)
    if code == TRANSACTION_CANCELED:
        return outcome_of_codes(reason_codes(error))
    if code == "ConditionalCheckFailedException":
        return Outcome.CONDITION_FAILED
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    unanswered = status == _TOO_MANY_REQUESTS or status >= _SERVER_ERROR or not code
    if unanswered or code in _UNKNOWN_ANSWERS or was_retried(error):
        return Outcome.UNKNOWN
    return Outcome.CANCELLED if code in CONFLICT_CODES else Outcome.REFUSED


def _outcome_of_package_error(error: TheorydbError) -> Outcome:
    if error.reasons:
        return outcome_of_codes(reason_codes(error))
    if isinstance(error, (ConditionFailedError, LeaseHeldError, LeaseLostError, MovedError)):
        return Outcome.CONDITION_FAILED
    if isinstance(error, (TransactionConflictError, KeyProviderError)):
        return Outcome.CANCELLED
    # What was encrypted is read back only after an update was applied.
    unreadable = (NotEncryptedError, TamperedError, UnknownKeyError)
    if isinstance(error, (ThrottledError, UnknownOutcomeError, *unreadable)):
        return Outcome.UNKNOWN
    return Outcome.REFUSED
