"""Models: encoding, decoding and refused values."""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal, localcontext
from typing import Any, Literal

import pytest

from theorydb_py import InvalidInputError, InvalidModelError, MalformedRowError, ModelDefinition, theorydb_field


@dataclass
class Address:
    street: str
    zip_code: str | None = theorydb_field(name="zip", omitempty=True, default=None)


@dataclass
class Node:
    name: str
    children: list[Node] = field(default_factory=list)


@dataclass
class Everything:
    pk: str = theorydb_field(roles=["pk"])
    sk: int = theorydb_field(roles=["sk"], name="sort")
    text: str = ""
    whole: int = 0
    real: float = 0.0
    exact: Decimal = Decimal(0)
    yes: bool = False
    raw: bytes = b""
    when: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    maybe: str | None = None
    numbers: list[int] = field(default_factory=list)
    pair: tuple[float, ...] = ()
    tags: set[str] = field(default_factory=set)
    sizes: frozenset[int] = frozenset()
    blobs: set[bytes] = field(default_factory=set)
    ratios: set[Decimal] = field(default_factory=set)
    by_name: dict[str, list[int]] = field(default_factory=dict)
    home: Address | None = None
    tree: Node | None = None
    anything: Any = None
    bag: dict = field(default_factory=dict)  # type: ignore[type-arg] # what a document is
    expires: int | None = theorydb_field(roles=["ttl"], name="ttl", omitempty=True, default=None)
    version: int = theorydb_field(roles=["version"], default=0)


MODEL = ModelDefinition.from_dataclass(Everything, table_name="t")

FULL = Everything(
    pk="p",
    sk=-7,
    text="é\U0001f600\u0000",
    whole=10**37 + 1,
    real=0.1,
    exact=Decimal("-12345678901234567890.123456789012345678"),
    yes=True,
    raw=b"\x00\xff",
    when=datetime(2026, 2, 3, 4, 5, 6, 789_000, tzinfo=timezone(timedelta(hours=2))),
    maybe="",
    numbers=[3, 1, 2],
    pair=(1.5, -2.0),
    tags={"b", "a", ""},
    sizes=frozenset({2, 1}),
    blobs={b"", b"x"},
    ratios={Decimal("0.5"), Decimal(2)},
    by_name={"": [1], "a.b": []},
    home=Address("Main St", None),
    tree=Node("root", [Node("leaf")]),
    anything=[None, True, "s", 1, Decimal("1.5"), b"b", {"m": {1, 2}}],
    bag={"k": [1, {"deep": "er"}]},
    expires=1_800_000_000,
    version=3,
)


def test_stored_representation() -> None:
    stored = MODEL.marshal(FULL)
    assert stored["sort"] == {"N": "-7"}
    assert stored["whole"] == {"N": "10000000000000000000000000000000000001"}
    assert stored["real"] == {"N": "0.1"}
    assert stored["exact"] == {"N": "-12345678901234567890.123456789012345678"}
    assert stored["when"] == {"S": "2026-02-03T02:05:06.789Z"}
    assert stored["maybe"] == {"S": ""}
    assert stored["pair"] == {"L": [{"N": "1.5"}, {"N": "-2"}]}
    assert stored["tags"] == {"SS": ["", "a", "b"]}
    assert stored["sizes"] == {"NS": ["1", "2"]}
    assert stored["blobs"] == {"BS": [b"", b"x"]}
    assert stored["by_name"] == {"M": {"": {"L": [{"N": "1"}]}, "a.b": {"L": []}}}
    assert stored["home"] == {"M": {"street": {"S": "Main St"}}}
    assert stored["tree"]["M"]["children"]["L"][0]["M"]["name"] == {"S": "leaf"}
    assert stored["anything"]["L"][4] == {"N": "1.5"}
    assert stored["ttl"] == {"N": "1800000000"}


def test_round_trip() -> None:
    back = MODEL.unmarshal(MODEL.marshal(FULL))
    assert back == FULL
    assert type(back.pair[1]) is float
    assert type(back.sizes) is frozenset


def test_round_trip_of_empty_values() -> None:
    empty = Everything(pk="p", sk=0)
    stored = MODEL.marshal(empty)
    assert "tags" not in stored  # DynamoDB has no empty sets
    assert stored["maybe"] == {"NULL": True}
    assert MODEL.unmarshal(stored) == empty


def test_decimal_context_does_not_round() -> None:
    with localcontext() as context:
        context.prec = 3
        assert MODEL.unmarshal(MODEL.marshal(FULL)) == FULL


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1.0"), "1"),
        (Decimal("1E+2"), "100"),
        (Decimal("-0"), "0"),
        (Decimal("1E-130"), "0." + "0" * 129 + "1"),
        (Decimal("9.99E+125"), "999" + "0" * 123),
        (Decimal("0E+999"), "0"),
        (Decimal("1" * 38 + "0" * 80), "1" * 38 + "0" * 80),
        (Decimal("100000000000000000000000000000000000000000"), "1" + "0" * 41),
    ],
)
def test_decimals_are_written_without_exponents(value: Decimal, text: str) -> None:
    assert MODEL.marshal_field(MODEL.field("exact"), value) == {"N": text}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("text", 5, "attribute text: expected text, found int 5"),
        ("text", None, "expected text, found NoneType"),
        ("text", "\ud800", "UTF-8"),
        ("whole", "5", "expected an int, found str '5'"),
        ("whole", True, "expected an int, found bool True"),
        ("whole", 1.0, "expected an int, found float 1.0"),
        ("whole", int("9" * 39), "38 digits"),
        pytest.param("whole", 10**100_000, "38 digits", id="huge int"),
        ("real", math.nan, "38 digits"),
        ("real", math.inf, "38 digits"),
        ("real", 5e-324, "1E-130"),
        ("real", 2**53 + 1, "a float represents exactly"),
        pytest.param("real", 10**100_000, "a float represents exactly", id="huge int in a float"),
        ("real", Decimal("0.1"), "expected a float"),
        ("exact", Decimal("1" * 39), "38 digits"),
        ("exact", Decimal("1E-131"), "1E-130"),
        ("exact", Decimal("1E126"), "9.99E\\+125"),
        ("exact", Decimal("NaN"), "38 digits"),
        ("exact", Decimal("Infinity"), "38 digits"),
        ("exact", 0.1, "expected a Decimal"),
        ("yes", 1, "expected a bool"),
        ("raw", "text", "expected bytes"),
        ("raw", bytearray(b"x"), "expected bytes"),
        ("when", datetime(2026, 1, 1), "time zone"),
        ("when", "2026-01-01T00:00:00Z", "expected a datetime"),
        ("when", datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2))), "the years 1 to 9999"),
        ("numbers", [1, "2"], r"numbers\[1\]: expected an int, found str '2'"),
        ("numbers", (1,), "expected a list"),
        ("tags", {"a", 1}, "expected text"),
        ("tags", ["a"], "expected a set"),
        ("by_name", {"a": [1, None]}, r"by_name\.a\[1\]: expected an int"),
        ("by_name", {1: []}, "whose keys are text"),
        ("home", "Main St", "expected an object of Address"),
        ("home", Address(5), r"home\.street: expected text"),  # type: ignore[arg-type]
        ("anything", 1.5, "float"),
        ("anything", [object()], r"anything\[0\]"),
        ("anything", {"a": datetime(2026, 1, 1, tzinfo=UTC)}, r"anything\.a"),
        ("anything", set(), "nonempty"),
        ("anything", {1, "a"}, "only text"),
        ("bag", [], "expected a dict"),
        ("expires", 1_800_000_000_000, "milliseconds"),
        ("expires", -1, "epoch seconds"),
        ("version", -1, "a version"),
        ("pk", "", "a key of 1 to 2048 bytes"),
        ("pk", "x" * 2049, "a key of 1 to 2048 bytes"),
    ],
)
def test_inexact_values_are_refused(name: str, value: Any, message: str) -> None:
    item = Everything(pk="p", sk=1)
    setattr(item, name, value)
    with pytest.raises(InvalidInputError, match=message):
        MODEL.marshal(item)


def test_set_of_equal_decimals_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="differ as decimals"):
        MODEL.marshal(Everything("p", 1, anything={Decimal("0.10"), _Same("0.1")}))


class _Same(Decimal):
    """Never equal to another object."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def test_self_referential_values_are_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidInputError, match="31 deep"):
        MODEL.marshal(Everything("p", 1, anything=loop))
    node = Node("n")
    node.children.append(node)
    with pytest.raises(InvalidInputError, match="31 deep"):
        MODEL.marshal(Everything("p", 1, tree=node))


def test_deepest_nesting_is_accepted() -> None:
    deep: Any = "x"
    for _ in range(31):
        deep = [deep]
    item = Everything("p", 1, anything=deep)
    assert MODEL.unmarshal(MODEL.marshal(item)) == item
    with pytest.raises(InvalidInputError, match="31 deep"):
        MODEL.marshal(Everything("p", 1, anything=[deep]))


# --- Decoding the rows of other writers --------------------------------------


def read(**attributes: Any) -> Everything:
    return MODEL.unmarshal({"pk": {"S": "p"}, "sort": {"N": "1"}, **attributes})


def test_other_notations_of_numbers_and_times_are_read() -> None:
    assert read(whole={"N": "1.5E3"}).whole == 1500
    assert read(real={"N": "1e2"}).real == 100.0
    assert read(when={"N": "1800000000"}).when == datetime(2027, 1, 15, 8, 0, tzinfo=UTC)
    when = read(when={"S": "2026-02-03T04:05:06.123456789+02:00"}).when
    assert when == datetime(2026, 2, 3, 2, 5, 6, 123456, tzinfo=UTC)


def test_lists_decode_as_sets_and_sets_as_lists() -> None:
    assert read(tags={"L": [{"S": "a"}, {"S": "a"}]}).tags == {"a"}
    assert read(numbers={"NS": ["1", "2"]}).numbers == [1, 2]


def test_null_counts_as_absent() -> None:
    item = read(text={"NULL": True}, tags={"NULL": True}, maybe={"NULL": True}, when={"NULL": True})
    assert (item.text, item.tags, item.maybe) == ("", set(), None)


def test_unknown_attributes_are_ignored() -> None:
    assert read(other={"S": "x"}) == Everything("p", 1)


@pytest.mark.parametrize(
    ("attributes", "attribute", "found"),
    [
        ({"whole": {"N": "1.5"}}, "whole", "number 1.5"),
        ({"whole": {"S": "1"}}, "whole", 'string "1"'),
        ({"whole": {"N": "1E999999"}}, "whole", "number 1E999999"),
        ({"whole": {"N": "nan"}}, "whole", "number nan"),
        ({"text": {"N": "1"}}, "text", "number 1"),
        ({"when": {"S": "yesterday"}}, "when", 'string "yesterday"'),
        ({"when": {"N": "1800000000000"}}, "when", "number 1800000000000"),
        ({"tags": {"SS": ["a"], "x": 1}, "numbers": {"L": [{"N": "1"}, {"S": "x"}]}}, "numbers[1]", 'string "x"'),
        ({"home": {"M": {}}}, "home.street", "nothing"),
        ({"by_name": {"M": {"a": {"BOOL": True}}}}, "by_name.a", "boolean true"),
    ],
)
def test_malformed_items_raise(attributes: Any, attribute: str, found: str) -> None:
    with pytest.raises(MalformedRowError, match="the stored Everything pk=p") as malformed:
        read(**attributes)
    assert (malformed.value.pk, malformed.value.attribute, malformed.value.found) == ("p", attribute, found)


def test_field_without_default_requires_an_attribute() -> None:
    with pytest.raises(MalformedRowError, match="sort: expected an int, found nothing"):
        MODEL.unmarshal({"pk": {"S": "p"}})


# --- Definitions ------------------------------------------------------------


def refused(kind: Any, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        ModelDefinition.from_dataclass(kind, table_name="t")


@dataclass
class NoKey:
    a: str


@dataclass
class TwoKeys:
    a: str = theorydb_field(roles=["pk"])
    b: str = theorydb_field(roles=["pk"])


@dataclass
class UnknownRole:
    a: str = theorydb_field(roles=["partition"])


@dataclass
class OptionalKey:
    a: str | None = theorydb_field(roles=["pk"])


@dataclass
class FloatKey:
    a: float = theorydb_field(roles=["pk"])


@dataclass
class OmittedKey:
    a: str = theorydb_field(roles=["pk"], omitempty=True)


@dataclass
class TextTTL:
    a: str = theorydb_field(roles=["pk"])
    b: str = theorydb_field(roles=["ttl"])


@dataclass
class TextVersion:
    a: str = theorydb_field(roles=["pk"])
    b: str = theorydb_field(roles=["version"])


@dataclass
class Union:
    a: str = theorydb_field(roles=["pk"])
    b: int | str = 0


@dataclass
class Unknown:
    a: str = theorydb_field(roles=["pk"])
    b: Literal["x"] = "x"


@dataclass
class Complex:
    a: str = theorydb_field(roles=["pk"])
    b: list[complex] = field(default_factory=list)


@dataclass
class SetOfLists:
    a: str = theorydb_field(roles=["pk"])
    b: set[tuple[int, ...]] = field(default_factory=set)


@dataclass
class LossyDefault:
    a: str = theorydb_field(roles=["pk"])
    b: int = theorydb_field(omitempty=True, default=5)


@dataclass
class NeverEmpty:
    a: str = theorydb_field(roles=["pk"])
    b: Address = theorydb_field(omitempty=True)


@dataclass
class SameAttribute:
    a: str = theorydb_field(roles=["pk"])
    b: str = theorydb_field(name="a")


@dataclass
class NotByFields:
    a: str = theorydb_field(roles=["pk"])
    b: InitVar[int] = 0


@dataclass
class Nested:
    a: str = theorydb_field(roles=["pk"])
    b: NoKey | None = None
    c: UnknownRole | None = None


@dataclass
class RoleWithin:
    a: str = theorydb_field(roles=["pk"])
    b: TwoKeys | None = None


class Plain:
    pass


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (NoKey, "no field has the role pk"),
        (TwoKeys, "several fields have the role pk: a, b"),
        (UnknownRole, "UnknownRole.a: roles: expected one of pk, sk, ttl, version"),
        (OptionalKey, "never None"),
        (FloatKey, "a key is str, int, Decimal or bytes"),
        (OmittedKey, "the type has no empty value"),
        (TextTTL, "a ttl is"),
        (TextVersion, "a version is an int"),
        (Union, "one type and None"),
        (Unknown, "cannot be stored"),
        (Complex, "complex cannot be stored"),
        (SetOfLists, "a set of"),
        (LossyDefault, "its default is 5, but an omitted value would be read as 0"),
        (NeverEmpty, r"make it Address \| None"),
        (SameAttribute, "a and b share the attribute 'a'"),
        (NotByFields, "constructible from its fields"),
        (RoleWithin, "not allowed in a nested dataclass"),
        (Nested, "UnknownRole.a"),
        (Plain, "expected a dataclass"),
        (5, "expected a dataclass"),
    ],
)
def test_invalid_definitions_are_refused(kind: Any, message: str) -> None:
    refused(kind, message)


def test_unresolvable_annotations_are_refused() -> None:
    class Hidden:
        pass

    @dataclass
    class Local:
        a: str = theorydb_field(roles=["pk"])
        b: Hidden | None = None

    refused(Local, "define it, and what it names, in a module")


def test_objects_of_other_classes_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="expected an object of Everything, found Address"):
        MODEL.marshal(Address("x"))  # type: ignore[arg-type]


def test_keys() -> None:
    assert MODEL.key("p", 1) == {"pk": {"S": "p"}, "sort": {"N": "1"}}
    with pytest.raises(InvalidInputError, match="pk and sk"):
        MODEL.key("p")
    with pytest.raises(InvalidInputError, match="attribute sort"):
        MODEL.key("p", "1")
