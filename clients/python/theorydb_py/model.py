"""Models: dataclasses whose fields say how they are stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from theorydb_py.errors import InvalidInputError, InvalidModelError, MalformedRowError
from theorydb_py.structure import Field, FieldOptions, Structure, structure_of
from theorydb_py.table_name import checked_table_name
from theorydb_py.unfit import UnfitError, describe
from theorydb_py.values import Attribute

T = TypeVar("T")


def theorydb_field(
    *,
    name: str | None = None,
    roles: Iterable[str] = (),
    omitempty: bool = False,
    default: Any = dataclasses.MISSING,
    default_factory: Callable[[], Any] | Any = dataclasses.MISSING,
) -> Any:
    """Declare a field of a dataclass, as ``dataclasses.field`` does, and how it is stored.

    ``name`` is the attribute's; None: the field's. ``roles`` are of ``pk`` (the
    partition key; each model has one), ``sk`` (the sort key), ``ttl`` (epoch
    seconds after which DynamoDB may delete the item: int or datetime) and
    ``version`` (an int that counts the writes and makes them optimistic); a
    field has one at most. ``omitempty``: no attribute is stored for None, where
    the type has it, and else for False, 0, "" and what has no elements; so a
    default has to be that too.

    What is wrong with a field is an InvalidModelError, when the model is defined.
    """
    options = FieldOptions(name=name, roles=tuple(roles), omitempty=omitempty)
    if default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=default_factory, metadata={FieldOptions.METADATA: options})
    return dataclasses.field(default=default, metadata={FieldOptions.METADATA: options})


@dataclass(frozen=True)
class ModelDefinition(Generic[T]):
    """What is known of a dataclass whose objects are the items of a table.

    Made by from_dataclass, immutable, and safe for concurrent use.

    ====================================  =============================================
    type of a field                       attribute
    ====================================  =============================================
    ``str``                               S
    ``int``, ``Decimal``, ``float``       N, to the last digit; infinities are refused
    ``bool``                              BOOL
    ``bytes``                             B
    ``datetime``                          S, RFC 3339 in UTC; N in the role ttl
    ``list[T]``, ``tuple[T, ...]``        L
    ``dict[str, T]``, dataclasses         M
    ``set[T]``, ``frozenset[T]``          SS, NS or BS; none if it is empty
    ``T | None``                          as T; NULL for None
    ``Any``, ``list``, ``dict``           what the values are: see DocumentCodec
    ====================================  =============================================
    """

    model_class: type[T]
    table_name: str | None
    structure: Structure
    pk: Field
    sk: Field | None
    ttl: Field | None
    version: Field | None

    @classmethod
    def from_dataclass(cls, dataclass_type: type[T], *, table_name: str | None = None) -> ModelDefinition[T]:
        """Define the model of a dataclass. InvalidModelError: it cannot be what its fields say.

        Without a table name, each Table has to give one.
        """
        structure = structure_of(dataclass_type)
        roles = {role: _field_in(structure, role) for role in ("pk", "sk", "ttl", "version")}
        if roles["pk"] is None:
            raise InvalidModelError(f'{dataclass_type.__name__}: no field has the role pk; give one roles=["pk"]')
        return cls(
            model_class=dataclass_type,
            table_name=None if table_name is None else checked_table_name(table_name),
            structure=structure,
            pk=roles["pk"],
            sk=roles["sk"],
            ttl=roles["ttl"],
            version=roles["version"],
        )

    @property
    def name(self) -> str:
        """The name of the dataclass, for people."""
        return self.model_class.__name__

    def field(self, name: str) -> Field:
        """Return a field by its name, or by that of its attribute. InvalidInputError: there is none."""
        for field in self.structure.fields:
            if name in (field.name, field.attribute):
                return field
        raise InvalidInputError(f"{self.name} has no field {name!r:.60}; it has {self.structure.names}")

    def marshal(self, item: T) -> dict[str, Attribute]:
        """Return an object as it is stored. InvalidInputError, naming the attribute: it cannot be said exactly."""
        if not isinstance(item, self.model_class):
            raise InvalidInputError(f"expected an object of {self.name}, found {type(item).__name__}")
        try:
            return self.structure.encode(item, 0)
        except UnfitError as error:
            raise self._refusal(error) from error

    def unmarshal(self, item: Mapping[str, Attribute]) -> T:
        """Return the object of a stored item. MalformedRowError: an attribute is not what it is there for.

        Attributes without a field are passed over. A field without an attribute,
        or with NULL, is its default.
        """
        try:
            made: T = self.structure.decode(item)
        except UnfitError as error:
            pk, sk = self._shown(item, self.pk), self._shown(item, self.sk)
            raise MalformedRowError(
                f"the stored {self.name} pk={pk} sk={sk} is malformed: {error.path}: "
                f"expected {error.expected}, found {error.found}",
                pk=pk,
                sk=sk,
                attribute=error.path,
                expected=error.expected,
                found=error.found,
            ) from error
        return made

    def marshal_field(self, field: Field, value: object) -> Attribute:
        """Return the value of one field as it is stored. InvalidInputError: it cannot be said exactly."""
        try:
            return field.encode(value, 1)
        except UnfitError as error:
            raise self._refusal(error) from error

    def key(self, pk: object, sk: object = None) -> dict[str, Attribute]:
        """Return the key of an item as it is stored. InvalidInputError: it can be none."""
        if (sk is None) != (self.sk is None):
            raise InvalidInputError(f"{self.name}: a key is {'pk alone' if self.sk is None else 'pk and sk'}")
        key = {self.pk.attribute: self.marshal_field(self.pk, pk)}
        if self.sk is not None:
            key[self.sk.attribute] = self.marshal_field(self.sk, sk)
        return key

    def key_of(self, item: Mapping[str, Attribute]) -> dict[str, Attribute]:
        """Return the key of an item, both as they are stored."""
        return {f.attribute: item[f.attribute] for f in (self.pk, self.sk) if f is not None}

    def _refusal(self, error: UnfitError) -> InvalidInputError:
        return InvalidInputError(f"{self.name}: attribute {error.path}: expected {error.expected}, found {error.found}")

    def _shown(self, item: Mapping[str, Attribute], field: Field | None) -> str:
        if field is None or field.attribute not in item:
            return ""
        value = next(iter(item[field.attribute].values()))
        return value if isinstance(value, str) else describe(item[field.attribute])


def _field_in(structure: Structure, role: str) -> Field | None:
    found = [field for field in structure.fields if field.role == role]
    if len(found) > 1:
        names = ", ".join(field.name for field in found)
        raise InvalidModelError(f"{structure.type.__name__}: several fields have the role {role}: {names}; one may")
    return found[0] if found else None
