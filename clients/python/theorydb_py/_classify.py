"""Converts botocore's errors into the errors of this package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError, ParamValidationError

from theorydb_py._outcome import (
    CONDITION_FAILED,
    CONFLICT,
    CONFLICT_CODES,
    NONE,
    THROTTLED,
    THROTTLING_CODES,
    TRANSACTION_CANCELED,
    Outcome,
    error_code,
    outcome_of,
    was_retried,
)
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


def stored_item(error: BaseException) -> Mapping[str, Any] | None:
    """Return the stored item that a failed condition came with; None if there is none."""
    if not isinstance(error, ClientError):
        return None
    response: Mapping[str, Any] = error.response
    item: Mapping[str, Any] | None = response.get("Item")
    return item


def read_failure(what: str, error: Exception) -> Exception:
    """Return the error to raise for a failed read.

    ``what`` describes the operation, in the infinitive. Errors without a counterpart in
    this package are returned unchanged.
    """
    return _translate(what, error) or error


def write_failure(what: str, error: Exception) -> Exception:
    """Return the error to raise for a failed write of one item; without a reply, an UnknownOutcomeError."""
    known = _translate(what, error)
    if isinstance(known, ThrottledError) or outcome_of(error) is not Outcome.UNKNOWN:
        return known or error
    missing = "an earlier attempt of boto3 got no reply" if was_retried(error) else "there was no reply"
    return UnknownOutcomeError(f"{what}: {missing}; it may have been applied, read the item: {error}")


def transaction_failure(what: str, reasons: tuple[CancellationReason, ...], error: Exception) -> Exception:
    """Return the error to raise for a failed transaction, with the reason of each action."""
    if error_code(error) != TRANSACTION_CANCELED:
        return write_failure(what, error)
    return cancellation(what, reasons)


def reason_of(index: int, kind: str, key: Mapping[str, Any], raw: Mapping[str, Any]) -> CancellationReason:
    """Combine an action of a transaction with DynamoDB's reason, whose members are all optional."""
    code, message = str(raw.get("Code") or NONE), str(raw.get("Message") or "")
    return CancellationReason(index, kind, key, code, message, raw.get("Item") or None)


def cancellation(what: str, reasons: tuple[CancellationReason, ...]) -> TheorydbError:
    """Return the error of a cancelled transaction, which had no effect."""
    causes = "; ".join(
        f"action {r.index}, {r.kind} {format_key(r.key)}: {_describe_reason(r)}" for r in reasons if r.failed
    )
    text = f"{what}: cancelled without effect: {causes}"
    codes = {r.code for r in reasons}
    if CONDITION_FAILED in codes:
        item = next(r.item for r in reasons if r.code == CONDITION_FAILED)
        return ConditionFailedError(text, item=item, reasons=reasons)
    if CONFLICT in codes:
        return TransactionConflictError(text, reasons=reasons)
    if codes & THROTTLED:
        return ThrottledError(text, reasons=reasons)
    return InvalidQueryError(text, reasons=reasons)


def format_key(key: Mapping[str, Any]) -> str:
    """Format a stored key for people."""
    return " ".join(f"{name}={next(iter(value.values()))!r}" for name, value in key.items())


def _describe_reason(reason: CancellationReason) -> str:
    if reason.code == CONDITION_FAILED:
        found = "" if reason.item else ": there is no item"
        return f"the condition on the stored item failed{found}"
    return f"{reason.code}: {reason.message}" if reason.message else reason.code


def _translate(what: str, error: Exception) -> TheorydbError | None:
    code = error_code(error)
    if code == "ConditionalCheckFailedException":
        item = stored_item(error)
        found = "" if item else ": there is no item"
        return ConditionFailedError(f"{what}: the condition on the stored item failed{found}", item=item)
    if code in CONFLICT_CODES:
        return TransactionConflictError(f"{what}: conflict with another transaction on the item; try again")
    if code in THROTTLING_CODES:
        return ThrottledError(f"{what}: throttled; raise the capacity or send fewer requests: {error}")
    if code == "ResourceNotFoundException":
        return TableNotFoundError(f"{what}: the table does not exist or is not active yet")
    if code == "IdempotentParameterMismatchException":
        return InvalidQueryError(f"{what}: the client token was used with another request; use each token once")
    if code == "ValidationException" or isinstance(error, ParamValidationError):
        return InvalidQueryError(f"{what}: DynamoDB rejected the request: {error}")
    return None
