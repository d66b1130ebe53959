"""Models: dataclasses whose fields define how they are stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from theorydb_py.codecerror import CodecError, describe
from theorydb_py.errors import InvalidInputError, InvalidModelError, MalformedRowError
from theorydb_py.structure import Field, FieldOptions, Structure, structure_of
from theorydb_py.table_name import checked_table_name
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

    ``name`` is the name of the attribute; None: that of the field. A field has at most
    one of the ``roles``: ``pk`` (the partition key; required), ``sk`` (the sort key),
    ``ttl`` (when DynamoDB may delete the item: an int of epoch seconds, or a datetime)
    and ``version`` (an int that counts writes, for optimistic locking). With
    ``omitempty``, None is not stored, or for types without None: False, 0, "" and empty
    collections; the default must then be that value.

    A field error raises InvalidModelError when the model is defined.
    """
    options = FieldOptions(name=name, roles=tuple(roles), omitempty=omitempty)
    if default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=default_factory, metadata={FieldOptions.METADATA: options})
    return dataclasses.field(default=default, metadata={FieldOptions.METADATA: options})


@dataclass(frozen=True)
class ModelDefinition(Generic[T]):
    """The mapping between a dataclass and the items of a table.

    Created by from_dataclass. Immutable and safe for concurrent use.

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
    ``Any``, ``list``, ``dict``           by the type of each value: see DocumentCodec
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
        """Define the model of a dataclass. Raises InvalidModelError for invalid fields.

        Without a table name, each Table needs one.
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
        """Return a field by its name or its attribute's name. Raises InvalidInputError if there is none."""
        for field in self.structure.fields:
            if name in (field.name, field.attribute):
                return field
        raise InvalidInputError(f"{self.name} has no field {name!r:.60}; it has {self.structure.names}")

    def marshal(self, item: T) -> dict[str, Attribute]:
        """Encode an object. Raises InvalidInputError, which names the attribute, if it cannot be stored exactly."""
        if not isinstance(item, self.model_class):
            raise InvalidInputError(f"expected an object of {self.name}, found {type(item).__name__}")
        try:
            return self.structure.encode(item, 0)
        except CodecError as error:
            raise self._input_error(error) from error

    def unmarshal(self, item: Mapping[str, Attribute]) -> T:
        """Decode a stored item. Raises MalformedRowError for an invalid attribute.

        Attributes without a field are ignored. A field whose attribute is absent or
        NULL gets its default.
        """
        try:
            made: T = self.structure.decode(item)
        except CodecError as error:
            pk, sk = self._format_key(item, self.pk), self._format_key(item, self.sk)
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
        """Encode the value of one field. Raises InvalidInputError if it cannot be stored exactly."""
        try:
            return field.encode(value, 1)
        except CodecError as error:
            raise self._input_error(error) from error

    def key(self, pk: object, sk: object = None) -> dict[str, Attribute]:
        """Encode a key. Raises InvalidInputError for an invalid key."""
        if (sk is None) != (self.sk is None):
            raise InvalidInputError(f"{self.name}: a key is {'pk only' if self.sk is None else 'pk and sk'}")
        key = {self.pk.attribute: self.marshal_field(self.pk, pk)}
        if self.sk is not None:
            key[self.sk.attribute] = self.marshal_field(self.sk, sk)
        return key

    def key_of(self, item: Mapping[str, Attribute]) -> dict[str, Attribute]:
        """Return the key of a stored item."""
        return {f.attribute: item[f.attribute] for f in (self.pk, self.sk) if f is not None}

    def _input_error(self, error: CodecError) -> InvalidInputError:
        return InvalidInputError(f"{self.name}: attribute {error.path}: expected {error.expected}, found {error.found}")

    def _format_key(self, item: Mapping[str, Attribute], field: Field | None) -> str:
        if field is None or field.attribute not in item:
            return ""
        value = next(iter(item[field.attribute].values()))
        return value if isinstance(value, str) else describe(item[field.attribute])


def _field_in(structure: Structure, role: str) -> Field | None:
    found = [field for field in structure.fields if field.role == role]
    if len(found) > 1:
        names = ", ".join(field.name for field in found)
        raise InvalidModelError(
            f"{structure.type.__name__}: several fields have the role {role}: {names}; at most one may"
        )
    return found[0] if found else None
