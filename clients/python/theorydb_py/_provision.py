"""Creates tables and adapts existing ones to a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from theorydb_py._classify import read_failure
from theorydb_py._client import DynamoDB
from theorydb_py._outcome import error_code
from theorydb_py._retry import Retry
from theorydb_py._structure import Field
from theorydb_py.errors import InvalidModelError, ThrottledError
from theorydb_py.model import IndexDefinition, ModelDefinition, key_type

_POLL_SECONDS = 0.5


class Provision:
    """The table of one model."""

    def __init__(self, client: DynamoDB, table: str, model: ModelDefinition[Any], retry: Retry) -> None:
        self._client = client
        self._table = table
        self._model = model
        self._retry = retry

    def create(self, timeout_seconds: float) -> None:
        """Create the table, with its indexes and TTL, and wait until it is active."""
        keys = (self._model.pk, self._model.sk)
        request: dict[str, Any] = {
            "TableName": self._table,
            "KeySchema": _key_schema(*keys),
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": _attributes(self._model, *self._model.indexes.values()),
        }
        for member, is_global in (("GlobalSecondaryIndexes", True), ("LocalSecondaryIndexes", False)):
            indexes = [_index(i) for i in self._model.indexes.values() if i.is_global is is_global]
            if indexes:
                request[member] = indexes
        self._call("create", lambda: self._client.create_table(**request))
        self._await_active(self._retry.monotonic() + timeout_seconds)
        self._ensure_ttl()

    def ensure(self, timeout_seconds: float) -> None:
        """Create the table unless it exists; else check its keys, and add missing global indexes and TTL."""
        deadline = self._retry.monotonic() + timeout_seconds
        if self._describe() is None:
            try:
                self.create(timeout_seconds)
            except ClientError as error:
                if error_code(error) != "ResourceInUseException":  # another process was first
                    raise
            else:
                return
        table = self._await_active(deadline)
        self._check_keys("the table", table["KeySchema"], self._model.pk, self._model.sk)
        for index in self._model.indexes.values():
            self._ensure_index(index, deadline)
        self._ensure_ttl()

    def _ensure_index(self, index: IndexDefinition, deadline: float) -> None:
        table = self._await_active(deadline)
        existing = [*table.get("GlobalSecondaryIndexes", []), *table.get("LocalSecondaryIndexes", [])]
        found = next((i for i in existing if i["IndexName"] == index.name), None)
        if found is not None:
            self._check_keys(f"the index {index.name}", found["KeySchema"], index.partition, index.sort)
            return
        if not index.is_global:
            raise InvalidModelError(
                f"table {self._table} lacks the local index {index.name}, which only a new table can get"
            )
        self._call(
            f"add the index {index.name} to",
            lambda: self._client.update_table(
                TableName=self._table,
                AttributeDefinitions=_attributes(self._model, index),
                GlobalSecondaryIndexUpdates=[{"Create": _index(index)}],
            ),
        )
        self._await_active(deadline)

    def _ensure_ttl(self) -> None:
        if self._model.ttl is None:
            return
        attribute = self._model.ttl.attribute
        told = self._call("describe", lambda: self._client.describe_time_to_live(TableName=self._table))
        found = told.get("TimeToLiveDescription", {})
        if found.get("TimeToLiveStatus") in ("ENABLED", "ENABLING"):
            if found.get("AttributeName") != attribute:
                raise InvalidModelError(
                    f"table {self._table} has the ttl attribute {found.get('AttributeName')}, "
                    f"but {self._model.name} declares {attribute}"
                )
            return
        setting = {"AttributeName": attribute, "Enabled": True}
        self._call(
            "enable TTL of",
            lambda: self._client.update_time_to_live(TableName=self._table, TimeToLiveSpecification=setting),
        )

    def _describe(self) -> Any:
        try:
            return self._client.describe_table(TableName=self._table)["Table"]
        except Exception as error:
            if error_code(error) == "ResourceNotFoundException":
                return None
            raise read_failure(f"describe table {self._table}", error) from error

    def _await_active(self, deadline: float) -> Any:
        while True:
            table = self._describe()
            indexes = (table or {}).get("GlobalSecondaryIndexes", [])
            states = [(table or {}).get("TableStatus"), *(i.get("IndexStatus", "ACTIVE") for i in indexes)]
            if all(state == "ACTIVE" for state in states):
                return table
            if self._retry.monotonic() + _POLL_SECONDS >= deadline:
                raise ThrottledError(f"table {self._table} is not active yet; call it again to go on waiting")
            self._retry.sleep(_POLL_SECONDS)

    def _check_keys(self, what: str, schema: Any, partition: Field, sort: Field | None) -> None:
        expected = [key["AttributeName"] for key in _key_schema(partition, sort)]
        found = [key["AttributeName"] for key in sorted(schema, key=lambda key: str(key["KeyType"]))]
        if found != expected:
            raise InvalidModelError(
                f"{what} of {self._table} has the keys {found}, but {self._model.name} declares {expected}; "
                "use another name, or change the model"
            )

    def _call(self, what: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            raise read_failure(f"{what} table {self._table}", error) from error


def _key_schema(partition: Field, sort: Field | None) -> list[dict[str, str]]:
    schema = [{"AttributeName": partition.attribute, "KeyType": "HASH"}]
    return schema if sort is None else [*schema, {"AttributeName": sort.attribute, "KeyType": "RANGE"}]


def _index(index: IndexDefinition) -> dict[str, Any]:
    return {
        "IndexName": index.name,
        "KeySchema": _key_schema(index.partition, index.sort),
        "Projection": {"ProjectionType": "ALL"},
    }


def _attributes(model: ModelDefinition[Any], *indexes: IndexDefinition) -> list[dict[str, Any]]:
    fields = [model.pk, model.sk, *(f for index in indexes for f in (index.partition, index.sort))]
    types = {f.attribute: key_type(f) for f in fields if f is not None}
    return [{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()]
