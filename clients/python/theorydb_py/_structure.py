"""Derives the stored structure of dataclasses from their type hints."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

from theorydb_py._codec import (
    Codec,
    DecimalCodec,
    DocumentCodec,
    EpochCodec,
    EpochSecondsCodec,
    FloatCodec,
    IntCodec,
    ListCodec,
    MapCodec,
    OptionalCodec,
    ScalarCodec,
    SetCodec,
    TimeCodec,
)
from theorydb_py._codecerror import CodecError, attribute_mismatch, value_mismatch
from theorydb_py._values import Attribute, check_depth
from theorydb_py.errors import InvalidModelError

ROLES = ("pk", "sk", "ttl", "version", "created_at", "updated_at")

# The types of keys, and their limits in bytes.
_KEY_TYPES = (str, int, Decimal, bytes)
_MAX_KEY = {"pk": 2048, "sk": 1024}

_MAX_NAME = 65535  # limit of an attribute name in bytes
_MAX_VERSION = 2**63 - 1  # Go's clients read an int64


@dataclass(frozen=True)
class FieldOptions:
    """The options of theorydb_field."""

    METADATA: ClassVar[str] = "theorydb"

    name: str | None = None
    roles: tuple[str, ...] = ()
    omitempty: bool = False
    encrypted: bool = False


@dataclass(frozen=True)
class Field:
    """A field of a dataclass, and its attribute."""

    name: str
    attribute: str
    role: str
    codec: Codec
    omitempty: bool
    default: Callable[[], Any] | None
    """Creates the value of an absent attribute; None: the attribute is required."""
    encrypted: bool = False

    def is_omitted(self, value: object) -> bool:
        """Return whether the value is stored as an absent attribute."""
        if not (self.omitempty or self.codec.must_omit_empty) or self.codec.empty is None:
            return False
        empty = self.codec.empty()
        return value is None if empty is None else type(value) is type(empty) and value == empty

    def encode(self, value: object, depth: int) -> Attribute:
        """Encode the value. Raises CodecError."""
        try:
            attribute = self.codec.encode(value, depth)
            if self.role in _MAX_KEY:
                _check_key(attribute, _MAX_KEY[self.role])
            if self.role == "version" and value is not None:
                _check_version(value)
        except CodecError as error:
            located = self._located(error)
        else:
            return attribute
        raise located

    def decode(self, attribute: Attribute | None) -> Any:
        """Decode the stored attribute; None: it is absent. Raises CodecError."""
        # Mappers of other languages write NULL for a missing value.
        if attribute is None or ("NULL" in attribute and not isinstance(self.codec, (OptionalCodec, DocumentCodec))):
            if self.default is None:
                raise self._located(attribute_mismatch(self.codec.expected, attribute))
            return self.default()
        try:
            return self.codec.decode(attribute)
        except CodecError as error:
            located = self._located(error)
        raise located

    def _located(self, error: CodecError) -> CodecError:
        """Return the error with the attribute's name, and without any part of an encrypted value.

        It is raised outside the handler of the error, so that it does not refer to it.
        """
        if self.encrypted:
            return CodecError(error.expected, "a value that is encrypted and not shown", self.attribute)
        return error.within(self.attribute)


@dataclass(frozen=True, eq=False)
class Structure:
    """A dataclass and its fields."""

    type: type
    fields: tuple[Field, ...]

    @property
    def names(self) -> str:
        """The names of its fields, for people."""
        return ", ".join(field.name for field in self.fields)

    def encode(self, value: object, depth: int) -> dict[str, Attribute]:
        """Encode the fields of an object, at this depth."""
        values = ((field, getattr(value, field.name)) for field in self.fields)
        return {field.attribute: field.encode(v, depth + 1) for field, v in values if not field.is_omitted(v)}

    def decode(self, item: Mapping[str, Attribute]) -> Any:
        """Decode an object."""
        return self.type(**{field.name: field.decode(item.get(field.attribute)) for field in self.fields})


class StructureCodec(Codec):
    """A nested dataclass, as M."""

    def __init__(self, kind: type) -> None:
        """Create a codec without fields; they are set later, as dataclasses may be recursive."""
        self.expected = f"an object of {kind.__name__}"
        self._kind = kind
        self._structure: Structure | None = None

    def set_fields(self, structure: Structure) -> None:
        """Set the fields."""
        self._structure = structure

    def encode(self, value: Any, depth: int) -> Attribute:
        """Return M."""
        if not isinstance(value, self._kind) or self._structure is None:
            raise value_mismatch(self.expected, value)
        check_depth(depth)
        return {"M": self._structure.encode(value, depth)}

    def decode(self, attribute: Attribute) -> Any:
        """Decode M."""
        if "M" not in attribute or self._structure is None:
            raise attribute_mismatch(self.expected, attribute)
        return self._structure.decode(attribute["M"])


def structure_of(kind: type) -> Structure:
    """Inspect a dataclass. Raises InvalidModelError if its fields cannot be stored."""
    return _Inspector().structure(kind, is_item=True)


class _Inspector:
    """The inspection of a dataclass and of those nested in it."""

    def __init__(self) -> None:
        self._seen: dict[type, StructureCodec] = {}  # by class, as dataclasses may be recursive

    def structure(self, kind: type, *, is_item: bool) -> Structure:
        if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
            raise InvalidModelError(f"{kind!r:.60}: expected a dataclass; put @dataclass above the class")
        declared = dataclasses.fields(kind)
        if not all(f.init for f in declared) or {f.name for f in declared} != set(inspect.signature(kind).parameters):
            raise InvalidModelError(
                f"{kind.__name__}: it must be constructible from its fields: no InitVar, init=False or __init__"
            )
        hints = _hints(kind)
        fields = tuple(self._field(kind, f, hints[f.name], is_item=is_item) for f in declared)
        _check_names(kind, fields)
        return Structure(kind, fields)

    def _field(self, kind: type, declared: dataclasses.Field[Any], hint: Any, *, is_item: bool) -> Field:
        where = f"{kind.__name__}.{declared.name}"
        options: FieldOptions = declared.metadata.get(FieldOptions.METADATA, FieldOptions())
        role = _role(where, options, is_item=is_item)
        codec = _codec_in_role(where, role, hint, self._codec(where, hint))
        attribute = declared.name if options.name is None else options.name
        if not isinstance(attribute, str) or not 1 <= len(attribute.encode(errors="replace")) <= _MAX_NAME:
            raise InvalidModelError(f"{where}: name: expected text of 1 to {_MAX_NAME} bytes, found {attribute!r:.60}")
        if options.omitempty and (codec.empty is None or role in _MAX_KEY):
            raise InvalidModelError(f"{where}: omitempty: the type has no empty value; make it {_name_of(hint)} | None")
        default = _default(where, declared, codec, omitempty=options.omitempty or codec.must_omit_empty)
        if options.encrypted and (role or not is_item):
            raise InvalidModelError(
                f"{where}: encrypted: only fields of the item without a role can be encrypted; in a nested dataclass, "
                "encrypt the field that holds it"
            )
        return Field(declared.name, attribute, role, codec, options.omitempty, default, options.encrypted)

    def _codec(self, where: str, hint: Any) -> Codec:
        plain = _PLAIN.get(hint) if isinstance(hint, typing.Hashable) else None
        if plain is not None:
            return plain()
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            return self._optional(where, hint, arguments)
        if origin is list:
            return ListCodec(list, self._codec(where, arguments[0]))
        if origin is tuple and len(arguments) == _VARIADIC and arguments[1] is Ellipsis:
            return ListCodec(tuple, self._codec(where, arguments[0]))
        if origin in (set, frozenset):
            return self._set(where, origin, arguments[0])
        if origin is dict and arguments[0] is str:
            return MapCodec(self._codec(where, arguments[1]))
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return self._nested(hint)
        raise InvalidModelError(
            f"{where}: the type {_name_of(hint)} cannot be stored; see ModelDefinition for those that can"
        )

    def _optional(self, where: str, hint: Any, arguments: tuple[Any, ...]) -> Codec:
        others = [argument for argument in arguments if argument is not type(None)]
        if len(others) != 1 or len(others) == len(arguments):
            raise InvalidModelError(f"{where}: {_name_of(hint)}: unsupported union; expected one type and None")
        return OptionalCodec(self._codec(where, others[0]))

    def _set(self, where: str, kind: Any, element: Any) -> Codec:
        if element not in (str, int, float, Decimal, bytes):
            raise InvalidModelError(
                f"{where}: a set of {_name_of(element)}: expected str, int, float, Decimal or bytes"
            )
        return SetCodec(kind, self._codec(where, element))

    def _nested(self, kind: type) -> Codec:
        if kind not in self._seen:
            codec = self._seen[kind] = StructureCodec(kind)
            codec.set_fields(self.structure(kind, is_item=False))
        return self._seen[kind]


_VARIADIC = 2  # arguments of tuple[T, ...]

_PLAIN: Mapping[Any, Callable[[], Codec]] = types.MappingProxyType(
    {
        str: lambda: ScalarCodec(str, "S", "text"),
        int: IntCodec,
        float: FloatCodec,
        Decimal: DecimalCodec,
        bool: lambda: ScalarCodec(bool, "BOOL", "a bool"),
        bytes: lambda: ScalarCodec(bytes, "B", "bytes"),
        datetime: TimeCodec,
        Any: DocumentCodec,
        object: DocumentCodec,
        list: lambda: DocumentCodec(list),
        dict: lambda: DocumentCodec(dict),
    }
)


def _hints(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except (NameError, TypeError) as error:
        raise InvalidModelError(
            f"{kind.__name__}: its annotations cannot be resolved; define it, and what it names, in a module: {error}"
        ) from error


def _role(where: str, options: FieldOptions, *, is_item: bool) -> str:
    if not options.roles:
        return ""
    if len(options.roles) > 1 or options.roles[0] not in ROLES:
        raise InvalidModelError(f"{where}: roles: expected one of {', '.join(ROLES)}, found {list(options.roles)}")
    if not is_item:
        raise InvalidModelError(f"{where}: roles: not allowed in a nested dataclass, found {list(options.roles)}")
    return options.roles[0]


def _codec_in_role(where: str, role: str, hint: Any, codec: Codec) -> Codec:
    """Return the codec of a field in a role. Raises InvalidModelError if its type does not fit the role."""
    inner = codec.inner if isinstance(codec, OptionalCodec) else codec
    match role:
        case "pk" | "sk":
            if hint not in _KEY_TYPES:
                raise InvalidModelError(f"{where}: a key is str, int, Decimal or bytes, and never None")
        case "version":
            if not isinstance(inner, IntCodec):
                raise InvalidModelError(f"{where}: a version is an int, or int | None")
        case "ttl":
            by_type: dict[type[Codec], Codec] = {IntCodec: EpochSecondsCodec(), TimeCodec: EpochCodec()}
            if type(inner) not in by_type:
                raise InvalidModelError(
                    f"{where}: a ttl is an int of epoch seconds or a datetime, or one of them | None"
                )
            epoch = by_type[type(inner)]
            return epoch if inner is codec else OptionalCodec(epoch)
        case "created_at" | "updated_at":
            if type(inner) not in (IntCodec, TimeCodec):
                raise InvalidModelError(
                    f"{where}: {role} is an int of epoch seconds or a datetime, or one of them | None"
                )
    return codec


def _default(
    where: str, declared: dataclasses.Field[Any], codec: Codec, *, omitempty: bool
) -> Callable[[], Any] | None:
    """Return the factory of an absent attribute's value."""
    made = _declared_default(declared)
    if omitempty and codec.empty is not None:
        if made is not None and made() != codec.empty():
            raise InvalidModelError(
                f"{where}: its default is {made()!r:.60}, but an omitted value would be read as {codec.empty()!r}; "
                "use that as the default, or drop omitempty"
            )
        return codec.empty
    if made is None and isinstance(codec, OptionalCodec):
        return codec.empty
    return made


def _declared_default(declared: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if declared.default_factory is not dataclasses.MISSING:
        return declared.default_factory
    if declared.default is not dataclasses.MISSING:
        return lambda: declared.default
    return None


def _check_names(kind: type, fields: tuple[Field, ...]) -> None:
    seen: dict[str, Field] = {}
    for field in fields:
        if field.attribute in seen:
            both = f"{seen[field.attribute].name} and {field.name}"
            raise InvalidModelError(f"{kind.__name__}: {both} share the attribute {field.attribute!r}; rename one")
        seen[field.attribute] = field


def _check_key(attribute: Attribute, longest: int) -> None:
    value = next(iter(attribute.values()))
    size = len(value.encode()) if isinstance(value, str) else len(value)
    if not 1 <= size <= longest:
        raise CodecError(f"a key of 1 to {longest} bytes", f"{size} bytes")


def _check_version(value: object) -> None:
    if isinstance(value, int) and not 0 <= value < _MAX_VERSION:
        raise value_mismatch(f"a version from 0 to {_MAX_VERSION - 1}", value)


def _name_of(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)
