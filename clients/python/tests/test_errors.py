"""The error classes, whose names other languages share."""

from __future__ import annotations

import inspect
import pickle

import pytest

from theorydb_py import errors

VOCABULARY = {
    "InvalidInput", "InvalidKey", "InvalidModel", "InvalidQuery", "ItemNotFound", "ConditionFailed",
    "VersionConflict", "TransactionConflict", "Throttled", "TableNotFound", "UnknownOutcome", "LeaseHeld",
    "LeaseLost", "Moved", "Pinned", "Purged", "NoVersion", "RequestCompleted", "RequestInProgress",
    "RequestMismatch", "ResultGone", "MalformedRow", "NotEncrypted", "Tampered", "UnknownKey", "KeyProvider",
}  # fmt: skip

CLASSES = [
    c
    for _, c in inspect.getmembers(errors, inspect.isclass)
    if issubclass(c, errors.TheorydbError) and c is not errors.TheorydbError
]


def test_one_class_per_name() -> None:
    assert {c.code for c in CLASSES} == VOCABULARY
    assert {c.__name__ for c in CLASSES} == {name + "Error" for name in VOCABULARY}


def test_invalid_input_is_a_value_error() -> None:
    assert issubclass(errors.InvalidInputError, ValueError)


def test_a_version_conflict_is_a_failed_condition() -> None:
    assert issubclass(errors.VersionConflictError, errors.ConditionFailedError)


@pytest.mark.parametrize("error", CLASSES)
def test_errors_can_be_pickled(error: type[errors.TheorydbError]) -> None:
    back = pickle.loads(pickle.dumps(error("what was tried")))  # noqa: S301 our own bytes
    assert type(back) is error
    assert str(back) == "what was tried"


def test_error_details_can_be_pickled() -> None:
    back = pickle.loads(pickle.dumps(errors.LeaseHeldError("held", owner="a", expires_at=7, failures=2)))  # noqa: S301
    assert (back.owner, back.expires_at, back.failures) == ("a", 7, 2)
