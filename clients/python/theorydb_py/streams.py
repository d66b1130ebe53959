"""Images of DynamoDB Streams: items as an event of AWS Lambda, or a GetRecords request, has them.

    def handler(event, context):
        for record in event["Records"]:
            items = songs.unmarshal_stream_record(record)  # songs: a Table, which decrypts
            print(record["eventName"], items.keys, items.old_image, items.new_image)

The functions here do the same without a Table, for models without encrypted fields.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_args, overload

from theorydb_py._values import Attribute
from theorydb_py.errors import InvalidInputError, InvalidModelError
from theorydb_py.model import ModelDefinition

__all__ = ["StreamImage", "StreamItems", "unmarshal_stream_image", "unmarshal_stream_record"]

T = TypeVar("T")

StreamImage = Literal["NewImage", "OldImage"]
"""An image of a record: the item after the change, or before it."""


@dataclass(frozen=True)
class StreamItems(Generic[T]):
    """The key and the items of a record, as far as the view of the stream has them."""

    keys: dict[str, Any] | None
    """The key by fields; None if the record does not have it."""
    new_image: T | None
    """The item after the change; None if it was deleted."""
    old_image: T | None
    """The item before the change; None if it was created."""


def unmarshal_stream_image(model: ModelDefinition[T], image: Mapping[str, Any]) -> T:
    """Decode an image, as Table.unmarshal decodes a stored item.

    Binary values are base64, as events of AWS Lambda have them, or bytes. An empty attribute
    value is NULL.

    Raises:
        MalformedRowError: it does not fit the model.
        InvalidInputError: it is no image.
        InvalidModelError: the model has encrypted fields: use Table.unmarshal_stream_image.
    """
    return model.unmarshal(_plain(model, image))


@overload
def unmarshal_stream_record(model: ModelDefinition[T], record: Mapping[str, Any]) -> StreamItems[T]: ...
@overload
def unmarshal_stream_record(
    model: ModelDefinition[T], record: Mapping[str, Any], *, image: StreamImage
) -> T | None: ...
def unmarshal_stream_record(
    model: ModelDefinition[T], record: Mapping[str, Any], *, image: StreamImage | None = None
) -> StreamItems[T] | T | None:
    """Decode the key and both images of a record; with ``image`` only that one, None if the record does not have it.

    Raises:
        MalformedRowError: an image does not fit the model.
        InvalidInputError: it is no record, or ``image`` is neither NewImage nor OldImage.
        InvalidModelError: the model has encrypted fields: use Table.unmarshal_stream_record.
    """
    return record_items(model, record, image, lambda found: model.unmarshal(_plain(model, found)))


def record_items(
    model: ModelDefinition[T], record: object, image: StreamImage | None, decode: Callable[[Mapping[str, Any]], T]
) -> StreamItems[T] | T | None:
    """Decode a record with a function that decodes an image. For errors see unmarshal_stream_record."""
    change = record.get("dynamodb") if isinstance(record, Mapping) else None
    if not isinstance(change, Mapping):
        raise InvalidInputError(
            "a record of a stream has a member dynamodb: pass each of the Records of an event, "
            f"found {type(record).__name__}"
        )
    if image is not None and image not in get_args(StreamImage):
        raise InvalidInputError(f"image is {image!r:.60}: expected one of {', '.join(get_args(StreamImage))}")
    names = get_args(StreamImage) if image is None else (image,)
    images = [decode(change[name]) if change.get(name) is not None else None for name in names]
    if image is not None:
        return images[0]
    return StreamItems(_keys_of(model, change.get("Keys")), images[0], images[1])


def image_item(model: ModelDefinition[Any], image: object) -> dict[str, Attribute]:
    """Return an image as boto3 has items. Raises InvalidInputError if it is none."""
    return _members(image, f"an image of {model.name}", 1)


def _plain(model: ModelDefinition[Any], image: Mapping[str, Any]) -> dict[str, Attribute]:
    secret = next((field for field in model.structure.fields if field.encrypted), None)
    if secret is not None:
        raise InvalidModelError(
            f"{model.name}.{secret.name} is encrypted: use unmarshal_stream_image of a Table, which has the keys"
        )
    return image_item(model, image)


def _keys_of(model: ModelDefinition[Any], keys: object) -> dict[str, Any] | None:
    if keys is None:
        return None
    fields = [field for field in (model.pk, model.sk) if field is not None]
    return model.unmarshal_fields(image_item(model, keys), fields)


_MAX_DEPTH = 64
"""The deepest nesting that is followed. DynamoDB stores 32 levels."""


def _members(members: object, path: str, depth: int) -> dict[str, Attribute]:
    if not isinstance(members, Mapping) or depth > _MAX_DEPTH:
        raise InvalidInputError(f"{path}: expected attribute values by name, found {_short(members)}")
    return {str(name): _value(value, f"{path}: {name!s:.60}", depth) for name, value in members.items()}


def _value(value: object, path: str, depth: int) -> Attribute:
    if value is None or value == {}:
        return {"NULL": True}  # as the zero value of an event's attribute in Go
    if isinstance(value, Mapping) and len(value) == 1:
        ((kind, member),) = value.items()
        if kind == "M":
            return {"M": _members(member, path, depth + 1)}
        if kind == "L" and isinstance(member, list) and depth < _MAX_DEPTH:
            return {"L": [_value(element, f"{path}[{i}]", depth + 1) for i, element in enumerate(member)]}
        read = _SCALARS.get(kind) if isinstance(kind, str) else None
        found = None if read is None else read(member)
        if found is not None:
            return {kind: found}
    raise InvalidInputError(
        f'{path}: expected an attribute value such as {{"S": "text"}}, found {_short(value)}; '
        "pass the image as the record has it"
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _bytes(value: object) -> bytes | None:
    if not isinstance(value, str):
        return value if isinstance(value, bytes) else None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None


def _all(read: Callable[[object], Any]) -> Callable[[object], list[Any] | None]:
    def members(value: object) -> list[Any] | None:
        found = [read(member) for member in value] if isinstance(value, list) else [None]
        return None if None in found else found

    return members


_SCALARS: Mapping[str, Callable[[object], Any]] = {
    "S": _text,
    "N": _text,
    "B": _bytes,
    "BOOL": lambda value: value if isinstance(value, bool) else None,
    "NULL": lambda value: True if value is True else None,
    "SS": _all(_text),
    "NS": _all(_text),
    "BS": _all(_bytes),
}
"""Read a value of a type; None if it is another one."""


def _short(value: object) -> str:
    return type(value).__name__ if isinstance(value, Mapping | list | tuple) else f"{value!r:.60}"
