"""Codecs between Python types and DynamoDB attributes, lossless in both directions."""

from __future__ import annotations

import abc
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

from theorydb_py._codecerror import CodecError, attribute_mismatch, value_mismatch
from theorydb_py._decimal import parse_integer, parse_number
from theorydb_py._times import MAX_EPOCH, from_epoch, parse_rfc3339, rfc3339, to_epoch
from theorydb_py._values import (
    Attribute,
    check_depth,
    decode_document,
    encode_document,
    encode_number,
    encode_set,
    encode_text,
)


class Codec(abc.ABC):
    """Encodes and decodes the values of one type.

    Decoding is more lenient than encoding, to accept what other writers store. Both
    raise CodecError.
    """

    expected: str
    """Describes the values of the type for people."""

    empty: Callable[[], Any] | None = None
    """Creates the value that omitempty omits; None: the type has no such value."""

    must_omit_empty = False
    """Whether the empty value cannot be stored."""

    @abc.abstractmethod
    def encode(self, value: Any, depth: int) -> Attribute:
        """Encode a value; ``depth`` counts the enclosing lists and maps and this one: 1 in an item."""

    @abc.abstractmethod
    def decode(self, attribute: Attribute) -> Any:
        """Decode a stored attribute."""


class ScalarCodec(Codec):
    """``str`` as S, ``bool`` as BOOL, ``bytes`` as B: types that DynamoDB stores natively."""

    def __init__(self, kind: type[str] | type[bool] | type[bytes], name: str, expected: str) -> None:
        """``name`` is the attribute's type descriptor."""
        self._kind = kind
        self.name = name
        self.empty = kind
        self.expected = expected

    def encode(self, value: Any, depth: int) -> Attribute:
        """Return S, BOOL or B."""
        if not isinstance(value, self._kind):
            raise value_mismatch(self.expected, value)
        return encode_document(value, depth)

    def decode(self, attribute: Attribute) -> Any:
        """Decode S, BOOL or B."""
        return _member(attribute, self.name, self.expected)


class NumberCodec(Codec):
    """A numeric type as N, with up to 38 digits."""

    kinds: tuple[type[int | float | Decimal], ...]
    """The accepted types; a bool is never a number."""

    parse: Callable[[str], Any] = staticmethod(parse_number)
    """Parses N."""

    def encode(self, value: Any, depth: int) -> Attribute:  # noqa: ARG002
        """Return N."""
        if not isinstance(value, self.kinds) or isinstance(value, bool):
            raise value_mismatch(self.expected, value)
        return encode_number(value)

    def decode(self, attribute: Attribute) -> Any:
        """Decode N in any notation."""
        return _parse(attribute, self.parse)


class IntCodec(NumberCodec):
    """``int``: whole numbers only."""

    expected = "an int"
    empty = int
    kinds = (int,)
    parse = staticmethod(parse_integer)


class DecimalCodec(NumberCodec):
    """``Decimal``. An int is accepted, too."""

    expected = "a Decimal"
    empty = Decimal
    kinds = (Decimal, int)


class FloatCodec(NumberCodec):
    """``float``: the shortest decimal that parses to the same float. Ints are accepted if exact as float."""

    expected = "a float"
    empty = float
    kinds = (float, int)

    def encode(self, value: Any, depth: int) -> Attribute:
        """Return N."""
        if isinstance(value, int) and not _is_exact(value):
            raise value_mismatch("a number that a float represents exactly", value)
        return super().encode(value, depth)

    def decode(self, attribute: Attribute) -> Any:
        """Decode N to the nearest float."""
        return float(super().decode(attribute))


class TimeCodec(Codec):
    """``datetime`` as S: RFC 3339 in UTC. Decodes epoch seconds, too."""

    expected = "a datetime with a time zone, such as datetime.now(UTC)"

    def encode(self, value: Any, depth: int) -> Attribute:  # noqa: ARG002
        """Return S."""
        if not isinstance(value, datetime):
            raise value_mismatch(self.expected, value)
        try:
            return self.stored(value)
        except ValueError as error:
            raise value_mismatch(str(error), value) from None

    def stored(self, value: datetime) -> Attribute:
        """Return S. Raises ValueError without a time zone, or beyond the years 1 to 9999 in UTC."""
        return {"S": rfc3339(value)}

    def decode(self, attribute: Attribute) -> Any:
        """Decode S or N, in UTC, rounded down to microseconds."""
        if "S" not in attribute:
            return _parse(attribute, lambda text: from_epoch(parse_integer(text)))
        try:
            return parse_rfc3339(attribute["S"])
        except ValueError as error:
            raise attribute_mismatch(str(error), attribute) from None


class EpochCodec(TimeCodec):
    """``datetime`` in the role ttl: N, in whole epoch seconds, rounded down. Decodes RFC 3339, too."""

    def stored(self, value: datetime) -> Attribute:
        """Return N. Raises ValueError without a time zone."""
        return {"N": str(to_epoch(value))}


class EpochSecondsCodec(IntCodec):
    """``int`` in the role ttl: N, epoch seconds."""

    expected = f"epoch seconds from 0 to {MAX_EPOCH}; divide milliseconds by 1000"

    def encode(self, value: Any, depth: int) -> Attribute:
        """Return N."""
        attribute = super().encode(value, depth)
        if not 0 <= value <= MAX_EPOCH:
            raise value_mismatch(self.expected, value)
        return attribute


class DocumentCodec(Codec):
    """``Any``, and lists and dicts without element types: each value by its own type.

    Whole numbers are decoded as int, others as Decimal.
    """

    expected = "a plain value"

    def __init__(self, kind: type | None = None) -> None:
        """``kind`` is list or dict; None: any value."""
        self._kind = kind
        self.empty = kind
        if kind is not None:
            self.expected = f"a {kind.__name__}"

    def encode(self, value: Any, depth: int) -> Attribute:
        """Return the attribute of the value."""
        if self._kind is not None and not isinstance(value, self._kind):
            raise value_mismatch(self.expected, value)
        return encode_document(value, depth)

    def decode(self, attribute: Attribute) -> Any:
        """Decode any attribute, or only a list or a map."""
        value = decode_document(attribute)
        if self._kind is not None and not isinstance(value, self._kind):
            raise attribute_mismatch(self.expected, attribute)
        return value


class ListCodec(Codec):
    """``list[T]`` and ``tuple[T, ...]`` as L. Decodes sets, too."""

    def __init__(self, kind: type[list[Any]] | type[tuple[Any, ...]], element: Codec) -> None:
        """``kind`` is list or tuple."""
        self._kind = kind
        self.element = element
        self.empty = kind
        self.expected = f"a {kind.__name__}"

    def encode(self, value: Any, depth: int) -> Attribute:
        """Return L."""
        if not isinstance(value, self._kind):
            raise value_mismatch(self.expected, value)
        check_depth(depth)
        return {"L": [_encode_at(f"[{i}]", self.element, v, depth + 1) for i, v in enumerate(value)]}

    def decode(self, attribute: Attribute) -> Any:
        """Decode L, SS, NS or BS."""
        elements = _elements(attribute, self.expected)
        return self._kind(_decode_at(f"[{i}]", self.element, element) for i, element in enumerate(elements))


class SetCodec(Codec):
    """``set[T]`` and ``frozenset[T]`` of text, numbers or bytes as SS, NS or BS. Decodes lists, too.

    DynamoDB has no empty sets: an absent attribute is an empty set.
    """

    must_omit_empty = True

    def __init__(self, kind: type[set[Any]] | type[frozenset[Any]], element: Codec) -> None:
        """``kind`` is set or frozenset."""
        self._kind = kind
        self.element = element
        self.empty = kind
        self.expected = f"a {kind.__name__}"

    def encode(self, value: Any, depth: int) -> Attribute:
        """Return SS, NS or BS."""
        if not isinstance(value, self._kind):
            raise value_mismatch(self.expected, value)
        for member in value:
            self.element.encode(member, depth)  # determines the set type
        return encode_set(value)

    def decode(self, attribute: Attribute) -> Any:
        """Decode SS, NS, BS or L."""
        elements = _elements(attribute, self.expected)
        return self._kind(_decode_at(f"[{i}]", self.element, element) for i, element in enumerate(elements))


class MapCodec(Codec):
    """``dict[str, T]`` as M."""

    expected = "a dict whose keys are text"
    empty = dict

    def __init__(self, member: Codec) -> None:
        self._member = member

    def encode(self, value: Any, depth: int) -> Attribute:
        """Return M."""
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise value_mismatch(self.expected, value)
        check_depth(depth)
        return {
            "M": {encode_text(name)["S"]: _encode_at(name, self._member, v, depth + 1) for name, v in value.items()}
        }

    def decode(self, attribute: Attribute) -> Any:
        """Decode M."""
        members = _member(attribute, "M", self.expected)
        return {name: _decode_at(name, self._member, member) for name, member in members.items()}


class OptionalCodec(Codec):
    """``T | None``: NULL is None."""

    def __init__(self, inner: Codec) -> None:
        self.inner = inner
        """The codec of values other than None."""
        self.expected = f"{inner.expected}, or None"
        self.empty = _none

    def encode(self, value: Any, depth: int) -> Attribute:
        """Return NULL or the encoded value."""
        return {"NULL": True} if value is None else self.inner.encode(value, depth)

    def decode(self, attribute: Attribute) -> Any:
        """Decode NULL or a value."""
        return None if "NULL" in attribute else self.inner.decode(attribute)


def _none() -> None:
    """Return the value of an absent attribute."""


def _is_exact(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _member(attribute: Attribute, kind: str, expected: str) -> Any:
    if kind not in attribute:
        raise attribute_mismatch(expected, attribute)
    return attribute[kind]


def _parse(attribute: Attribute, parse: Callable[[str], Any]) -> Any:
    text = _member(attribute, "N", "a number")
    try:
        return parse(text)
    except ValueError as error:
        raise attribute_mismatch(str(error), attribute) from None


_MEMBERS = {"SS": "S", "NS": "N", "BS": "B"}


def _elements(attribute: Attribute, expected: str) -> list[Attribute]:
    kind, value = next(iter(attribute.items()))
    if kind == "L":
        return list(value)
    if kind not in _MEMBERS:
        raise attribute_mismatch(expected, attribute)
    return [{_MEMBERS[kind]: member} for member in value]


def _encode_at(step: str, codec: Codec, value: Any, depth: int) -> Attribute:
    try:
        return codec.encode(value, depth)
    except CodecError as error:
        raise error.within(step) from None


def _decode_at(step: str, codec: Codec, attribute: Attribute) -> Any:
    try:
        return codec.decode(attribute)
    except CodecError as error:
        raise error.within(step) from None
