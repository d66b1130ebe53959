"""Transactions on real engines."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from tests.conftest import Engine
from tests.lostreplies import Faults
from theorydb_py import (
    ConditionFailedError,
    InvalidInputError,
    InvalidQueryError,
    ModelDefinition,
    Outcome,
    Retry,
    Table,
    ThrottledError,
    TransactConditionCheck,
    TransactDelete,
    TransactionConflictError,
    TransactPut,
    TransactUpdate,
    TransactUpsert,
    UnknownOutcomeError,
    UpdateAdd,
    VersionConflictError,
    outcome_of,
    theorydb_field,
)

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


@dataclass(frozen=True)
class Account:
    pk: str = theorydb_field(roles=["pk"])
    sk: str = theorydb_field(roles=["sk"])
    balance: int = 0
    version: int = theorydb_field(roles=["version"], default=0)


ACCOUNTS = ModelDefinition.from_dataclass(Account)


@pytest.fixture
def accounts(client: DynamoDBClient, table_name: str) -> Table[Account]:
    return Table(ACCOUNTS, client=client, table_name=table_name, retry=Retry(attempts=50, timeout_seconds=60))


def at_least(amount: int) -> dict[str, Any]:
    return {"condition_expression": "balance >= :least", "expression_attribute_values": {":least": amount}}


def test_all_kinds_of_actions_together(accounts: Table[Account]) -> None:
    for name in "abc":
        accounts.put(Account(name, "x", 10))
    accounts.transact_write(
        [
            TransactPut(Account("new", "x", 1)),
            TransactUpdate("a", "x", {"balance": UpdateAdd(-5)}, **at_least(5)),
            TransactDelete("b", "x", expected_version=1),
            TransactConditionCheck("c", "x", **at_least(10)),
        ]
    )
    found = accounts.batch_get([(name, "x") for name in ("new", "a", "b", "c")], consistent_read=True)
    assert found == [Account("new", "x", 1, 1), Account("a", "x", 5, 2), None, Account("c", "x", 10, 1)]


def test_failed_condition_cancels_the_transaction(accounts: Table[Account]) -> None:
    accounts.put(Account("a", "x", 3))
    with pytest.raises(ConditionFailedError, match="action 1, update pk='a' sk='x'") as failed:
        accounts.transact_write(
            [TransactPut(Account("new", "x")), TransactUpdate("a", "x", {"balance": UpdateAdd(-5)}, **at_least(5))]
        )
    assert [r.code for r in failed.value.reasons] == ["None", "ConditionalCheckFailed"]
    assert [r.failed for r in failed.value.reasons] == [False, True]
    assert failed.value.item is not None
    assert ACCOUNTS.unmarshal(failed.value.item) == Account("a", "x", 3, 1)
    assert not isinstance(failed.value, VersionConflictError)
    assert accounts.batch_get([("new", "x")]) == [None]


def test_expected_versions_are_enforced(accounts: Table[Account]) -> None:
    first = accounts.put(Account("a", "x", 3))
    accounts.put(first)
    with pytest.raises(VersionConflictError, match="it has version 2") as conflict:
        accounts.transact_write([TransactPut(Account("new", "x")), TransactPut(replace(first, balance=9))])
    assert len(conflict.value.reasons) == 2
    with pytest.raises(VersionConflictError):
        accounts.transact_write([TransactUpdate("a", "x", {"balance": 1}, expected_version=1)])


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([], "1 to 100 actions, found 0"),
        ([TransactDelete("a", str(i)) for i in range(101)], "found 101"),
        ([TransactDelete("a", "x"), TransactPut(Account("a", "x"))], "two actions on pk='a' sk='x'"),
        (["put"], "a TransactPut, TransactUpdate or the like"),
        ([TransactUpdate("a", "x", {})], "at least one field"),
    ],
)
def test_inconsistent_transactions_are_refused(accounts: Table[Account], actions: Sequence[Any], message: str) -> None:
    with pytest.raises(InvalidQueryError, match=message):
        accounts.transact_write(actions)


def test_items_of_other_classes_are_refused(accounts: Table[Account]) -> None:
    with pytest.raises(InvalidInputError, match="expected an object of Account, found str"):
        accounts.transact_write([TransactPut("x")])  # type: ignore[arg-type]


@pytest.mark.parametrize("token", ["", "x" * 37, 5])
def test_invalid_client_tokens_are_refused(accounts: Table[Account], token: Any) -> None:
    with pytest.raises(InvalidQueryError, match="token"):
        accounts.transact_write([TransactDelete("a", "x")], client_request_token=token)


def test_client_token_applies_once(accounts: Table[Account]) -> None:
    token = uuid.uuid4().hex
    for _ in range(3):
        accounts.transact_write([TransactUpsert("a", "x", {"balance": UpdateAdd(1)})], client_request_token=token)
    assert accounts.get("a", "x", consistent_read=True).balance == 1
    with pytest.raises(InvalidQueryError, match="the client token was used with another request"):
        accounts.transact_write([TransactUpsert("a", "x", {"balance": UpdateAdd(2)})], client_request_token=token)


def test_concurrent_transfers_keep_the_total(accounts: Table[Account]) -> None:
    names = "abcd"
    for name in names:
        accounts.put(Account(name, "x", 100))

    def move(i: int) -> None:
        source, target = names[i % 4], names[(i * 7 + 1 + i // 4) % 4]
        if source != target:
            accounts.transact_write(
                [
                    TransactUpdate(source, "x", {"balance": UpdateAdd(-1)}, **at_least(1)),
                    TransactUpdate(target, "x", {"balance": UpdateAdd(1)}),
                ]
            )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(move, range(60)))
    assert sum(a.balance for a in accounts.batch_get([(n, "x") for n in names]) if a) == 400


# --- Errors -----------------------------------------------------------------


@pytest.fixture
def faulty(engine: Engine, table_name: str) -> tuple[Faults, Table[Account]]:
    client = engine.client(retries={"total_max_attempts": 1})
    return Faults(client), Table(
        ACCOUNTS, client=client, table_name=table_name, retry=Retry(first_backoff_seconds=0.001, timeout_seconds=60)
    )


def test_transaction_with_a_lost_reply_is_applied_once(faulty: tuple[Faults, Table[Account]]) -> None:
    faults, table = faulty
    faults.lose("TransactWriteItems", 3)
    table.transact_write([TransactUpsert("a", "x", {"balance": UpdateAdd(1)})])
    assert faults.sent["TransactWriteItems"] == 4
    assert table.get("a", "x", consistent_read=True).balance == 1


def test_unanswered_transaction_is_unknown(faulty: tuple[Faults, Table[Account]]) -> None:
    faults, table = faulty
    faults.drop("TransactWriteItems", 4)
    with pytest.raises(UnknownOutcomeError, match="write a transaction of 1"):
        table.transact_write([TransactUpsert("a", "x", {"balance": UpdateAdd(1)})])
    assert table.batch_get([("a", "x")]) == [None]


class Cancelling:
    """Make a client's transactions fail with cancellation reasons that the local engines never return."""

    def __init__(self, client: DynamoDBClient, codes: list[str], times: int) -> None:
        self._codes, self._left = codes, times
        client.meta.events.register("before-send.dynamodb.TransactWriteItems", self._cancel)

    def _cancel(self, **_: Any) -> None:
        if self._left:
            self._left -= 1
            reasons = [{"Code": code, "Message": "?"} for code in self._codes]
            response: Any = {
                "Error": {"Code": "TransactionCanceledException", "Message": "?"},
                "CancellationReasons": reasons,
            }
            raise ClientError(response, "TransactWriteItems")


TWO = [TransactPut(Account("a", "x")), TransactPut(Account("b", "x"))]


@pytest.mark.parametrize("code", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
def test_transient_cancellations_are_retried(engine: Engine, table_name: str, code: str) -> None:
    client = engine.client(retries={"total_max_attempts": 1})
    table = Table(
        ACCOUNTS, client=client, table_name=table_name, retry=Retry(first_backoff_seconds=0.001, timeout_seconds=60)
    )
    Cancelling(client, ["None", code], 3)
    table.transact_write(TWO)
    assert None not in table.batch_get([("a", "x"), ("b", "x")])


@pytest.mark.parametrize(
    ("codes", "error", "outcome"),
    [
        (["None", "TransactionConflict"], TransactionConflictError, Outcome.CANCELLED),
        (["ThrottlingError", "None"], ThrottledError, Outcome.CANCELLED),
        (["ConditionalCheckFailed", "TransactionConflict"], ConditionFailedError, Outcome.CONDITION_FAILED),
        (["TransactionConflict", "ValidationError"], TransactionConflictError, Outcome.CANCELLED),
        (["ItemCollectionSizeLimitExceeded"], InvalidQueryError, Outcome.REFUSED),
    ],
)
def test_cancellation_reasons_map_to_errors(
    engine: Engine, table_name: str, codes: list[str], error: type[Exception], outcome: Outcome
) -> None:
    client = engine.client(retries={"total_max_attempts": 1})
    table = Table(
        ACCOUNTS, client=client, table_name=table_name, retry=Retry(first_backoff_seconds=0.001, timeout_seconds=60)
    )
    Cancelling(client, codes, 100)
    with pytest.raises(error) as cancelled:
        table.transact_write(TWO)
    assert outcome_of(cancelled.value) is outcome
