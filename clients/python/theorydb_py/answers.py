"""botocore's errors, as the errors of this package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError, ParamValidationError

from theorydb_py.errors import (
    CancellationReason,
    ConditionFailedError,
    InvalidQueryError,
    TableNotFoundError,
    TheorydbError,
    ThrottledError,
    TransactionConflictError,
    UnknownOutcomeError,
)
from theorydb_py.outcome import (
    CONDITION_FAILED,
    CONFLICT,
    CONFLICTING_ANSWERS,
    NONE,
    THROTTLED,
    THROTTLING_ANSWERS,
    TRANSACTION_CANCELED,
    Outcome,
    error_code,
    outcome_of,
    was_retried,
)


def stored_item(error: BaseException) -> Mapping[str, Any] | None:
    """Return the item that a failed condition came with, as it is stored; None if there is none."""
    if not isinstance(error, ClientError):
        return None
    response: Mapping[str, Any] = error.response
    item: Mapping[str, Any] | None = response.get("Item")
    return item


def read_failure(what: str, error: Exception) -> Exception:
    """Return what to raise for a failed read.

    ``what`` was tried, on which thing, in the infinitive. What this package has
    no word for stays as it is.
    """
    return _answer(what, error) or error


def write_failure(what: str, error: Exception) -> Exception:
    """Return what to raise for a failed write of one item.

    Without an answer it is an UnknownOutcomeError.
    """
    known = _answer(what, error)
    if isinstance(known, ThrottledError) or outcome_of(error) is not Outcome.UNKNOWN:
        return known or error
    missing = "an earlier attempt of boto3's was not answered" if was_retried(error) else "there was no answer"
    return UnknownOutcomeError(f"{what}: {missing}; it may have happened, look what is stored: {error}")


def transaction_failure(what: str, reasons: tuple[CancellationReason, ...], error: Exception) -> Exception:
    """Return what to raise for a failed transaction, with the reason of each action."""
    if error_code(error) != TRANSACTION_CANCELED:
        return write_failure(what, error)
    return cancellation(what, reasons)


def reason_of(index: int, kind: str, key: Mapping[str, Any], said: Mapping[str, Any]) -> CancellationReason:
    """Join an action of a transaction with what DynamoDB says of it, which may be less, or without a code."""
    code, message = str(said.get("Code") or NONE), str(said.get("Message") or "")
    return CancellationReason(index, kind, key, code, message, said.get("Item") or None)


def cancellation(what: str, reasons: tuple[CancellationReason, ...]) -> TheorydbError:
    """Return the error of a transaction that was cancelled, and nothing of which happened."""
    said = "; ".join(f"action {r.index}, {r.kind} {readable_key(r.key)}: {_said_of(r)}" for r in reasons if r.failed)
    text = f"{what}: cancelled, and nothing of it happened: {said}"
    codes = {r.code for r in reasons}
    if CONDITION_FAILED in codes:
        item = next(r.item for r in reasons if r.code == CONDITION_FAILED)
        return ConditionFailedError(text, item=item, reasons=reasons)
    if CONFLICT in codes:
        return TransactionConflictError(text, reasons=reasons)
    if codes & THROTTLED:
        return ThrottledError(text, reasons=reasons)
    return InvalidQueryError(text, reasons=reasons)


def readable_key(key: Mapping[str, Any]) -> str:
    """Name an item for people, by its key as it is stored."""
    return " ".join(f"{name}={next(iter(value.values()))!r}" for name, value in key.items())


def _said_of(reason: CancellationReason) -> str:
    if reason.code == CONDITION_FAILED:
        found = "" if reason.item else ": there is none"
        return f"the stored item is not as the condition demands{found}"
    return f"{reason.code}: {reason.message}" if reason.message else reason.code


def _answer(what: str, error: Exception) -> TheorydbError | None:
    code = error_code(error)
    if code == "ConditionalCheckFailedException":
        item = stored_item(error)
        found = "" if item else ": there is none"
        return ConditionFailedError(f"{what}: the stored item is not as the condition demands{found}", item=item)
    if code in CONFLICTING_ANSWERS:
        return TransactionConflictError(f"{what}: another transaction is at work on the item; try again")
    if code in THROTTLING_ANSWERS:
        return ThrottledError(f"{what}: throttled; raise the capacity or ask less often: {error}")
    if code == "ResourceNotFoundException":
        return TableNotFoundError(f"{what}: there is no such table, or it cannot be used yet")
    if code == "IdempotentParameterMismatchException":
        return InvalidQueryError(f"{what}: its token was used for another request; give each its own")
    if code == "ValidationException" or isinstance(error, ParamValidationError):
        return InvalidQueryError(f"{what}: DynamoDB refuses the request: {error}")
    return None
