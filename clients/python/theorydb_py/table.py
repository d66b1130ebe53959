"""Tables: the operations on the items of a model."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, Unpack

import boto3
from botocore.config import Config

from theorydb_py.actions import (
    TransactConditionCheck,
    TransactDelete,
    TransactPut,
    TransactUpdate,
    TransactWriteAction,
)
from theorydb_py.batch import Batches
from theorydb_py.botoerrors import format_key, read_failure, write_failure
from theorydb_py.client import DynamoDB
from theorydb_py.echo import is_echo
from theorydb_py.errors import (
    ConditionFailedError,
    InvalidInputError,
    InvalidQueryError,
    ItemNotFoundError,
    UnknownOutcomeError,
)
from theorydb_py.expression import Expression
from theorydb_py.model import ModelDefinition
from theorydb_py.outcome import was_retried
from theorydb_py.query import Page, QueryOptions, SortKeyCondition, decode_cursor, encode_cursor
from theorydb_py.retry import Retry
from theorydb_py.table_name import checked_table_name
from theorydb_py.transaction import Transaction, check_token
from theorydb_py.values import Attribute
from theorydb_py.writes import Write, Writes

T = TypeVar("T")

_TIME_LIMITS = Config(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3})

_ON_FAILURE = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


class Table(Generic[T]):
    """The items of one model in one table. Safe for concurrent use.

    Conditions are DynamoDB expressions whose values are plain Python values. If a
    condition fails, nothing was changed, and ConditionFailedError is raised, or
    VersionConflictError if the version differs. A write without a reply raises
    UnknownOutcomeError. boto3 retries by itself: if a condition fails on a retry, the
    stored item is compared with what was sent; if they are equal the write has
    succeeded, otherwise its outcome is unknown.
    """

    def __init__(
        self,
        model: ModelDefinition[T],
        *,
        client: DynamoDB | None = None,
        table_name: str | None = None,
        retry: Retry | None = None,
        new_token: Callable[[], str] = lambda: str(uuid.uuid4()),
        now: Callable[[], float] = time.time,
    ) -> None:
        """``table_name`` overrides that of the model.

        ``client`` is a boto3 DynamoDB client; the default one waits 2 s for a
        connection and 5 s for a reply, and sends a request at most three times.
        ``new_token`` returns a unique client token of at most 36 characters for a
        transaction. ``now`` returns the wall time in epoch seconds, by which tokens
        age.
        """
        name = table_name if table_name is not None else model.table_name
        if name is None:
            raise InvalidInputError(f"{model.name} has no table: pass table_name to the model or to the Table")
        self.model = model
        self.table_name = checked_table_name(name)
        self._client: DynamoDB = client if client is not None else _new_client()
        self._retry = retry or Retry()
        self._new_token = new_token
        self._now = now
        self._writes = Writes(model)
        self._batches = Batches(self._client, self.table_name, self._retry)

    # --- Single items -------------------------------------------------------

    def get(self, pk: Any, sk: Any = None, *, consistent_read: bool = False) -> T:
        """Read an item by its key. Raises ItemNotFoundError."""
        key = self.model.key(pk, sk)
        what = self._what("read", key)
        try:
            response = self._client.get_item(TableName=self.table_name, Key=key, ConsistentRead=consistent_read)
        except Exception as error:
            raise read_failure(what, error) from error
        if "Item" not in response:
            raise ItemNotFoundError(f"{what}: the item does not exist")
        return self.model.unmarshal(response["Item"])

    def put(
        self,
        item: T,
        *,
        condition_expression: str | None = None,
        expression_attribute_names: Mapping[str, str] | None = None,
        expression_attribute_values: Mapping[str, Any] | None = None,
    ) -> T:
        """Put a whole item; attributes that are not in the model are removed.

        Returns the object as it is stored. With a version field, the stored item must
        have the object's version, and gets the next one.
        """
        condition = Expression(condition_expression, expression_attribute_names, expression_attribute_values)
        write, stored = self._writes.put(item, condition)
        self._execute(write, self._client.put_item)
        return stored

    def create(self, item: T) -> T:
        """Put an item that must not exist yet (ConditionFailedError). Returns it as put does."""
        write, stored = self._writes.create(item, Expression())
        self._execute(write, self._client.put_item)
        return stored

    def update(
        self,
        pk: Any,
        sk: Any,
        updates: Mapping[str, Any],
        *,
        condition_expression: str | None = None,
        expression_attribute_names: Mapping[str, str] | None = None,
        expression_attribute_values: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
    ) -> T:
        """Update some fields of an item; without a condition it is created if it does not exist.

        ``updates`` maps field names to values; values that omitempty omits are removed,
        and UpdateAdd and UpdateSetIfNotExists modify the stored value. A version field
        is incremented, and compared if ``expected_version`` is given (0: the item has
        none). Returns the whole updated item. A MalformedRowError means that the item
        was updated but cannot be decoded.

        An UpdateAdd of a number without ``expected_version`` would count twice if boto3
        retried it after a lost reply. It is sent as a transaction with a client token,
        at twice the write units, and the item is then read strongly consistently: it
        may include later writes of others.
        """
        condition = Expression(condition_expression, expression_attribute_names, expression_attribute_values)
        write = self._writes.update(self.model.key(pk, sk), updates, condition, expected_version)
        if write.non_idempotent:
            return self._update_once(write)
        response = self._execute(write, self._client.update_item, ReturnValues="ALL_NEW")
        return self.model.unmarshal(response["Attributes"])

    def delete(
        self,
        pk: Any,
        sk: Any = None,
        *,
        condition_expression: str | None = None,
        expression_attribute_names: Mapping[str, str] | None = None,
        expression_attribute_values: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
    ) -> None:
        """Delete an item. A missing item is no error unless a condition or a version makes it one."""
        condition = Expression(condition_expression, expression_attribute_names, expression_attribute_values)
        write = self._writes.delete(self.model.key(pk, sk), condition, expected_version)
        self._execute(write, self._client.delete_item)

    # --- Batches and transactions -------------------------------------------

    def query(
        self,
        partition: Any,
        *,
        sort: SortKeyCondition | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        scan_forward: bool = True,
        consistent_read: bool = False,
        filter_expression: str | None = None,
        expression_attribute_names: Mapping[str, str] | None = None,
        expression_attribute_values: Mapping[str, Any] | None = None,
    ) -> Page[T]:
        """Read a page of a partition's items, in the order of their sort keys; reversed if not ``scan_forward``.

        A page ends at 1 MB, or after ``limit`` items, counted before the filter.
        """
        expression = Expression(filter_expression, expression_attribute_names, expression_attribute_values)
        pk = self.model.marshal_field(self.model.pk, partition)
        scope = json.dumps([self.table_name, {k: str(v) for k, v in pk.items()}, scan_forward])
        request: dict[str, Any] = {"ScanIndexForward": scan_forward, "ConsistentRead": consistent_read}
        if limit is not None:
            request["Limit"] = _checked_limit(limit)
        if cursor is not None:
            request["ExclusiveStartKey"] = self._start_key(pk, decode_cursor(scope, cursor))
        key_condition = self._key_condition(expression, pk, sort)
        request |= expression.arguments("FilterExpression", KeyConditionExpression=key_condition)
        what = f"query {self.model.name} {format_key({self.model.pk.attribute: pk})} in table {self.table_name}"
        try:
            response = self._client.query(TableName=self.table_name, **request)
        except Exception as error:
            raise read_failure(what, error) from error
        items = [self.model.unmarshal(item) for item in response["Items"]]
        return Page(items, self._cursor_of(scope, response.get("LastEvaluatedKey")))

    def query_iter(self, partition: Any, **options: Unpack[QueryOptions]) -> Iterator[Page[T]]:
        """Iterate over the pages of a query, each read on demand. Takes the options of query."""
        cursor: str | None = None
        while True:
            page = self.query(partition, cursor=cursor, **options)
            yield page
            cursor = page.next_cursor
            if cursor is None:
                return

    def query_all(self, partition: Any, **options: Unpack[QueryOptions]) -> list[T]:
        """Read all pages into memory. Takes the options of query."""
        return [item for page in self.query_iter(partition, **options) for item in page.items]

    def batch_get(self, keys: Iterable[Any], *, consistent_read: bool = False) -> list[T]:
        """Read items by keys: pairs of pk and sk, or partition keys if the model has no sort key.

        Returns them in the order of the keys; missing items are skipped, and duplicate
        keys are read once. Keys are split into requests of 100, each of which reads a
        snapshot of its own.
        """
        requested = {_identity(key): key for key in map(self._key_from, keys)}
        found: dict[str, T] = {}
        for item in self._batches.read(list(requested.values()), consistent=consistent_read):
            found[_identity(self.model.key_of(item))] = self.model.unmarshal(item)
        return [found[identity] for identity in requested if identity in found]

    def batch_write(self, *, puts: Iterable[T] = (), deletes: Iterable[Any] = ()) -> None:
        """Put items and delete items by keys as in batch_get, in requests of 25.

        Not atomic and unconditional: versions are incremented but not compared. Nothing
        is sent if an item is invalid or occurs twice. After an error some items are
        written; the batch may be repeated.
        """
        requests: dict[str, dict[str, Any]] = {}
        for item in puts:
            attributes, _ = self._writes.blind_put(item)
            self._add(requests, self.model.key_of(attributes), {"PutRequest": {"Item": attributes}})
        for key in map(self._key_from, deletes):
            self._add(requests, key, {"DeleteRequest": {"Key": key}})
        self._batches.write(list(requests.values()))

    def transact_write(
        self, actions: Sequence[TransactWriteAction[T]], *, client_request_token: str | None = None
    ) -> None:
        """Execute 1 to 100 actions on distinct items atomically.

        It is retried under its client token after conflicts and lost replies. Errors
        have ``reasons``, one for each action. ``client_request_token`` is 1 to 36
        characters: within ten minutes, DynamoDB applies a request with the same token
        and content at most once.
        """
        token = self._new_token() if client_request_token is None else client_request_token
        writes = [self._write_of(action) for action in actions]
        transaction = Transaction(self.table_name, writes, check_token(token), now=self._now)
        transaction.send(self._client, self._retry, self._writes.classify_failure)

    # --- Internals ----------------------------------------------------------

    def _execute(self, write: Write, call: Callable[..., Any], **more: Any) -> Any:
        """Send a write of one item. For an echo, the reply contains only the item, as ``Attributes``."""
        try:
            return call(TableName=self.table_name, **write.arguments, **more, **_ON_FAILURE)
        except Exception as error:
            what = self._what(write.kind, write.key)
            failure = write_failure(what, error)
            if isinstance(failure, ConditionFailedError):
                if was_retried(error):
                    # An earlier attempt of boto3 may have falsified the condition.
                    if is_echo(write, failure.item):
                        return {"Attributes": failure.item}
                    raise UnknownOutcomeError(
                        f"{failure}; but an earlier attempt of boto3 got no reply and may have been applied: "
                        "read the item"
                    ) from error
                failure = self._writes.classify_failure(failure, write)
            raise failure from error

    def _update_once(self, write: Write) -> T:
        what = self._what(write.kind, write.key)
        transaction = Transaction(self.table_name, [write], check_token(self._new_token()), what=what, now=self._now)
        transaction.send(self._client, self._retry, self._writes.classify_failure)
        try:
            response = self._retry.bounded(
                lambda: self._client.get_item(TableName=self.table_name, Key=write.key, ConsistentRead=True)
            )
        except Exception as error:
            raise UnknownOutcomeError(f"{what}: it was applied, but the item could not be read: {error}") from error
        if "Item" not in response:
            raise UnknownOutcomeError(f"{what}: it was applied, but another writer has deleted the item since")
        return self.model.unmarshal(response["Item"])

    def _write_of(self, action: TransactWriteAction[T]) -> Write:
        match action:
            case TransactPut():
                return self._writes.put(action.item, _condition_of(action))[0]
            case TransactUpdate():
                key = self.model.key(action.pk, action.sk)
                return self._writes.update(key, action.updates, _condition_of(action), action.expected_version)
            case TransactDelete():
                key = self.model.key(action.pk, action.sk)
                return self._writes.delete(key, _condition_of(action), action.expected_version)
            case TransactConditionCheck():
                return self._writes.check(self.model.key(action.pk, action.sk), _condition_of(action))
        raise InvalidQueryError(
            f"an action of a transaction: expected a TransactPut, TransactUpdate or the like, found {action!r:.60}"
        )

    def _key_condition(self, expression: Expression, pk: Attribute, sort: SortKeyCondition | None) -> str:
        key_condition = f"{expression.name(self.model.pk.attribute)} = {expression.value(pk)}"
        if sort is None:
            return key_condition
        if self.model.sk is None:
            raise InvalidQueryError(f"{self.model.name} has no sort key for a condition")
        field = self.model.sk
        values = [expression.value(self.model.marshal_field(field, value)) for value in sort.values]
        return f"{key_condition} AND {sort.text(expression.name(field.attribute), values)}"

    def _start_key(self, pk: Attribute, sk: Attribute | None) -> dict[str, Attribute]:
        start = {self.model.pk.attribute: pk}
        if self.model.sk is not None and sk is not None:
            start[self.model.sk.attribute] = sk
        return start

    def _cursor_of(self, scope: str, last: Mapping[str, Attribute] | None) -> str | None:
        if not last:
            return None
        return encode_cursor(scope, last[self.model.sk.attribute] if self.model.sk is not None else None)

    def _key_from(self, key: Any) -> dict[str, Attribute]:
        if self.model.sk is None:
            return self.model.key(key)
        if not isinstance(key, tuple) or len(key) != _PAIR:
            raise InvalidInputError(f"a key of {self.model.name}: expected a tuple of pk and sk, found {key!r:.60}")
        return self.model.key(*key)

    def _add(self, requests: dict[str, dict[str, Any]], key: Mapping[str, Attribute], request: dict[str, Any]) -> None:
        identity = _identity(key)
        if identity in requests:
            raise InvalidQueryError(f"{self._what('write', key)}: the batch contains it twice")
        requests[identity] = request

    def _what(self, kind: str, key: Mapping[str, Attribute]) -> str:
        return f"{kind} {self.model.name} {format_key(key)} in table {self.table_name}"


_PAIR = 2  # parts of a key


def _new_client() -> DynamoDB:
    client: DynamoDB = boto3.client("dynamodb", config=_TIME_LIMITS)
    return client


def _condition_of(action: Any) -> Expression:
    return Expression(
        action.condition_expression, action.expression_attribute_names, action.expression_attribute_values
    )


def _identity(key: Mapping[str, Attribute]) -> str:
    """Return a text that is equal for keys that DynamoDB considers equal."""
    return repr(sorted((name, sorted(value.items())) for name, value in key.items()))


def _checked_limit(limit: object) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidQueryError(f"limit: expected an int of at least 1, or None, found {limit!r:.60}")
    return limit
