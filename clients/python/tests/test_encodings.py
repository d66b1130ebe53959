"""spec/vectors/encodings.json: the encodings that the mappers of three languages share."""

from __future__ import annotations

import base64
import dataclasses
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from theorydb_py import ModelDefinition, TheorydbError, theorydb_field

VECTORS = json.loads(
    (Path(__file__).parents[3] / "spec/vectors/encodings.json").read_text(), parse_int=int, parse_float=Decimal
)

TYPES: dict[str, Any] = {
    "S": str,
    "N": Decimal,
    "B": bytes,
    "BOOL": bool,
    "NULL": str | None,
    "L": list,
    "M": dict,
    "SS": set[str],
    "NS": set[Decimal],
    "BS": set[bytes],
}


def model(kind: Any, *, role: str = "", omitempty: bool = False) -> ModelDefinition[Any]:
    declared = theorydb_field(roles=[role] if role else [], omitempty=omitempty)
    fields = [
        ("pk", str, theorydb_field(roles=["pk"])),
        ("sk", str, theorydb_field(roles=["sk"])),
        ("value", kind, declared),
    ]
    return ModelDefinition.from_dataclass(dataclasses.make_dataclass("Vector", fields))


def marshal(definition: ModelDefinition[Any], value: Any) -> Any:
    return definition.marshal(definition.model_class("p", "s", value)).get("value")


def wire(attribute: Any) -> Any:
    """Return an attribute of a vector as botocore represents it: with bytes, and unordered sets."""
    ((kind, value),) = attribute.items()
    match kind:
        case "B":
            return {kind: base64.b64decode(value)}
        case "BS":
            return {kind: sorted(map(base64.b64decode, value))}
        case "SS":
            return {kind: sorted(value)}
        case "NS":
            return {kind: sorted(map(Decimal, value))}
        case "N":
            return {kind: Decimal(value)}
        case "L":
            return {kind: [wire(element) for element in value]}
        case "M":
            return {kind: {name: wire(member) for name, member in value.items()}}
    return attribute


def comparable(attribute: Any) -> Any:
    """Return an attribute of ours in the vectors' wire format."""
    ((kind, value),) = attribute.items()
    match kind:
        case "NS":
            return {kind: sorted(map(Decimal, value))}
        case "N":
            return {kind: Decimal(value)}
        case "L":
            return {kind: [comparable(element) for element in value]}
        case "M":
            return {kind: {name: comparable(member) for name, member in value.items()}}
    return attribute


def plain(attribute: Any) -> Any:
    """Return the Python value that a vector describes."""
    ((kind, value),) = attribute.items()
    match kind:
        case "N":
            return Decimal(value)
        case "B":
            return base64.b64decode(value)
        case "NULL":
            return None
        case "L":
            return [plain(element) for element in value]
        case "M":
            return {name: plain(member) for name, member in value.items()}
        case "SS":
            return set(value)
        case "NS":
            return {Decimal(member) for member in value}
        case "BS":
            return {base64.b64decode(member) for member in value}
    return value


def named(vectors: list[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", [pytest.param(v, id=v["name"]) for v in vectors])


@named(VECTORS["values"])
def test_values(vector: Any) -> None:
    definition = model(TYPES[vector["type"]], omitempty=vector.get("omitempty", False))
    value = plain(vector["value"])
    stored = marshal(definition, value)
    if "attribute" not in vector:
        assert stored is None
    else:
        assert comparable(stored) == wire(vector["attribute"])
    item = {"pk": {"S": "p"}, "sk": {"S": "s"}, **({} if stored is None else {"value": stored})}
    assert definition.unmarshal(item).value == value


@named([v for v in VECTORS["values"] if v["type"] == "N" and "attribute" in v])
def test_numbers_as_python_types(vector: Any) -> None:
    number = Decimal(vector["value"]["N"])
    for kind in [float, int] if number == int(number) else [float]:
        definition = model(kind)
        stored = marshal(definition, kind(number))
        assert comparable(stored) == wire(vector["attribute"])
        assert definition.unmarshal({"pk": {"S": "p"}, "sk": {"S": "s"}, "value": stored}).value == kind(number)


@named(VECTORS["times"])
def test_times(vector: Any) -> None:
    assert marshal(model(datetime), datetime.fromisoformat(vector["value"])) == vector["attribute"]


@named(VECTORS["ttls"])
def test_ttls(vector: Any) -> None:
    moment = datetime.fromtimestamp(vector["now_ms"] // 1000, UTC).replace(microsecond=vector["now_ms"] % 1000 * 1000)
    assert marshal(model(datetime, role="ttl"), moment) == vector["attribute"]
    assert marshal(model(int, role="ttl"), vector["now_ms"] // 1000) == vector["attribute"]


@named(VECTORS["refused"])
def test_refused(vector: Any) -> None:
    definition = model(TYPES[vector["type"]])
    with pytest.raises(TheorydbError) as refused:
        marshal(definition, plain(vector["value"]))
    assert refused.value.code == vector["error"]
