"""The outcome of writes, classified by their errors."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    ParamValidationError,
    ReadTimeoutError,
)

from tests.isr.vectors import load
from theorydb_py import errors
from theorydb_py._classify import write_failure
from theorydb_py._outcome import Outcome, is_retryable, outcome_of, reason_codes


def answer(code: str, status: int = 400, **more: Any) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": "?"}, "ResponseMetadata": {"HTTPStatusCode": status}, **more}
    return ClientError(response, "PutItem")


def retried(error: ClientError, attempts: int) -> ClientError:
    """Return an error as botocore raises it after so many attempts."""
    error.response["ResponseMetadata"]["RetryAttempts"] = attempts - 1
    return error


def vectors(section: str) -> list[Any]:
    return [pytest.param(vector, id=vector["name"]) for vector in load("outcomes.json")[section]]


@pytest.mark.parametrize("vector", vectors("answers"))
def test_errors_of_the_specification(vector: dict[str, Any]) -> None:
    error: Exception | None
    if "status" not in vector:
        error = ReadTimeoutError(endpoint_url="http://table")
    elif vector["status"] < 300:
        error = None
    else:
        error = retried(answer(vector.get("code", ""), vector["status"]), vector["attempts"])
    assert outcome_of(error).value == vector["outcome"]
    if error is not None:
        assert outcome_of(write_failure("put", error)).value == vector["outcome"]


@pytest.mark.parametrize("vector", vectors("cancellations"))
def test_cancellations_of_the_specification(vector: dict[str, Any]) -> None:
    error = retried(canceled(*vector["reasons"]), vector["attempts"])
    assert outcome_of(error).value == vector["outcome"]


CLASSES = {
    c.code: c
    for c in vars(errors).values()
    if isinstance(c, type) and issubclass(c, errors.TheorydbError) and "code" in vars(c)
}


@pytest.mark.parametrize("vector", vectors("errors"))
def test_package_errors_of_the_specification(vector: dict[str, Any]) -> None:
    if vector["error"] == "Denied":  # botocore raises the same class
        assert outcome_of(answer("AccessDeniedException")).value == vector["outcome"]
        return
    error = CLASSES[vector["error"]]("?")
    if "cause" in vector:
        error.__cause__ = CLASSES[vector["cause"]]("?")
    assert outcome_of(error).value == vector["outcome"]


def canceled(*codes: str | None) -> ClientError:
    return answer("TransactionCanceledException", CancellationReasons=[{"Code": code} for code in codes])


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, Outcome.APPLIED),
        (answer("ConditionalCheckFailedException"), Outcome.CONDITION_FAILED),
        (answer("TransactionConflictException"), Outcome.CANCELLED),
        (answer("ReplicatedWriteConflictException"), Outcome.CANCELLED),
        (answer("ProvisionedThroughputExceededException"), Outcome.UNKNOWN),
        (answer("RequestLimitExceeded"), Outcome.UNKNOWN),
        (answer("ThrottlingException"), Outcome.UNKNOWN),
        (answer("TransactionInProgressException"), Outcome.UNKNOWN),
        (answer("RequestTimeout", 408), Outcome.UNKNOWN),
        (answer("InternalServerError", 500), Outcome.UNKNOWN),
        (answer("SomethingNew", 503), Outcome.UNKNOWN),
        (answer("502", 502), Outcome.UNKNOWN),
        (answer(""), Outcome.UNKNOWN),
        (answer("ValidationException"), Outcome.REFUSED),
        (answer("ResourceNotFoundException"), Outcome.REFUSED),
        (answer("IdempotentParameterMismatchException"), Outcome.REFUSED),
        (answer("AccessDeniedException"), Outcome.REFUSED),
        (canceled("None", "ConditionalCheckFailed"), Outcome.CONDITION_FAILED),
        (canceled("TransactionConflict", "ConditionalCheckFailed"), Outcome.CONDITION_FAILED),
        (canceled("None", "TransactionConflict"), Outcome.CANCELLED),
        (canceled("ThrottlingError", "None"), Outcome.CANCELLED),
        (canceled("ProvisionedThroughputExceeded"), Outcome.CANCELLED),
        (canceled("InternalServerError"), Outcome.CANCELLED),
        (canceled("ValidationError", None), Outcome.REFUSED),
        (canceled("ItemCollectionSizeLimitExceeded"), Outcome.REFUSED),
        (canceled(), Outcome.REFUSED),
        (ParamValidationError(report="?"), Outcome.REFUSED),
        (ConnectionClosedError(endpoint_url="http://table"), Outcome.UNKNOWN),
        (ReadTimeoutError(endpoint_url="http://table"), Outcome.UNKNOWN),
        (EndpointConnectionError(endpoint_url="http://table"), Outcome.UNKNOWN),
        (KeyboardInterrupt(), Outcome.UNKNOWN),
        (errors.InvalidInputError("?"), Outcome.REFUSED),
        (errors.InvalidQueryError("?"), Outcome.REFUSED),
        (errors.TableNotFoundError("?"), Outcome.REFUSED),
        (errors.ConditionFailedError("?"), Outcome.CONDITION_FAILED),
        (errors.VersionConflictError("?"), Outcome.CONDITION_FAILED),
        (errors.LeaseLostError("?"), Outcome.CONDITION_FAILED),
        (errors.TransactionConflictError("?"), Outcome.CANCELLED),
        (errors.ThrottledError("?"), Outcome.UNKNOWN),
        (errors.UnknownOutcomeError("?"), Outcome.UNKNOWN),
    ],
)
def test_outcomes(error: BaseException | None, outcome: Outcome) -> None:
    assert outcome_of(error) is outcome


def test_package_cancellations_are_classified_by_their_reasons() -> None:
    reason = errors.CancellationReason(0, "put", {}, "ThrottlingError", "")
    assert outcome_of(errors.ThrottledError("?", reasons=(reason,))) is Outcome.CANCELLED


@pytest.mark.parametrize(
    ("error", "worth"),
    [
        (canceled("TransactionConflict", "None"), True),
        (canceled("TransactionConflict", "ValidationError"), False),
        (canceled("TransactionConflict", "ConditionalCheckFailed"), False),
        (canceled("None"), False),
        (answer("TransactionInProgressException"), True),
        (answer("ValidationException"), False),
        (ConnectionClosedError(endpoint_url="http://table"), True),
    ],
)
def test_retryable_with_a_client_token(error: Exception, worth: bool) -> None:
    assert is_retryable(error) is worth


def test_reason_without_a_code() -> None:
    assert reason_codes(canceled(None, "ConditionalCheckFailed")) == ("None", "ConditionalCheckFailed")
