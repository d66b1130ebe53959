"""What the answer to a write says about the write."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any

from botocore.exceptions import ClientError, NoCredentialsError, ParamValidationError

from theorydb_py.errors import (
    ConditionFailedError,
    LeaseHeldError,
    LeaseLostError,
    MovedError,
    TheorydbError,
    ThrottledError,
    TransactionConflictError,
    UnknownOutcomeError,
)


class Outcome(enum.Enum):
    """What became of one write."""

    APPLIED = "applied"
    """It happened."""
    CONDITION_FAILED = "condition failed"
    """It did not happen, because its condition was false."""
    REFUSED = "refused"
    """It did not happen, and would not if it were repeated."""
    CANCELLED = "cancelled"
    """It did not happen, because of something that passes: another transaction
    on the item, capacity. A new attempt is a new request."""
    UNKNOWN = "unknown"
    """Nobody can tell whether it happened or still will. The same request may be
    repeated if it is idempotent.

    boto3 retries by itself and shows the last answer alone, and the reply to an
    attempt before it may have been lost. So throttling counts as unknown, and so
    does any refusal of a retried request but a failed condition, which callers
    compare with what they sent, and a cancelled transaction, whose client token
    makes the answer definite."""


def outcome_of(error: BaseException | None) -> Outcome:
    """Judge the error of one write, by this package or by botocore; None: it succeeded.

    It goes by types and codes, never by message texts, which differ between
    regions and engines. Whatever is not known to be an answer is UNKNOWN.
    """
    if error is None:
        return Outcome.APPLIED
    if isinstance(error, ClientError):
        return _outcome_of_answer(error)
    if isinstance(error, TheorydbError):
        return _outcome_of_ours(error)
    if isinstance(error, (ParamValidationError, NoCredentialsError)):
        return Outcome.REFUSED  # never left this process
    return Outcome.UNKNOWN  # network, deadline, interruption


def condition_held(write: Callable[[], object]) -> bool:
    """Make a write, and say whether its condition was true. Its other errors are raised."""
    try:
        write()
    except Exception as error:
        if outcome_of(error) is not Outcome.CONDITION_FAILED:
            raise
        return False
    return True


def outcome_of_codes(codes: Iterable[str]) -> Outcome:
    """Judge a cancelled transaction by the codes of all of its actions.

    It certainly did not happen; the question is whether it is worth repeating. A
    failed condition decides even if another action met a conflict: what
    conditions demand (the token of a lease, an unchanged version) does not come
    back.
    """
    outcome = Outcome.REFUSED
    for code in codes:
        if code == CONDITION_FAILED:
            return Outcome.CONDITION_FAILED
        if code in PASSING:
            outcome = Outcome.CANCELLED
    return outcome


def is_worth_repeating(error: BaseException) -> bool:
    """Say that a request with a token may go through at the next attempt.

    Either its answer does not tell whether it happened, or it was cancelled for
    nothing but reasons that pass.
    """
    codes = reason_codes(error)
    if codes:
        return all(c in PASSING or c == NONE for c in codes) and any(c in PASSING for c in codes)
    return outcome_of(error) in (Outcome.CANCELLED, Outcome.UNKNOWN)


def error_code(error: BaseException | None) -> str:
    """Return DynamoDB's code of an error, such as ``ThrottlingException``; else empty."""
    if not isinstance(error, ClientError):
        return ""
    return str(error.response.get("Error", {}).get("Code", ""))


def was_retried(error: BaseException | None) -> bool:
    """Return whether boto3 sent the request more than once; the replies to earlier attempts may have been lost."""
    if not isinstance(error, ClientError):
        return False
    metadata: Any = error.response.get("ResponseMetadata", {})
    return int(metadata.get("RetryAttempts", 0)) > 0


def cancellation_reasons(error: BaseException | None) -> tuple[dict[str, Any], ...]:
    """Return what DynamoDB says of each action of a cancelled transaction, in order.

    Members are ``Code``, ``Message`` and, of a failed condition that asked for it,
    ``Item``. Empty for any other error.
    """
    if not isinstance(error, ClientError) or error_code(error) != TRANSACTION_CANCELED:
        return ()
    reasons: Any = error.response.get("CancellationReasons", [])
    return tuple(reasons)


def reason_codes(error: BaseException) -> tuple[str, ...]:
    """Return the codes of :func:`cancellation_reasons`, or of an error of ours."""
    if isinstance(error, TheorydbError):
        return tuple(reason.code for reason in error.reasons)
    return tuple(str(reason.get("Code") or NONE) for reason in cancellation_reasons(error))


# DynamoDB's code of a transaction that did not happen.
TRANSACTION_CANCELED = "TransactionCanceledException"

# Codes of reasons for which transactions are cancelled.
NONE = "None"
CONDITION_FAILED = "ConditionalCheckFailed"
CONFLICT = "TransactionConflict"
THROTTLED = frozenset({"ThrottlingError", "ProvisionedThroughputExceeded"})

# What these reasons are about may be over at the next attempt.
PASSING = THROTTLED | {CONFLICT, "InternalServerError"}

# Codes of answers that say the same of a single request.
CONFLICTING_ANSWERS = frozenset({"TransactionConflictException", "ReplicatedWriteConflictException"})
THROTTLING_ANSWERS = frozenset(
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

# Codes of answers after which the request may have been, or may yet be, carried out.
_UNKNOWN_ANSWERS = THROTTLING_ANSWERS | {
    "TransactionInProgressException",
    "InternalServerError",
    "InternalFailure",
    "ServiceUnavailable",
    "RequestTimeout",
    "RequestTimeoutException",
}

# HTTP statuses: of throttling, and from where on they are the server's failures.
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500


def _outcome_of_answer(error: ClientError) -> Outcome:
    code = error_code(error)
    if code == TRANSACTION_CANCELED:
        return outcome_of_codes(reason_codes(error))
    if code == "ConditionalCheckFailedException":
        return Outcome.CONDITION_FAILED
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    unanswered = status == _TOO_MANY_REQUESTS or status >= _SERVER_ERROR or not code
    if unanswered or code in _UNKNOWN_ANSWERS or was_retried(error):
        return Outcome.UNKNOWN
    return Outcome.CANCELLED if code in CONFLICTING_ANSWERS else Outcome.REFUSED


def _outcome_of_ours(error: TheorydbError) -> Outcome:
    if error.reasons:
        return outcome_of_codes(reason_codes(error))
    if isinstance(error, (ConditionFailedError, LeaseHeldError, LeaseLostError, MovedError)):
        return Outcome.CONDITION_FAILED
    if isinstance(error, TransactionConflictError):
        return Outcome.CANCELLED
    if isinstance(error, (ThrottledError, UnknownOutcomeError)):
        return Outcome.UNKNOWN
    return Outcome.REFUSED
