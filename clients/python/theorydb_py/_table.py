"""Tables: the operations on the items of a model."""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar, overload

import boto3
from botocore.config import Config

from theorydb_py._batch import Batches
from theorydb_py._classify import format_key, read_failure, write_failure
from theorydb_py._client import DynamoDB
from theorydb_py._echo import is_echo
from theorydb_py._expression import Expression
from theorydb_py._filter import Filter, filter_text
from theorydb_py._once import send_once, watch_updates
from theorydb_py._outcome import was_retried
from theorydb_py._provision import Provision
from theorydb_py._query import SortKeyCondition
from theorydb_py._reader import MAX_SEGMENTS, Plan, Query, Reader, Request
from theorydb_py._retry import Retry
from theorydb_py._seal import Encryption
from theorydb_py._structure import Field
from theorydb_py._table_name import checked_table_name
from theorydb_py._transact import (
    TransactConditionCheck,
    TransactDelete,
    TransactPut,
    TransactUpdate,
    TransactUpsert,
    TransactWriteAction,
)
from theorydb_py._transaction import Transaction, check_token
from theorydb_py._update import Update
from theorydb_py._values import Attribute
from theorydb_py._wallclock import wall_clock
from theorydb_py._write import Write, Writes
from theorydb_py.encryption import KeyProvider
from theorydb_py.errors import (
    ConditionFailedError,
    InvalidInputError,
    InvalidQueryError,
    ItemNotFoundError,
    KeyProviderError,
    TheorydbError,
    UnknownOutcomeError,
    Unprocessed,
)
from theorydb_py.model import ModelDefinition
from theorydb_py.streams import StreamImage, StreamItems, image_item, record_items

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

    If the model has encrypted fields, every write that sets one encrypts it and may
    raise KeyProviderError, in which case it was not sent. Every read decrypts: it raises
    NotEncryptedError, TamperedError, UnknownKeyError or KeyProviderError for an item that
    cannot be decrypted. An update reads its result: it raises the first three after it
    was applied, and UnknownOutcomeError instead of the last.
    """

    def __init__(
        self,
        model: ModelDefinition[T],
        *,
        client: DynamoDB | None = None,
        keys: KeyProvider | None = None,
        table_name: str | None = None,
        retry: Retry | None = None,
        new_token: Callable[[], str] = lambda: str(uuid.uuid4()),
        now: Callable[[], float] | None = None,
    ) -> None:
        """``table_name`` overrides the model's.

        ``client`` is a boto3 DynamoDB client; the default one waits 2 s for a
        connection and 5 s for a reply, and sends a request at most three times.
        ``keys`` creates and opens the data keys of encrypted fields, which require it.
        ``new_token`` returns a unique client token of at most 36 characters for a
        transaction. ``now`` returns the wall time in epoch seconds (default: time.time),
        by which tokens age, and which created_at and updated_at get.

        Raises:
            InvalidInputError: there is no name of a table, or an invalid one, or ``now``
                returns no epoch seconds.
            InvalidModelError: the model has encrypted fields, and there are no ``keys``.
            ImportError: for them, the package cryptography is missing.
        """
        name = table_name if table_name is not None else model.table_name
        if name is None:
            raise InvalidInputError(f"{model.name} has no table: pass table_name to the model or to the Table")
        self.model = model
        self.table_name = checked_table_name(name)
        self._encryption = Encryption(model, self.table_name, keys)
        self._client: DynamoDB = client if client is not None else _new_client()
        watch_updates(self._client)
        self._retry = retry or Retry()
        self._new_token = new_token
        self._now = wall_clock(now)
        self._writes = Writes(model, self._now, self._encryption)
        self._batches = Batches(self._client, self.table_name, self._retry)

    # --- Single items -------------------------------------------------------

    def get(self, pk: Any, sk: Any = None, *, consistent_read: bool = True) -> T:
        """Read an item by its key.

        Raises:
            ItemNotFoundError: there is none; see get_or_none.
            InvalidInputError: the key is invalid.
            MalformedRowError: the stored item does not fit the model.
            NotEncryptedError, TamperedError, UnknownKeyError, KeyProviderError: an
                encrypted field cannot be decrypted.
            TableNotFoundError, ThrottledError: see their docstrings.
        """
        found = self.get_or_none(pk, sk, consistent_read=consistent_read)
        if found is None:
            raise ItemNotFoundError(f"{self._what('read', self.model.key(pk, sk))}: the item does not exist")
        return found

    def get_or_none(self, pk: Any, sk: Any = None, *, consistent_read: bool = True) -> T | None:
        """Read an item by its key; None if there is none.

        Raises:
            InvalidInputError: the key is invalid.
            MalformedRowError: the stored item does not fit the model.
            NotEncryptedError, TamperedError, UnknownKeyError, KeyProviderError: an
                encrypted field cannot be decrypted.
            TableNotFoundError, ThrottledError: see their docstrings.
            botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError: other
                failures, such as a reply that did not come.
        """
        key = self.model.key(pk, sk)
        what = self._what("read", key)
        try:
            response = self._client.get_item(TableName=self.table_name, Key=key, ConsistentRead=consistent_read)
        except Exception as error:
            raise read_failure(what, error) from error
        return self.unmarshal(response["Item"]) if "Item" in response else None

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

        Raises:
            VersionConflictError: the stored item has another version.
            ConditionFailedError: the condition failed.
            UnknownOutcomeError: there was no reply; it may have been applied.
            TransactionConflictError: another transaction is changing the item.
            TableNotFoundError, ThrottledError: see their docstrings; nothing was changed.
            InvalidInputError, InvalidQueryError: an argument is invalid; nothing was sent.
            KeyProviderError: an encrypted field cannot be encrypted; nothing was sent.
        """
        condition = self._expression(condition_expression, expression_attribute_names, expression_attribute_values)
        write, stored = self._writes.put(item, condition)
        self._execute(write, self._client.put_item)
        return stored

    def create(self, item: T) -> T:
        """Put an item that must not exist yet. Returns it as put does.

        Raises:
            ConditionFailedError: it exists.
            UnknownOutcomeError: there was no reply; it may have been applied.
            TransactionConflictError: another transaction is changing the item.
            TableNotFoundError, ThrottledError: see their docstrings; nothing was changed.
            InvalidInputError, InvalidQueryError: the item is invalid; nothing was sent.
            KeyProviderError: an encrypted field cannot be encrypted; nothing was sent.
        """
        write, stored = self._writes.create(item, Expression())
        self._execute(write, self._client.put_item)
        return stored

    def update(
        self,
        pk: Any,
        sk: Any,
        updates: Mapping[str, Any] | Update,
        *,
        condition_expression: str | None = None,
        expression_attribute_names: Mapping[str, str] | None = None,
        expression_attribute_values: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
    ) -> T:
        """Update some fields of an existing item.

        ``updates`` is an Update, or a dict of field names and values; values that
        omitempty omits are removed, and UpdateAdd and UpdateSetIfNotExists modify the
        stored value. A version field is incremented, and compared if
        ``expected_version`` is given (0: the item has none). Returns the whole updated
        item.

        Adding to a number, or appending to a list, without ``expected_version`` must
        not be applied twice: it is sent once, and boto3 repeats it only after replies
        that prove that it was not applied, such as throttling.

        Raises:
            ItemNotFoundError: there is no item; see upsert.
            VersionConflictError: it does not have the expected version.
            ConditionFailedError: the condition failed.
            UnknownOutcomeError: there was no reply; it may have been applied.
            MalformedRowError: it was updated but cannot be decoded.
            NotEncryptedError, TamperedError, UnknownKeyError: it was updated, but another
                field cannot be decrypted.
            KeyProviderError: an encrypted field cannot be encrypted; nothing was sent.
            TransactionConflictError: another transaction is changing the item.
            TableNotFoundError, ThrottledError: see their docstrings; nothing was changed.
            InvalidInputError, InvalidQueryError: an argument is invalid; nothing was sent.
        """
        condition = self._expression(condition_expression, expression_attribute_names, expression_attribute_values)
        return self._update(pk, sk, updates, condition, expected_version, upsert=False)

    def upsert(
        self,
        pk: Any,
        sk: Any,
        updates: Mapping[str, Any] | Update,
        *,
        condition_expression: str | None = None,
        expression_attribute_names: Mapping[str, str] | None = None,
        expression_attribute_values: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
    ) -> T:
        """Update some fields of an item like update, or create it; required fields must be among them.

        Raises:
            VersionConflictError: the item does not have the expected version, or does not
                exist and that is above 0.
            ConditionFailedError, UnknownOutcomeError, MalformedRowError,
                NotEncryptedError, TamperedError, UnknownKeyError, KeyProviderError,
                TransactionConflictError, TableNotFoundError, ThrottledError,
                InvalidInputError, InvalidQueryError: see update.
        """
        condition = self._expression(condition_expression, expression_attribute_names, expression_attribute_values)
        return self._update(pk, sk, updates, condition, expected_version, upsert=True)

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
        """Delete an item. A missing item is no error unless a condition or a version makes it one.

        Raises:
            VersionConflictError: it does not have the expected version.
            ConditionFailedError: the condition failed.
            UnknownOutcomeError: there was no reply; it may have been applied.
            TransactionConflictError: another transaction is changing the item.
            TableNotFoundError, ThrottledError: see their docstrings; nothing was changed.
            InvalidInputError, InvalidQueryError: an argument is invalid; nothing was sent.
        """
        condition = self._expression(condition_expression, expression_attribute_names, expression_attribute_values)
        write = self._writes.delete(self.model.key(pk, sk), condition, expected_version)
        self._execute(write, self._client.delete_item)

    # --- Batches and transactions -------------------------------------------

    def query(
        self,
        partition: Any,
        *,
        sort: SortKeyCondition | None = None,
        index: str | None = None,
        filter: Filter | None = None,  # noqa: A002 TypeScript's name
        limit: int | None = None,
        scan_forward: bool = True,
        consistent_read: bool | None = None,
        filter_expression: str | None = None,
        expression_attribute_names: Mapping[str, str] | None = None,
        expression_attribute_values: Mapping[str, Any] | None = None,
    ) -> Query[T]:
        """Query a partition's items in the order of their sort keys; reversed if not ``scan_forward``.

        ``index`` is a secondary index of the model, with its own partitions and sort
        keys. A page ends at 1 MB, or after ``limit`` items, counted before filters.
        Reads are strongly consistent by default, except on global indexes, which do not
        support that.

        Raises:
            InvalidQueryError: an unknown index, an invalid limit or filter.
            InvalidInputError: an invalid value, or ``consistent_read`` on a global index.
        """
        source = self._source(index)
        pk = self.model.marshal_field(source.partition, partition)
        arguments = self._read_arguments(source, limit, consistent_read)
        arguments["ScanIndexForward"] = scan_forward
        at = {source.partition.attribute: pk}
        scope = [self.table_name, index, {k: str(v) for k, v in pk.items()}, scan_forward]
        what = f"query {self.model.name} {format_key(at)} in table {self.table_name}"

        def plan(condition: Filter | None) -> Plan:
            expression = self._expression(filter_expression, expression_attribute_names, expression_attribute_values)
            key_condition = self._key_condition(expression, source, pk, sort)
            self._filter(expression, condition)
            found = arguments | expression.arguments("FilterExpression", KeyConditionExpression=key_condition)
            request = Request(self._client.query, what, found, json.dumps(scope), source.cursor_key, at)
            return Plan(request, partial(self._project, request, expression))

        return Query(plan, filter, self.unmarshal)

    def scan(
        self,
        *,
        index: str | None = None,
        filter: Filter | None = None,  # noqa: A002 TypeScript's name
        limit: int | None = None,
        segments: int = 1,
        consistent_read: bool | None = None,
        filter_expression: str | None = None,
        expression_attribute_names: Mapping[str, str] | None = None,
        expression_attribute_values: Mapping[str, Any] | None = None,
    ) -> Query[T]:
        """Scan all items of the table, or of an index, in no particular order.

        It reads, and is charged for, every item. In up to 1,000,000 ``segments``, up to
        16 requests run at the same time, in threads that end with the iteration. For
        other options see query.

        Raises:
            InvalidQueryError: an unknown index, an invalid limit, filter or number of segments.
            InvalidInputError: an invalid value, or ``consistent_read`` on a global index.
        """
        source = self._source(index)
        if isinstance(segments, bool) or not isinstance(segments, int) or not 1 <= segments <= MAX_SEGMENTS:
            raise InvalidQueryError(f"segments: expected an int of 1 to {MAX_SEGMENTS}, found {segments!r:.60}")
        arguments = self._read_arguments(source, limit, consistent_read)
        what = f"scan {self.model.name} in table {self.table_name}"
        scope = json.dumps([self.table_name, index, "scan"])

        def plan(condition: Filter | None) -> Plan:
            expression = self._expression(filter_expression, expression_attribute_names, expression_attribute_values)
            self._filter(expression, condition)
            found = arguments | expression.arguments("FilterExpression")
            request = Request(self._client.scan, what, found, scope, source.cursor_key, {}, segments)
            return Plan(request, partial(self._project, request, expression))

        return Query(plan, filter, self.unmarshal)

    def query_count(
        self,
        partition: Any,
        *,
        sort: SortKeyCondition | None = None,
        index: str | None = None,
        filter: Filter | None = None,  # noqa: A002
        cursor: str | None = None,
        consistent_read: bool | None = None,
    ) -> int:
        """Count the items of a query: TableTheory's name of ``query(…).count(cursor)``.

        Raises:
            InvalidQueryError, InvalidInputError, TableNotFoundError, ThrottledError: see
                query and Query.count.
        """
        found = self.query(partition, sort=sort, index=index, filter=filter, consistent_read=consistent_read)
        return found.count(cursor)

    def scan_count(
        self,
        *,
        index: str | None = None,
        filter: Filter | None = None,  # noqa: A002
        cursor: str | None = None,
        segments: int = 1,
        consistent_read: bool | None = None,
    ) -> int:
        """Count the items of a scan: TableTheory's name of ``scan(…).count(cursor)``.

        Raises:
            InvalidQueryError, InvalidInputError, TableNotFoundError, ThrottledError: see
                scan and Query.count.
        """
        found = self.scan(index=index, filter=filter, segments=segments, consistent_read=consistent_read)
        return found.count(cursor)

    def batch_get(self, keys: Iterable[Any], *, consistent_read: bool = True) -> list[T | None]:
        """Read items by keys: pairs of pk and sk, or partition keys if the model has no sort key.

        Returns as many results as keys, in their order; None for a missing item. A key
        may occur more than once. Keys are split into requests of 100, each of which
        reads a snapshot of its own.

        Raises:
            ThrottledError: DynamoDB left keys unprocessed; ``unprocessed.gets`` has them.
            InvalidInputError: a key is invalid; nothing was sent.
            MalformedRowError: a stored item does not fit the model.
            NotEncryptedError, TamperedError, UnknownKeyError, KeyProviderError: an
                encrypted field cannot be decrypted.
            TableNotFoundError: see its docstring.
        """
        given = list(keys)
        encoded = [self._key_from(key) for key in given]
        pending = {_identity(key): place for place, key in zip(given, encoded, strict=True)}
        distinct = {_identity(key): key for key in encoded}
        found: dict[str, T] = {}
        try:
            for read, items in self._batches.read(list(distinct.values()), consistent=consistent_read):
                for item in items:
                    found[_identity(self.model.key_of(item))] = self.unmarshal(item)
                for key in read:
                    pending.pop(_identity(key), None)
        except TheorydbError as error:
            error.unprocessed = Unprocessed(gets=tuple(pending.values()))
            raise
        return [found.get(_identity(key)) for key in encoded]

    def batch_write(self, *, puts: Iterable[T] = (), deletes: Iterable[Any] = ()) -> None:
        """Put items, and delete items by keys like batch_get's, in requests of 25.

        Not atomic and unconditional: versions are incremented but not compared. Nothing
        is sent if an item is invalid or occurs twice.

        Raises:
            ThrottledError, UnknownOutcomeError: the batch ended early; ``unprocessed``
                has the objects and keys that are not known to be written.
            TableNotFoundError: see its docstring.
            KeyProviderError: an encrypted field cannot be encrypted; nothing was sent.
            InvalidInputError, InvalidQueryError: an argument is invalid; nothing was sent.
        """
        requests: dict[str, dict[str, Any]] = {}
        given: dict[str, tuple[str, Any]] = {}
        for item in puts:
            attributes, _ = self._writes.blind_put(item)
            key = self.model.key_of(attributes)
            given[self._add(requests, key, {"PutRequest": {"Item": attributes}})] = ("puts", item)
        for deleted in deletes:
            key = self._key_from(deleted)
            given[self._add(requests, key, {"DeleteRequest": {"Key": key}})] = ("deletes", deleted)
        try:
            for identity in self._batches.write(requests, self._identify):
                given.pop(identity, None)
        except TheorydbError as error:
            left = {kind: tuple(v for k, v in given.values() if k == kind) for kind in ("puts", "deletes")}
            error.unprocessed = Unprocessed(**left)
            raise

    def unmarshal(self, item: Mapping[str, Attribute]) -> T:
        """Decode and decrypt a stored item, such as a ConditionFailedError's item or an image of a stream.

        Raises:
            MalformedRowError: the item does not fit the model.
            NotEncryptedError, TamperedError, UnknownKeyError, KeyProviderError: an
                encrypted field cannot be decrypted.
        """
        return self.model.unmarshal(self._encryption.open_item(item))

    def unmarshal_stream_image(self, image: Mapping[str, Any]) -> T:
        """Decode an image of a DynamoDB Streams record, ``NewImage`` or ``OldImage``, and decrypt it.

        Binary values are base64, as events of AWS Lambda have them, or bytes. An empty
        attribute value is NULL.

        Raises:
            InvalidInputError: it is no image.
            MalformedRowError: it does not fit the model.
            NotEncryptedError, TamperedError, UnknownKeyError, KeyProviderError: an
                encrypted field cannot be decrypted.
        """
        return self.unmarshal(image_item(self.model, image))

    @overload
    def unmarshal_stream_record(self, record: Mapping[str, Any]) -> StreamItems[T]: ...
    @overload
    def unmarshal_stream_record(self, record: Mapping[str, Any], *, image: StreamImage) -> T | None: ...
    def unmarshal_stream_record(
        self, record: Mapping[str, Any], *, image: StreamImage | None = None
    ) -> StreamItems[T] | T | None:
        """Decode the key and both images of a record, as far as it has them, and decrypt them.

        With ``image`` it returns only that one, None if the record does not have it.

        Raises:
            InvalidInputError: it is no record, or ``image`` is neither NewImage nor OldImage.
            MalformedRowError: an image does not fit the model.
            NotEncryptedError, TamperedError, UnknownKeyError, KeyProviderError: an
                encrypted field cannot be decrypted.
        """
        return record_items(self.model, record, image, self.unmarshal_stream_image)

    # --- The table itself -----------------------------------------------------

    def create_table(self, *, timeout_seconds: float = 300) -> None:
        """Create the table with the model's keys, indexes and TTL, billed per request; wait until it is active.

        Raises:
            botocore.exceptions.ClientError: ResourceInUseException if it exists.
            ThrottledError: it is not active after ``timeout_seconds``.
        """
        self._provision().create(timeout_seconds)

    def ensure_table(self, *, timeout_seconds: float = 300) -> None:
        """Create the table unless it exists; else check its keys, and add missing global indexes and TTL.

        It never deletes or replaces anything.

        Raises:
            InvalidModelError: the table or an index has other keys, or lacks a local index.
            ThrottledError: it is not active after ``timeout_seconds``.
        """
        self._provision().ensure(timeout_seconds)

    def transact_write(
        self, actions: Sequence[TransactWriteAction[T]], *, client_request_token: str | None = None
    ) -> None:
        """Execute 1 to 100 actions on distinct items atomically.

        It is retried under its client token after conflicts and lost replies. Errors
        have ``reasons``, one for each action. ``client_request_token`` is 1 to 36
        characters: within ten minutes, DynamoDB applies a request with the same token
        and content at most once. Encrypted fields differ in each call, so that a second
        call with the token is InvalidQueryError.

        Raises:
            ItemNotFoundError: an item to update does not exist.
            VersionConflictError: an item does not have the expected version.
            ConditionFailedError: a condition failed.
            UnknownOutcomeError: there was no reply; all of it or nothing was applied.
            TransactionConflictError, ThrottledError: transient; nothing was changed.
            TableNotFoundError: nothing was changed.
            KeyProviderError: an encrypted field cannot be encrypted; nothing was sent.
            InvalidInputError, InvalidQueryError: an argument is invalid; nothing was
                changed.
        """
        self._transact([self._write_of(action) for action in actions], client_request_token)

    # --- Internals ----------------------------------------------------------

    def _transact(self, writes: list[Write], token: str | None = None) -> None:
        """Execute writes, also of other models in this table, atomically; None: under a new token."""
        checked = check_token(self._new_token() if token is None else token)
        transaction = Transaction(self.table_name, writes, checked, now=self._now)
        transaction.send(self._client, self._retry, self._writes.classify_failure)

    def _execute(self, write: Write, call: Callable[..., Any], **more: Any) -> Any:
        """Send a write of one item. For an echo, the reply contains only the item, as ``Attributes``."""
        try:
            return call(TableName=self.table_name, **write.arguments, **more, **_ON_FAILURE)
        except Exception as error:
            what = self._what(write.kind, write.key)
            failure: Exception = write_failure(what, error)
            if isinstance(failure, ConditionFailedError):
                if was_retried(error) and not write.non_idempotent:
                    # An earlier attempt of boto3 may have falsified the condition.
                    if is_echo(write, failure.item):
                        return {"Attributes": failure.item}
                    raise UnknownOutcomeError(
                        f"{failure}; but an earlier attempt of boto3 got no reply and may have been applied: "
                        "read the item"
                    ) from error
                failure = self._writes.classify_failure(failure, write)
            raise failure from error

    def _update(
        self,
        pk: Any,
        sk: Any,
        updates: Mapping[str, Any] | Update,
        condition: Expression,
        version: int | None,
        *,
        upsert: bool,
    ) -> T:
        write = self._writes.update(self.model.key(pk, sk), updates, condition, version, upsert=upsert)
        call = send_once(self._client.update_item) if write.non_idempotent else self._client.update_item
        response = self._execute(write, call, ReturnValues="ALL_NEW")
        try:
            return self.unmarshal(response["Attributes"])
        except KeyProviderError as error:
            raise UnknownOutcomeError(f"{self._what(write.kind, write.key)}: it was applied; {error}") from error

    def _write_of(self, action: TransactWriteAction[T]) -> Write:
        match action:
            case TransactPut():
                return self._writes.put(action.item, self._condition_of(action))[0]
            case TransactUpdate():
                key = self.model.key(action.pk, action.sk)
                return self._writes.update(
                    key,
                    action.updates,
                    self._condition_of(action),
                    action.expected_version,
                    upsert=isinstance(action, TransactUpsert),
                )
            case TransactDelete():
                key = self.model.key(action.pk, action.sk)
                return self._writes.delete(key, self._condition_of(action), action.expected_version)
            case TransactConditionCheck():
                return self._writes.check(self.model.key(action.pk, action.sk), self._condition_of(action))
        raise InvalidQueryError(
            f"an action of a transaction: expected a TransactPut, TransactUpdate or the like, found {action!r:.60}"
        )

    def _condition_of(self, action: Any) -> Expression:
        return self._expression(
            action.condition_expression, action.expression_attribute_names, action.expression_attribute_values
        )

    def _expression(
        self, written: str | None, names: Mapping[str, str] | None, values: Mapping[str, Any] | None
    ) -> Expression:
        return self._encryption.check(Expression(written, names, values))

    def _source(self, index: str | None) -> _Source:
        table_keys = {f.attribute for f in (self.model.pk, self.model.sk) if f is not None}
        if index is None:
            return _Source(self.model.pk, self.model.sk, frozenset(table_keys), None, can_be_consistent=True)
        found = self.model.index(index)
        keys = {f.attribute for f in (found.partition, found.sort) if f is not None}
        return _Source(found.partition, found.sort, frozenset(table_keys | keys), index, not found.is_global)

    def _read_arguments(self, source: _Source, limit: int | None, consistent_read: bool | None) -> dict[str, Any]:
        if consistent_read and not source.can_be_consistent:
            raise InvalidInputError(
                f"{self.model.name}: the global index {source.index} has no strongly consistent reads; "
                "leave out consistent_read"
            )
        consistent = source.can_be_consistent if consistent_read is None else consistent_read
        arguments: dict[str, Any] = {"TableName": self.table_name, "ConsistentRead": consistent}
        if source.index is not None:
            arguments["IndexName"] = source.index
        if limit is not None:
            arguments["Limit"] = _checked_limit(limit)
        return arguments

    def _filter(self, expression: Expression, condition: Filter | None) -> None:
        if condition is not None:
            expression.require(filter_text(self.model, expression, condition))

    def _project(self, request: Request, filters: Expression, names: tuple[str, ...]) -> Reader[dict[str, Any]]:
        expression = copy.deepcopy(filters)
        fields = list(dict.fromkeys(self.model.field(name) for name in names))
        # What is encrypted is bound to the item's key.
        keys = [self.model.pk, self.model.sk] if any(f.encrypted for f in fields) else []
        read = dict.fromkeys(f for f in [*fields, *keys] if f is not None)
        projection = ", ".join(expression.name(f.attribute) for f in read)
        arguments = {**request.arguments, "ProjectionExpression": projection, **expression.names_argument()}

        def decode(item: Mapping[str, Attribute]) -> dict[str, Any]:
            return self.model.unmarshal_part(self._encryption.open_item(item), fields)

        return Reader(replace(request, arguments=arguments), decode, request)

    def _key_condition(
        self, expression: Expression, source: _Source, pk: Attribute, sort: SortKeyCondition | None
    ) -> str:
        key_condition = f"{expression.name(source.partition.attribute)} = {expression.value(pk)}"
        if sort is None:
            return key_condition
        if source.sort is None:
            raise InvalidQueryError(f"{source.index or self.model.name} has no sort key for a condition")
        field = source.sort
        values = [expression.value(self.model.marshal_field(field, value)) for value in sort.values]
        return f"{key_condition} AND {sort.text(expression.name(field.attribute), values)}"

    def _provision(self) -> Provision:
        return Provision(self._client, self.table_name, self.model, self._retry)

    def _key_from(self, key: Any) -> dict[str, Attribute]:
        if self.model.sk is None:
            return self.model.key(key)
        if not isinstance(key, tuple) or len(key) != _PAIR:
            raise InvalidInputError(f"a key of {self.model.name}: expected a tuple of pk and sk, found {key!r:.60}")
        return self.model.key(*key)

    def _add(self, requests: dict[str, dict[str, Any]], key: Mapping[str, Attribute], request: dict[str, Any]) -> str:
        identity = _identity(key)
        if identity in requests:
            raise InvalidQueryError(f"{self._what('write', key)}: the batch contains it twice")
        requests[identity] = request
        return identity

    def _identify(self, request: Mapping[str, Any]) -> str:
        """Return the identity of the item of a request of a batch."""
        if "PutRequest" in request:
            return _identity(self.model.key_of(request["PutRequest"]["Item"]))
        return _identity(request["DeleteRequest"]["Key"])

    def _what(self, kind: str, key: Mapping[str, Attribute]) -> str:
        return f"{kind} {self.model.name} {format_key(key)} in table {self.table_name}"


@dataclass(frozen=True)
class _Source:
    """The table or an index, as reads use it."""

    partition: Field
    sort: Field | None
    cursor_key: frozenset[str]
    index: str | None
    can_be_consistent: bool


_PAIR = 2  # parts of a key


def _new_client() -> DynamoDB:
    client: DynamoDB = boto3.client("dynamodb", config=_TIME_LIMITS)
    return client


def _identity(key: Mapping[str, Attribute]) -> str:
    """Return a text that is equal for keys that DynamoDB considers equal."""
    return repr(sorted((name, sorted(value.items())) for name, value in key.items()))


def _checked_limit(limit: object) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidQueryError(f"limit: expected an int of at least 1, or None, found {limit!r:.60}")
    return limit
