"""Secondary indexes of a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Index:
    """A secondary index. Create it with gsi or lsi, and pass it to ModelDefinition.from_dataclass."""

    name: str
    partition: str
    """The field of its partition key; empty: the table's."""
    sort: str | None
    """The field of its sort key."""
    is_global: bool


def gsi(name: str, *, partition: str, sort: str | None = None) -> Index:
    """Declare a global secondary index, by the fields of its keys. It has all attributes of the items.

    Items without these attributes are not in the index: a key field that may be empty
    needs ``omitempty``. Reads are eventually consistent.
    """
    return Index(name, partition, sort, is_global=True)


def lsi(name: str, *, sort: str) -> Index:
    """Declare a local secondary index: the table's partitions, with another sort key. It has all attributes."""
    return Index(name, "", sort, is_global=False)
