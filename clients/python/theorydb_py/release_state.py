"""Transitions of a registry of releases, by the names that TableTheory gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from theorydb_py._expression import Expression
from theorydb_py._structure import Field
from theorydb_py._table import Table
from theorydb_py.errors import InvalidInputError, InvalidModelError
from theorydb_py.model import ModelDefinition

__all__ = ["transition_release_state"]

A = TypeVar("A")
E = TypeVar("E")
O = TypeVar("O")  # noqa: E741 of the outbox


def transition_release_state(
    actual_table: Table[A],
    event_table: Table[E],
    *,
    actual_key: Mapping[str, Any],
    set_values: Mapping[str, Any],
    event_item: E,
    outbox_item: O | None = None,
    outbox_table: Table[O] | None = None,
    expected_version: int | None = None,
    version_field: str = "version",
) -> None:
    """Change a row, increment its version and record the event, all or nothing.

    The tables are models of rows in one table, with one client. The row is created if
    it is missing and ``set_values`` has all required fields. The event, and a message to
    send later if there is an ``outbox_item``, must not exist yet; the event is in the
    partition of the row. ``actual_key`` and ``set_values`` name fields or attributes.
    What the release does elsewhere is not part of the transaction: retry or reconcile
    it.

    Raises:
        VersionConflictError: the row does not have the expected version.
        ItemNotFoundError: it is missing, and cannot be created.
        ConditionFailedError: the event or the message exists.
        UnknownOutcomeError: there was no reply; all of it or nothing was applied.
        TransactionConflictError, ThrottledError, TableNotFoundError: nothing was changed.
        KeyProviderError: an encrypted field cannot be encrypted; nothing was sent.
        InvalidModelError: the row has no such version field.
        InvalidInputError, InvalidQueryError: an argument is invalid; nothing was sent.
    """
    model = actual_table.model
    _check_version(model, version_field)
    key = _key_of(model, actual_key)
    changes = _changes_of(model, set_values)
    events = [(event_table, event_item)]
    if outbox_item is not None:
        events.append((outbox_table or event_table, outbox_item))  # type: ignore[arg-type]
    for table, _ in events:
        _check_same(actual_table, table)
    upsert = _is_complete(model, changes)
    change = actual_table._writes.update(model.key(*key), changes, Expression(), expected_version, upsert=upsert)
    created = [table._writes.create(item, Expression())[0] for table, item in events]
    if created[0].key.get(event_table.model.pk.attribute) != change.key[model.pk.attribute]:
        raise InvalidInputError("the event is in another partition than the row: give both the same partition key")
    actual_table._transact([change, *created])


def _check_version(model: ModelDefinition[Any], name: str) -> None:
    version = model.version
    if version is None or name not in (version.name, version.attribute):
        raise InvalidModelError(
            f"{model.name} has no field {name!r:.60} with the role version, which counts its transitions"
        )


def _check_same(actual: Table[Any], other: Table[Any]) -> None:
    if other._client is not actual._client or other.table_name != actual.table_name:
        raise InvalidInputError(
            f"a transition of {actual.model.name} in {actual.table_name} and {other.model.name} in {other.table_name}: "
            "expected one table and one client"
        )


def _key_of(model: ModelDefinition[Any], given: Mapping[str, Any]) -> list[Any]:
    fields = [field for field in (model.pk, model.sk) if field is not None]
    values = {model.field(name).name: value for name, value in _mapping("actual_key", given).items()}
    if values.keys() != {field.name for field in fields}:
        raise InvalidInputError(
            f"actual_key has {', '.join(values)}: expected {' and '.join(field.name for field in fields)}"
        )
    return [values[field.name] for field in fields]


def _changes_of(model: ModelDefinition[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name, value in _mapping("set_values", given).items():
        field = model.field(name)
        if field.role == "version":
            raise InvalidInputError(f"set_values has {name}: a transition increments it; pass expected_version")
        if field.name in changes:
            raise InvalidInputError(f"set_values has {field.name} twice, also as {field.attribute}")
        changes[field.name] = value
    return changes


def _mapping(name: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not given:
        raise InvalidInputError(f"{name} is {given!r:.60}: expected a dict of at least one field")
    return given


def _is_complete(model: ModelDefinition[Any], changes: Mapping[str, Any]) -> bool:
    """Return whether the fields include all that an item of the model must have."""

    def is_given(field: Field) -> bool:
        return field.default is not None or field.role != "" or field.name in changes

    return all(is_given(field) for field in model.structure.fields)
