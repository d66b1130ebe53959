"""The error classes, whose names other languages share."""

from __future__ import annotations

import inspect
import pickle

import pytest

import theorydb_py
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
    if issubclass(c, errors.TheorydbError) and c not in (errors.TheorydbError, errors.ValidationError)
]

PEER = {
    "TheorydbPyError": "TheorydbError",
    "NotFoundError": "ItemNotFoundError",
    "LeaseNotOwnedError": "LeaseLostError",
    "ModelDefinitionError": "InvalidModelError",
    "EncryptionNotConfiguredError": "InvalidModelError",
    "BatchRetryExceededError": "ThrottledError",
}
"""TableTheory's names of classes here."""

PEER_CODES = {
    "ItemNotFound": {"ErrItemNotFound"},
    "ConditionFailed": {"ErrConditionFailed"},
    "VersionConflict": {"ErrVersionConflict", "ErrConditionFailed"},
    "LeaseHeld": {"ErrLeaseHeld"},
    "LeaseLost": {"ErrLeaseNotOwned"},
    "InvalidModel": {"ErrInvalidModel"},
    "InvalidQuery": {"ErrInvalidOperator"},
    "TableNotFound": {"ErrTableNotFound"},
    "NotEncrypted": {"ErrInvalidEncryptedEnvelope"},
    "Tampered": {"ErrInvalidEncryptedEnvelope"},
}
"""TableTheory's codes, the same as TypeScript's."""


def test_one_class_per_name() -> None:
    assert {c.code for c in CLASSES} == VOCABULARY
    assert {c.__name__ for c in CLASSES} == {name + "Error" for name in VOCABULARY}


@pytest.mark.parametrize("name", PEER)
def test_names_of_the_peer_are_the_same_classes(name: str) -> None:
    ours = getattr(errors, PEER[name])
    assert getattr(errors, name) is ours
    assert getattr(theorydb_py, name) is getattr(theorydb_py, PEER[name]) is ours


@pytest.mark.parametrize("error", CLASSES)
def test_codes_of_the_peer(error: type[errors.TheorydbError]) -> None:
    """The first one is ours, and an error of a subclass has the codes of its base only if it means the same."""
    code, *peer = error("what was tried").codes
    assert code == error.code
    assert set(peer) == PEER_CODES.get(code, set())


def test_invalid_arguments_have_a_common_base() -> None:
    invalid = {c for c in CLASSES if issubclass(c, errors.ValidationError)}
    assert {c.code for c in invalid} == {"InvalidInput", "InvalidKey", "InvalidModel", "InvalidQuery"}


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
