"""Builds the writes of single items, alone or in a transaction."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from theorydb_py._classify import format_key
from theorydb_py._codec import (
    DocumentCodec,
    EpochSecondsCodec,
    IntCodec,
    ListCodec,
    NumberCodec,
    OptionalCodec,
    SetCodec,
)
from theorydb_py._expression import Expression
from theorydb_py._seal import Encryption
from theorydb_py._structure import Field
from theorydb_py._update import Update, UpdateChange, changes_of
from theorydb_py._values import Attribute
from theorydb_py.errors import (
    ConditionFailedError,
    InvalidQueryError,
    ItemNotFoundError,
    TheorydbError,
    VersionConflictError,
)
from theorydb_py.model import ModelDefinition

T = TypeVar("T")


@dataclass(frozen=True)
class Write:
    """One write of one item."""

    kind: str
    """put, create, update, upsert, delete or condition check."""
    key: Mapping[str, Attribute]
    arguments: Mapping[str, Any]
    """The arguments of the request, or of the transaction's action, except the table name."""
    required_version: int | None = None
    """The required version of the stored item; None: any."""
    result: Mapping[str, Attribute | None] | None = None
    """The result: of a put the whole item, of a versioned update the attributes that it sets (None: removes).

    None if it is unknown, as it depends on stored values, or if nothing is left.
    """
    non_idempotent: bool = False
    """Not idempotent: it adds to a number, without requiring a version."""


class Writes(Generic[T]):
    """Builds the writes of a model's items.

    A version field makes them optimistic. A put requires the object's version to be
    stored (0: no item, or one without a version) and stores the next one. An update or
    delete requires the version that is passed. An update without one still increments
    the version, so that readers of the item notice the change.
    """

    def __init__(self, model: ModelDefinition[T], now: Callable[[], float], encryption: Encryption) -> None:
        """``now`` returns the wall time in epoch seconds, for created_at and updated_at."""
        self._model = model
        self._encryption = encryption
        self._now = now

    def put(self, item: T, condition: Expression) -> tuple[Write, T]:
        """Put a whole item. Also returns the object as it will be stored."""
        required = self._version_of(item)
        if required is not None:
            self._require_version(condition, required)
        return self._put("put", item, condition, required)

    def create(self, item: T, condition: Expression) -> tuple[Write, T]:
        """Put a whole item that must not exist yet. Its version is 1 if it has none."""
        condition.require(f"attribute_not_exists({condition.name(self._model.pk.attribute)})")
        version = self._version_of(item)
        next_to = version - 1 if version else version
        write, stored = self._put("create", item, condition, next_to)
        return dataclasses.replace(write, required_version=None), stored

    def blind_put(self, item: T) -> tuple[Mapping[str, Attribute], T]:
        """Return the item of an unconditional put, with its version incremented: batches cannot have conditions."""
        write, stored = self._put("put", item, Expression(), self._version_of(item))
        return write.arguments["Item"], stored

    def update(
        self,
        key: Mapping[str, Attribute],
        updates: Mapping[str, Any] | Update,
        condition: Expression,
        version: int | None,
        *,
        upsert: bool = False,
    ) -> Write:
        """Update some attributes of an item, which must exist unless this is an upsert."""
        change = _Changes(condition)
        for one in changes_of(updates):
            self._change(change, self._model.field(one.field), one)
        if change.is_empty:
            raise InvalidQueryError(f"update {format_key(key)}: expected at least one field to change, found none")
        if self._model.updated_at is not None:
            change.set(self._model.updated_at.attribute, self._moment(self._model.updated_at))
        self._count(change, condition, version)
        if not upsert:
            condition.require(f"attribute_exists({condition.name(self._model.pk.attribute)})")
        for attribute, sealed in self._encryption.seal(key, change.secrets).items():
            change.set(attribute, sealed)
        arguments = condition.arguments("ConditionExpression", UpdateExpression=change.text)
        non_idempotent = change.counts and version is None
        # Without a version, equal attributes do not show whose update it was.
        result = None if version is None else change.result
        kind = "upsert" if upsert else "update"
        return Write(kind, key, {"Key": key, **arguments}, version, result, non_idempotent)

    def delete(self, key: Mapping[str, Attribute], condition: Expression, version: int | None) -> Write:
        """Delete an item."""
        if version is not None:
            self._require_version(condition, version)
        return Write("delete", key, {"Key": key, **condition.arguments("ConditionExpression")}, version)

    def check(self, key: Mapping[str, Attribute], condition: Expression) -> Write:
        """Require a condition on an item."""
        return Write("condition check", key, {"Key": key, **condition.arguments("ConditionExpression")})

    def classify_failure(self, failed: ConditionFailedError, write: Write) -> TheorydbError:
        """Return the error of a failed condition: VersionConflictError if the version differs.

        ItemNotFoundError if there is no item to update.
        """
        if write.kind == "update" and not failed.item:
            return ItemNotFoundError(f"{failed}; upsert creates it", reasons=failed.reasons)
        field = self._model.version
        if write.required_version is None or field is None:
            return failed
        stored = (failed.item or {}).get(field.attribute, {"N": "0"}).get("N")
        if stored == str(write.required_version):
            return failed
        found = "there is no item" if not failed.item else f"it has version {stored or 'none'}"
        return VersionConflictError(
            f"{failed}; version {write.required_version} was required and {found}: it was changed since it was read",
            item=failed.item,
            reasons=failed.reasons,
        )

    # --- Versions -----------------------------------------------------------

    def _version_of(self, item: T) -> int | None:
        """Return the version of an object, 0 if it has none; None: the model has no version field."""
        field = self._model.version
        if field is None or not isinstance(item, self._model.model_class):
            return None
        version = getattr(item, field.name)
        self._model.marshal_field(field, version)  # refuses invalid versions
        return version or 0

    def _put(self, kind: str, item: T, condition: Expression, version: int | None) -> tuple[Write, T]:
        stored, changes = item, self._stamps(item)
        if version is not None and self._model.version is not None:
            changes[self._model.version.name] = version + 1
        if changes:
            stored = dataclasses.replace(item, **changes)  # type: ignore[type-var] # models are dataclasses
        attributes = self._encryption.seal_item(self._model.marshal(stored))
        arguments = {"Item": attributes, **condition.arguments("ConditionExpression")}
        return Write(kind, self._model.key_of(attributes), arguments, version, attributes), stored

    def _stamps(self, item: T) -> dict[str, Any]:
        """Return the lifecycle timestamps of a put."""
        if not isinstance(item, self._model.model_class):
            return {}
        created, updated = self._model.created_at, self._model.updated_at
        stamps: dict[str, Any] = {}
        if created is not None and not getattr(item, created.name):
            stamps[created.name] = self._time(created)
        if updated is not None:
            stamps[updated.name] = self._time(updated)
        return stamps

    def _time(self, field: Field) -> int | datetime:
        now = self._now()
        codec = field.codec.inner if isinstance(field.codec, OptionalCodec) else field.codec
        return math.floor(now) if isinstance(codec, IntCodec) else datetime.fromtimestamp(now, UTC)

    def _moment(self, field: Field) -> Attribute:
        return self._model.marshal_field(field, self._time(field))

    def _require_version(self, condition: Expression, version: int) -> None:
        """Require a version of the stored item; 0: it has none."""
        field = self._versioned()
        name, value = condition.name(field.attribute), self._model.marshal_field(field, version)
        if version == 0:
            condition.require(f"attribute_not_exists({name})")
        else:
            condition.require(f"{name} = {condition.value(value)}")

    def _count(self, change: _Changes, condition: Expression, version: int | None) -> None:
        """Increment the version in an update; require one if it is given."""
        if version is not None:
            self._require_version(condition, version)
            change.set(self._versioned().attribute, {"N": str(version + 1)})
        elif self._model.version is not None:
            # A retry by boto3 may increment it twice. That is harmless: it still differs
            # from every version that was read before.
            change.add(self._model.version.attribute, {"N": "1"})

    def _versioned(self) -> Field:
        if self._model.version is None:
            raise InvalidQueryError(f'{self._model.name} has no version field: give an int field roles=["version"]')
        return self._model.version

    # --- Changes ------------------------------------------------------------

    def _change(self, changes: _Changes, field: Field, change: UpdateChange) -> None:
        if field in (self._model.pk, self._model.sk, self._model.version, self._model.updated_at):
            raise InvalidQueryError(
                f"{self._model.name}.{field.name}: keys, the version and the time of the update cannot be updated"
            )
        if field.encrypted and change.kind not in ("set", "remove"):
            raise InvalidQueryError(
                f"{self._model.name}.{field.name}: {change.kind}: the field is encrypted and DynamoDB cannot read it: "
                "set or remove it as a whole"
            )
        name, value = changes.begin(field), change.value
        match change.kind:
            case "add":
                addend = self._added(field, value)
                changes.counts = changes.counts or "N" in addend
                changes.add(name, addend)
            case "delete":
                changes.delete(name, self._members(field, value))
            case "append":
                changes.counts = True
                changes.append(name, self._elements(field, value))
            case "if_not_exists":
                changes.set_if_absent(name, self._model.marshal_field(field, value))
            case "remove":
                changes.remove(name)
            case _ if field.is_omitted(value):
                changes.remove(name)
            case _ if field.encrypted:
                changes.secrets[name] = self._model.marshal_field(field, value)
            case _:
                changes.set(name, self._model.marshal_field(field, value))

    def _elements(self, field: Field, value: Any) -> Attribute:
        codec = field.codec.inner if isinstance(field.codec, OptionalCodec) else field.codec
        is_list = isinstance(codec, ListCodec) or (isinstance(codec, DocumentCodec) and codec.empty in (None, list))
        if not is_list or not isinstance(value, (list, tuple)):
            raise InvalidQueryError(f"{self._model.name}.{field.name}: append: expected a list, and a field of one")
        if isinstance(codec, ListCodec) and codec.empty is not None:
            value = codec.empty(value) if codec.empty is tuple else list(value)
        return self._model.marshal_field(dataclasses.replace(field, omitempty=False), value)

    def _members(self, field: Field, value: Any) -> Attribute:
        codec = field.codec.inner if isinstance(field.codec, OptionalCodec) else field.codec
        if not isinstance(codec, SetCodec):
            raise InvalidQueryError(f"{self._model.name}.{field.name}: delete: expected a set, and a field of one")
        return self._model.marshal_field(dataclasses.replace(field, codec=codec, omitempty=False), value)

    def _added(self, field: Field, value: Any) -> Attribute:
        codec = field.codec.inner if isinstance(field.codec, OptionalCodec) else field.codec
        if not isinstance(codec, (NumberCodec, SetCodec)):
            raise InvalidQueryError(f"{self._model.name}.{field.name}: add: expected a number or a set")
        if isinstance(codec, EpochSecondsCodec):
            codec = IntCodec()  # an addend is not a time
        addend = dataclasses.replace(field, codec=codec, omitempty=False)
        return self._model.marshal_field(addend, value)


class _Changes:
    """An update expression under construction, and its result."""

    def __init__(self, expression: Expression) -> None:
        self.counts = False
        """Whether the caller adds to a number or appends to a list."""
        self.secrets: dict[str, Attribute] = {}
        """The values to encrypt and set."""
        self._expression = expression
        self._clauses: dict[str, list[str]] = {"SET": [], "REMOVE": [], "ADD": [], "DELETE": []}
        self._changed: set[str] = set()
        self._result: dict[str, Attribute | None] = {}
        self._derived = False  # from stored values

    def begin(self, field: Field) -> str:
        """Return the attribute of a changed field. Raises if the field was changed before."""
        if field.name in self._changed:
            raise InvalidQueryError(f"{field.name} is updated twice, by its name and by its attribute's name")
        self._changed.add(field.name)
        return field.attribute

    def set(self, attribute: str, value: Attribute) -> None:
        self._result[attribute] = value
        self._clauses["SET"].append(f"{self._expression.name(attribute)} = {self._expression.value(value)}")

    def set_if_absent(self, attribute: str, value: Attribute) -> None:
        self._derived = True
        name = self._expression.name(attribute)
        self._clauses["SET"].append(f"{name} = if_not_exists({name}, {self._expression.value(value)})")

    def remove(self, attribute: str) -> None:
        self._result[attribute] = None
        self._clauses["REMOVE"].append(self._expression.name(attribute))

    def add(self, attribute: str, value: Attribute) -> None:
        self._derived = True
        self._clauses["ADD"].append(f"{self._expression.name(attribute)} {self._expression.value(value)}")

    def delete(self, attribute: str, value: Attribute) -> None:
        self._derived = True
        self._clauses["DELETE"].append(f"{self._expression.name(attribute)} {self._expression.value(value)}")

    def append(self, attribute: str, value: Attribute) -> None:
        self._derived = True
        name, empty = self._expression.name(attribute), self._expression.value({"L": []})
        appended = f"list_append(if_not_exists({name}, {empty}), {self._expression.value(value)})"
        self._clauses["SET"].append(f"{name} = {appended}")

    @property
    def result(self) -> Mapping[str, Attribute | None] | None:
        """See Write.result."""
        return None if self._derived else self._result

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing except a version."""
        return not self._changed

    @property
    def text(self) -> str:
        return " ".join(f"{clause} {', '.join(parts)}" for clause, parts in self._clauses.items() if parts)
