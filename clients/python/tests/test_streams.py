"""Images of DynamoDB Streams, with the rules of tabletheory.DB.UnmarshalStreamImage in Go."""

from __future__ import annotations

import asyncio
import base64
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Engine
from theorydb_py import (
    InvalidInputError,
    InvalidModelError,
    MalformedRowError,
    ModelDefinition,
    NotEncryptedError,
    StreamItems,
    Table,
    TamperedError,
    theorydb_field,
    theorydb_model,
    unmarshal_stream_image,
    unmarshal_stream_record,
)
from theorydb_py.aio import AsyncTable

UNUSED = Engine("none", "http://127.0.0.1:1").client()
"""A client that must not send anything."""


@theorydb_model
class Streamed:
    """An attribute of each type."""

    id: str = theorydb_field(roles=["pk"])
    at: int = theorydb_field(roles=["sk"])
    number: int | None = theorydb_field(default=None)
    binary: bytes = theorydb_field(default=b"")
    flag: bool | None = theorydb_field(default=None)
    texts: set[str] = theorydb_field(default_factory=set)
    numbers: set[Decimal] = theorydb_field(default_factory=set)
    blobs: set[bytes] = theorydb_field(default_factory=set)
    list: Any = theorydb_field(default=None)
    map: dict[str, Any] = theorydb_field(default_factory=dict)
    nothing: str | None = theorydb_field(default=None)
    version: int = theorydb_field(roles=["version"], default=0)


STREAMED = ModelDefinition.from_dataclass(Streamed, table_name="streamed")
KEYS = {"id": {"S": "a"}, "at": {"N": "7"}}
RECORD: dict[str, Any] = json.loads("""{"eventName": "MODIFY", "eventSource": "aws:dynamodb", "dynamodb": {
  "SequenceNumber": "1", "StreamViewType": "NEW_AND_OLD_IMAGES", "Keys": {"id": {"S": "a"}, "at": {"N": "7"}},
  "NewImage": {
    "id": {"S": "a"}, "at": {"N": "7"}, "number": {"N": "9007199254740993"}, "binary": {"B": "AAH/"},
    "flag": {"BOOL": false}, "texts": {"SS": ["x", "y"]}, "numbers": {"NS": ["1", "9007199254740993.5"]},
    "blobs": {"BS": ["AA=="]},
    "list": {"L": [{"N": "9007199254740993"}, {"NULL": true}, {"L": [{"S": ""}]}, {"B": "AA=="}]},
    "map": {"M": {"a": {"M": {"b": {"N": "1"}}}, "__class__": {"S": "own"}}}, "nothing": {"NULL": true},
    "version": {"N": "2"}, "other": {"S": "ignored"}},
  "OldImage": {"id": {"S": "a"}, "at": {"N": "7"}}
}}""")
"""A record as AWS Lambda sends it."""

NEW = Streamed(
    "a",
    7,
    number=9007199254740993,
    binary=b"\x00\x01\xff",
    flag=False,
    texts={"x", "y"},
    numbers={Decimal(1), Decimal("9007199254740993.5")},
    blobs={b"\x00"},
    list=[9007199254740993, None, [""], b"\x00"],
    map={"a": {"b": 1}, "__class__": "own"},
    version=2,
)


@pytest.fixture(params=["model", "table"])
def reader(request: pytest.FixtureRequest) -> Any:
    """Return the functions for a model, and the methods of a table, with the same arguments."""
    table = Table(STREAMED, client=UNUSED)

    class Reader:
        def image(self, image: Any) -> Streamed:
            if request.param == "table":
                return table.unmarshal_stream_image(image)
            return unmarshal_stream_image(STREAMED, image)

        def record(self, record: Any, **options: Any) -> Any:
            if request.param == "table":
                return table.unmarshal_stream_record(record, **options)
            return unmarshal_stream_record(STREAMED, record, **options)

    return Reader()


def test_images_have_the_values_that_reads_return(reader: Any) -> None:
    items = reader.record(RECORD)
    assert items == StreamItems({"id": "a", "at": 7}, NEW, Streamed("a", 7))
    assert reader.image(RECORD["dynamodb"]["NewImage"]) == NEW
    assert type(items.new_image.list[0]) is int


def test_one_image_of_a_record(reader: Any) -> None:
    """As TableTheory's function, whose default is NewImage."""
    assert reader.record(RECORD, image="NewImage") == NEW
    assert reader.record(RECORD, image="OldImage") == Streamed("a", 7)
    assert reader.record({"dynamodb": {"Keys": KEYS}}, image="NewImage") is None
    with pytest.raises(InvalidInputError, match="NewImage, OldImage"):
        reader.record(RECORD, image="Keys")


def test_a_record_has_what_its_stream_shows(reader: Any) -> None:
    assert reader.record({"dynamodb": {"Keys": KEYS}}) == StreamItems({"id": "a", "at": 7}, None, None)
    assert reader.record({"dynamodb": {"NewImage": KEYS, "OldImage": None}}) == StreamItems(
        None, Streamed("a", 7), None
    )
    assert reader.record({"dynamodb": {}}) == StreamItems(None, None, None)


def test_images_of_get_records_have_bytes_and_an_empty_value_is_null(reader: Any) -> None:
    image = {**KEYS, "binary": {"B": b"\x01\x02"}, "blobs": {"BS": [b"\x03", "BA=="]}, "number": {}, "flag": None}
    found = reader.image(image)
    assert (found.binary, found.blobs, found.number, found.flag) == (b"\x01\x02", {b"\x03", b"\x04"}, None, None)
    assert reader.image({**KEYS, "binary": {"B": ""}}).binary == b""


@pytest.mark.parametrize(
    "image", [{**KEYS, "flag": {"S": "a"}}, {"id": {"S": "a"}}, {**KEYS, "id": {}}, {**KEYS, "at": {"N": "x"}}]
)
def test_an_image_of_another_type_fails_like_an_item(reader: Any, image: Any) -> None:
    with pytest.raises(MalformedRowError) as raised:
        reader.image(image)
    assert raised.value.attribute in ("flag", "at", "id")


def test_keys_must_fit_the_model(reader: Any) -> None:
    with pytest.raises(MalformedRowError, match="at"):
        reader.record({"dynamodb": {"Keys": {"id": {"S": "a"}}}})


def deep(levels: int) -> Any:
    value: Any = {"S": "deep"}
    for level in range(levels):
        value = {"L": [value]} if level % 2 == 0 else {"M": {"m": value}}
    return value


def test_the_deepest_document_of_dynamodb_is_decoded(reader: Any) -> None:
    assert '"deep"' in json.dumps(reader.image({**KEYS, "list": deep(31)}).list)


NO_VALUES = {
    "a plain value": "text",
    "a number": 7,
    "a list": [{"S": "a"}],
    "two types": {"S": "a", "N": "1"},
    "an unknown type": {"X": "a"},
    "a type that is no text": {1: "a"},
    "a string that is none": {"S": 7},
    "a string that is null": {"S": None},
    "a number that is none": {"N": 7},
    "bytes that are not base64": {"B": "a!"},
    "base64 without its end": {"B": "AAA"},
    "base64 of another alphabet": {"B": "ÄÄÄÄ"},
    "a boolean that is none": {"BOOL": "true"},
    "a boolean that is a number": {"BOOL": 1},
    "NULL that is false": {"NULL": False},
    "a set that is none": {"SS": "a"},
    "a set of others": {"NS": [1]},
    "a set of bytes that are none": {"BS": [1]},
    "a list that is none": {"L": {}},
    "a list of plain values": {"L": ["a"]},
    "a map that is none": {"M": []},
    "a map of plain values": {"M": {"a": 1}},
    "a document without end": deep(100_000),
}


@pytest.mark.parametrize("name", NO_VALUES)
@pytest.mark.parametrize("attribute", ["list", "other"])
def test_what_is_no_image(reader: Any, name: str, attribute: str) -> None:
    image = {**KEYS, attribute: NO_VALUES[name]}
    with pytest.raises(InvalidInputError, match=attribute) as raised:
        reader.image(image)
    assert len(str(raised.value)) < 1000
    with pytest.raises(InvalidInputError):
        reader.record({"dynamodb": {"OldImage": image}})


@pytest.mark.parametrize("record", [None, {}, [], {"dynamodb": None}, {"dynamodb": "a"}, {"Records": []}, "text"])
def test_what_is_no_record(reader: Any, record: Any) -> None:
    with pytest.raises(InvalidInputError, match="each of the Records"):
        reader.record(record)


@pytest.mark.parametrize("image", [None, [], "a", 7])
def test_what_is_no_map(reader: Any, image: Any) -> None:
    with pytest.raises(InvalidInputError, match="expected attribute values by name"):
        reader.image(image)


# --- Encrypted attributes -------------------------------------------------------


@theorydb_model
class Letter:
    id: str = theorydb_field(roles=["pk"])
    text: str = theorydb_field(encrypted=True, default="")


LETTERS = ModelDefinition.from_dataclass(Letter, table_name="letters")


def test_encrypted_attributes_are_decrypted(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from theorydb_py.encryption import KeyFile
    from theorydb_py.encryption._envelope import seal
    from theorydb_py.encryption._location import Location

    keys = KeyFile(tmp_path / "keys")
    table = Table(LETTERS, client=UNUSED, keys=keys)
    key = {"id": {"S": "1"}}
    sealed = seal(keys, Location("letters", key), {"text": {"S": "secret"}})
    members = {
        name: {"B": base64.b64encode(value["B"]).decode()} if "B" in value else value
        for name, value in sealed["text"]["M"].items()
    }
    event: dict[str, Any] = {"dynamodb": {"Keys": key, "NewImage": {**key, "text": {"M": members}}}}
    json.dumps(event)  # as an event is
    assert table.unmarshal_stream_image(event["dynamodb"]["NewImage"]) == Letter("1", "secret")
    opened = StreamItems({"id": "1"}, Letter("1", "secret"), None)
    assert table.unmarshal_stream_record(event) == opened

    async def read() -> list[Any]:
        async with AsyncTable(table) as asynchronous:
            new = event["dynamodb"]["NewImage"]
            calls = [asynchronous.unmarshal_stream_record(event) for _ in range(20)]
            return [
                await asynchronous.unmarshal_stream_image(new),
                *await asyncio.gather(*calls),
            ]

    assert asyncio.run(read()) == [Letter("1", "secret"), *[opened] * 20]
    with pytest.raises(NotEncryptedError):
        table.unmarshal_stream_image({**key, "text": {"S": "plain"}})
    with pytest.raises(TamperedError):
        table.unmarshal_stream_image({"id": {"S": "2"}, "text": {"M": members}})


def test_a_model_with_encrypted_fields_needs_its_table() -> None:
    with pytest.raises(InvalidModelError, match=r"Letter\.text is encrypted: use unmarshal_stream_image of a Table"):
        unmarshal_stream_image(LETTERS, {"id": {"S": "1"}})
    with pytest.raises(InvalidModelError):
        unmarshal_stream_record(LETTERS, {"dynamodb": {"NewImage": {"id": {"S": "1"}}}})
