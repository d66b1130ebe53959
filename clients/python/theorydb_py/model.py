"""Models: dataclasses whose fields define how they are stored."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, dataclass_transform, overload

from theorydb_py._codec import (
    DecimalCodec,
    EpochCodec,
    IntCodec,
    ListCodec,
    OptionalCodec,
    ScalarCodec,
    SetCodec,
    TimeCodec,
)
from theorydb_py._codecerror import CodecError, describe
from theorydb_py._index import Index
from theorydb_py._structure import ROLES, Field, FieldOptions, Structure, structure_of
from theorydb_py._table_name import checked_table_name
from theorydb_py._values import Attribute
from theorydb_py.errors import InvalidInputError, InvalidModelError, InvalidQueryError, MalformedRowError

T = TypeVar("T")
D = TypeVar("D")  # of from_dataclass: pyright does not infer the type of the class from an argument


def theorydb_field(
    *,
    name: str | None = None,
    roles: Iterable[str] = (),
    omitempty: bool = False,
    encrypted: bool = False,
    default: Any = dataclasses.MISSING,
    default_factory: Callable[[], Any] | Any = dataclasses.MISSING,
) -> Any:
    """Declare a field of a dataclass, as ``dataclasses.field`` does, and how it is stored.

    ``name`` is the name of the attribute; None: the field's. A field has at most
    one of the ``roles``: ``pk`` (the partition key; required), ``sk`` (the sort key),
    ``ttl`` (when DynamoDB may delete the item: an int of epoch seconds, or a datetime),
    ``version`` (an int that counts writes, for optimistic locking), ``created_at`` (set
    by the first write that does not find it set) and ``updated_at`` (set by every
    write; both are an int of epoch seconds, or a datetime). With ``omitempty``, None is
    not stored, or for types without None: False, 0, "" and empty collections; the
    default must then be that value. An ``encrypted`` field is stored as ciphertext, and
    its Table needs ``keys``: see theorydb_py.encryption. DynamoDB cannot compare it.

    An invalid field raises InvalidModelError when the model is defined.
    """
    options = FieldOptions(name=name, roles=tuple(roles), omitempty=omitempty, encrypted=encrypted)
    if default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=default_factory, metadata={FieldOptions.METADATA: options})
    return dataclasses.field(default=default, metadata={FieldOptions.METADATA: options})


@overload
def theorydb_model(cls: type[T], /) -> type[T]: ...
@overload
def theorydb_model(
    *, frozen: bool = False, kw_only: bool = False, eq: bool = True, order: bool = False
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(field_specifiers=(theorydb_field, dataclasses.field))
def theorydb_model(cls: type[T] | None = None, /, **options: bool) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a class a dataclass, as ``@dataclass`` does.

    Unlike under ``@dataclass``, type checkers know that a theorydb_field without a
    default is required.
    """
    if cls is not None:
        return dataclass(cls)
    return lambda decorated: dataclass(**options)(decorated)


@dataclass(frozen=True)
class IndexDefinition:
    """An index of a model, with its fields."""

    name: str
    partition: Field
    sort: Field | None
    is_global: bool


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
    created_at: Field | None
    updated_at: Field | None
    indexes: Mapping[str, IndexDefinition]

    @classmethod
    def from_dataclass(
        cls, dataclass_type: type[D], *, table_name: str | None = None, indexes: Iterable[Index] = ()
    ) -> ModelDefinition[D]:
        """Define the model of a dataclass. Without a table name, each Table needs one.

        ``indexes`` are made by gsi and lsi.

        Raises:
            InvalidModelError: a field or an index is invalid.
            InvalidInputError: the table name is.
        """
        structure = structure_of(dataclass_type)
        roles = {role: _field_in(structure, role) for role in ROLES}
        if roles["pk"] is None:
            raise InvalidModelError(f'{dataclass_type.__name__}: no field has the role pk; give one roles=["pk"]')
        return ModelDefinition(
            model_class=dataclass_type,
            table_name=None if table_name is None else checked_table_name(table_name),
            structure=structure,
            pk=roles["pk"],
            sk=roles["sk"],
            ttl=roles["ttl"],
            version=roles["version"],
            created_at=roles["created_at"],
            updated_at=roles["updated_at"],
            indexes=_indexes(structure, roles["pk"], roles["sk"], indexes),
        )

    def index(self, name: str) -> IndexDefinition:
        """Return an index.

        Raises:
            InvalidQueryError: there is none of this name.
        """
        if name not in self.indexes:
            known = ", ".join(self.indexes) or "none"
            raise InvalidQueryError(f"{self.name} has no index {name!r:.60}; it has {known}")
        return self.indexes[name]

    @property
    def name(self) -> str:
        """The name of the dataclass, for people."""
        return self.model_class.__name__

    def field(self, name: str) -> Field:
        """Return a field by its name or its attribute's name.

        Raises:
            InvalidInputError: there is none.
        """
        for field in self.structure.fields:
            if name in (field.name, field.attribute):
                return field
        raise InvalidInputError(f"{self.name} has no field {name!r:.60}; it has {self.structure.names}")

    def marshal(self, item: T) -> dict[str, Attribute]:
        """Encode an object.

        Raises:
            InvalidInputError: it cannot be stored exactly; the error names the attribute.
        """
        if not isinstance(item, self.model_class):
            raise InvalidInputError(f"expected an object of {self.name}, found {type(item).__name__}")
        try:
            return self.structure.encode(item, 0)
        except CodecError as error:
            raise self._input_error(error) from error

    def unmarshal(self, item: Mapping[str, Attribute]) -> T:
        """Decode a stored item.

        Attributes without a field are ignored. A field whose attribute is absent or
        NULL gets its default. Encrypted attributes are not decrypted: see
        Table.unmarshal.

        Raises:
            MalformedRowError: an attribute does not fit its field.
        """
        try:
            made: T = self.structure.decode(item)
        except CodecError as error:
            raise self._malformed(item, error) from error
        return made

    def marshal_field(self, field: Field, value: object) -> Attribute:
        """Encode the value of one field.

        Raises:
            InvalidInputError: it cannot be stored exactly.
        """
        try:
            return field.encode(value, 1)
        except CodecError as error:
            raise self._input_error(error) from error

    def marshal_member(self, field: Field, value: object) -> Attribute:
        """Encode a part of a text, an element of a list or a member of a set.

        Raises:
            InvalidInputError: it cannot be stored exactly.
        """
        codec = field.codec.inner if isinstance(field.codec, OptionalCodec) else field.codec
        if isinstance(codec, (ListCodec, SetCodec)):
            field = dataclasses.replace(field, codec=codec.element, role="")
        return self.marshal_field(field, value)

    def unmarshal_part(self, item: Mapping[str, Attribute], fields: Iterable[Field]) -> dict[str, Any]:
        """Decode some fields; absent ones are left out.

        Raises:
            MalformedRowError: an attribute does not fit its field.
        """
        try:
            return {f.name: f.decode(item[f.attribute]) for f in fields if f.attribute in item}
        except CodecError as error:
            raise self._malformed(item, error) from error

    def unmarshal_fields(self, item: Mapping[str, Attribute], fields: Iterable[Field]) -> dict[str, Any]:
        """Decode some fields, each of which must have an attribute or a default.

        Raises:
            MalformedRowError: an attribute is absent, or does not fit its field.
        """
        try:
            return {f.name: f.decode(item.get(f.attribute)) for f in fields}
        except CodecError as error:
            raise self._malformed(item, error) from error

    def key(self, pk: object, sk: object = None) -> dict[str, Attribute]:
        """Encode a key.

        Raises:
            InvalidInputError: it is invalid, or has other parts than the model.
        """
        if (sk is None) != (self.sk is None):
            raise InvalidInputError(f"{self.name}: a key is {'pk only' if self.sk is None else 'pk and sk'}")
        key = {self.pk.attribute: self.marshal_field(self.pk, pk)}
        if self.sk is not None:
            key[self.sk.attribute] = self.marshal_field(self.sk, sk)
        return key

    def key_of(self, item: Mapping[str, Attribute]) -> dict[str, Attribute]:
        """Return the key of a stored item.

        Raises:
            KeyError: the item has no key.
        """
        return {f.attribute: item[f.attribute] for f in (self.pk, self.sk) if f is not None}

    def _malformed(self, item: Mapping[str, Attribute], error: CodecError) -> MalformedRowError:
        pk, sk = self._format_key(item, self.pk), self._format_key(item, self.sk)
        return MalformedRowError(
            f"the stored {self.name} pk={pk} sk={sk} is malformed: {error.path}: "
            f"expected {error.expected}, found {error.found}",
            pk=pk,
            sk=sk,
            attribute=error.path,
            expected=error.expected,
            found=error.found,
        )

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


_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")


def _indexes(structure: Structure, pk: Field, sk: Field | None, indexes: Iterable[Index]) -> dict[str, IndexDefinition]:
    made: dict[str, IndexDefinition] = {}
    for index in indexes:
        where = f"{structure.type.__name__}: the index {index.name!r:.60}"
        if not isinstance(index.name, str) or _NAME.fullmatch(index.name) is None:
            raise InvalidModelError(f"{where}: expected a name of 3 to 255 letters, digits, -, _ and .")
        if index.name in made:
            raise InvalidModelError(f"{where} is declared twice")
        partition = _index_key(where, structure, index.partition) if index.is_global else pk
        sort = None if index.sort is None else _index_key(where, structure, index.sort)
        if sort is not None and sort == partition:
            raise InvalidModelError(f"{where}: {sort.name} is both of its keys")
        if not index.is_global and sk is None:
            raise InvalidModelError(f"{where}: a table without a sort key has no local indexes")
        made[index.name] = IndexDefinition(index.name, partition, sort, index.is_global)
    return made


def _index_key(where: str, structure: Structure, name: str) -> Field:
    """Return a key field of an index."""
    field = next((f for f in structure.fields if f.name == name), None)
    if field is None:
        raise InvalidModelError(f"{where}: there is no field {name!r:.60}; there are {structure.names}")
    optional = isinstance(field.codec, OptionalCodec)
    if key_type(field) is None:
        raise InvalidModelError(f"{where}: {name}: a key is str, int, Decimal, bytes or a datetime")
    if optional and not field.omitempty:
        raise InvalidModelError(f"{where}: {name}: a key cannot be NULL; give the field omitempty=True")
    if field.encrypted:
        raise InvalidModelError(f"{where}: {name}: a key cannot be encrypted, as DynamoDB compares it")
    return field


def key_type(field: Field) -> str | None:
    """Return the type descriptor of a key: S, N or B; None: it cannot be a key."""
    codec = field.codec.inner if isinstance(field.codec, OptionalCodec) else field.codec
    match codec:
        case ScalarCodec():
            return codec.name if codec.name in ("S", "B") else None
        case EpochCodec() | IntCodec() | DecimalCodec():
            return "N"
        case TimeCodec():
            return "S"
    return None
