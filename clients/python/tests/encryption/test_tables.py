"""Encrypted fields in tables."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import Engine
from tests.encryption.providers import Counting, messages
from tests.lostreplies import Faults
from theorydb_py import (
    ConditionFailedError,
    InvalidInputError,
    InvalidModelError,
    InvalidQueryError,
    MalformedRowError,
    ModelDefinition,
    Outcome,
    Table,
    TransactConditionCheck,
    TransactPut,
    TransactUpdate,
    TransactUpsert,
    UnknownOutcomeError,
    Update,
    gsi,
    outcome_of,
    theorydb_field,
    where,
)
from theorydb_py.aio import AsyncTable
from theorydb_py.encryption import DataKey, KeyFile
from theorydb_py.errors import KeyProviderError, NotEncryptedError, TamperedError, UnknownKeyError

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


@dataclass
class Finding:
    kind: str
    value: Decimal


@dataclass
class Patient:
    clinic: str = theorydb_field(roles=["pk"])
    number: int = theorydb_field(roles=["sk"])
    ward: str = ""
    name: str = theorydb_field(name="full_name", encrypted=True, default="")
    findings: list[Finding] = theorydb_field(encrypted=True, omitempty=True, default_factory=list)
    drugs: set[str] = theorydb_field(encrypted=True, default_factory=set)
    allergy: str | None = theorydb_field(encrypted=True, default=None)
    visits: int = 0
    version: int = theorydb_field(roles=["version"], default=0)


PATIENTS = ModelDefinition.from_dataclass(Patient, indexes=[gsi("by-ward", partition="ward", sort="number")])
SECRETS = ("full_name", "findings", "drugs", "allergy")


def ada(number: int = 7) -> Patient:
    return Patient("north", number, "B", "Ada Lovelace", [Finding("blood", Decimal("0.5"))], {"tea", "rest"})


@dataclass
class Clinic:
    """A table of patients, and its keys."""

    table: Table[Patient]
    keys: Counting
    client: DynamoDBClient

    def stored(self, number: int = 7) -> dict[str, Any]:
        key: Any = {"clinic": {"S": "north"}, "number": {"N": str(number)}}
        found = self.client.get_item(TableName=self.table.table_name, Key=key, ConsistentRead=True)
        return dict(found["Item"])

    def replace(self, item: Mapping[str, Any]) -> None:
        self.client.put_item(TableName=self.table.table_name, Item=dict(item))


@pytest.fixture
def clinic(client: DynamoDBClient, tmp_path: Path) -> Iterator[Clinic]:
    keys = Counting(tmp_path / "keys")
    table = Table(PATIENTS, client=client, keys=keys, table_name=f"python-patients-{uuid.uuid4().hex}")
    table.create_table()
    yield Clinic(table, keys, client)
    client.delete_table(TableName=table.table_name)


def is_encrypted(attribute: Mapping[str, Any]) -> bool:
    return set(attribute.get("M", {})) == {"v", "edk", "nonce", "ct"}


def changes_to(patient: Patient) -> dict[str, Any]:
    return {name: getattr(patient, name) for name in ("ward", "name", "findings", "drugs", "allergy", "visits")}


WRITES: dict[str, Callable[[Table[Patient]], object]] = {
    "put": lambda table: table.put(ada()),
    "create": lambda table: table.create(ada()),
    "upsert": lambda table: table.upsert("north", 7, changes_to(ada())),
    "batch": lambda table: table.batch_write(puts=[ada()]),
    "transacted put": lambda table: table.transact_write([TransactPut(ada())]),
    "transacted upsert": lambda table: table.transact_write([TransactUpsert("north", 7, changes_to(ada()))]),
}


@pytest.mark.parametrize("write", WRITES)
def test_every_write_encrypts(clinic: Clinic, write: str) -> None:
    result = WRITES[write](clinic.table)
    assert (clinic.keys.created, clinic.keys.opened) == (1, 1 if write == "upsert" else 0)
    assert result in (None, replace(ada(), version=1))
    stored = clinic.stored()
    assert all(is_encrypted(stored[name]) for name in SECRETS)
    assert (stored["ward"], stored["visits"]) == ({"S": "B"}, {"N": "0"})
    assert clinic.table.get("north", 7) == replace(ada(), version=1)


@pytest.mark.parametrize("transacted", [False, True])
def test_updates_encrypt(clinic: Clinic, transacted: bool) -> None:
    clinic.table.create(ada())
    before = clinic.stored()
    clinic.keys.rotate()
    update = Update().set("name", "Ada King").add("visits", 1).remove("drugs")
    if transacted:
        clinic.table.transact_write([TransactUpdate("north", 7, update, expected_version=1)])
        clinic.table.transact_write([TransactConditionCheck("north", 7, "attribute_exists(full_name)")])
    else:
        changed = clinic.table.update("north", 7, update, expected_version=1)
        assert changed == replace(ada(), name="Ada King", visits=1, drugs=set(), version=2)
    stored = clinic.stored()
    assert is_encrypted(stored["full_name"])
    assert stored["full_name"] != before["full_name"]
    assert (stored["findings"], "drugs" in stored) == (before["findings"], False)
    assert clinic.table.get("north", 7).name == "Ada King"


RAW: dict[str, Any] = {
    "filter_expression": "NOT (attribute_not_exists ( #n ) AND visits < ward) AND attribute_exists(drugs)",
    "expression_attribute_names": {"#n": "full_name"},
}
READS: dict[str, Callable[[Table[Patient]], list[Patient | None]]] = {
    "get": lambda table: [table.get("north", 7)],
    "query": lambda table: [*table.query("north", filter=where("name", "exists") & where("visits", "=", 0))],
    "index": lambda table: [*table.query("B", index="by-ward")],
    "page": lambda table: [*table.query("north", limit=1).page().items],
    "scan": lambda table: [*table.scan()],
    "segments": lambda table: [*table.scan(segments=3)],
    "raw filter": lambda table: [*table.scan(**RAW)],
    "batch": lambda table: table.batch_get([("north", 7)]),
}


@pytest.mark.parametrize("read", READS)
def test_every_read_decrypts(clinic: Clinic, read: str) -> None:
    clinic.table.put(ada())
    assert READS[read](clinic.table) == [replace(ada(), version=1)]
    assert (clinic.keys.created, clinic.keys.opened) == (1, 1)


def test_asyncio(clinic: Clinic) -> None:
    async def asynchronously() -> None:
        async with AsyncTable(clinic.table) as patients:
            want = await patients.create(ada())
            assert await patients.get("north", 7) == want
            assert [found async for found in patients.query("north")] == [want]
            assert (await patients.update("north", 7, {"name": "Ada King"})).name == "Ada King"
            assert (await patients.unmarshal(clinic.stored())).name == "Ada King"

    asyncio.run(asynchronously())
    assert is_encrypted(clinic.stored()["full_name"])


def test_projections(clinic: Clinic) -> None:
    clinic.table.put(ada())
    scan = clinic.table.scan()
    assert scan.select("name", "number").all() == [{"name": "Ada Lovelace", "number": 7}]
    assert clinic.table.query("B", index="by-ward").select("drugs").all() == [{"drugs": {"tea", "rest"}}]
    clinic.keys.opened = 0
    assert scan.select("ward").all() == [{"ward": "B"}]
    assert clinic.keys.opened == 0


def test_items_without_secrets_need_no_data_key(clinic: Clinic) -> None:
    clinic.replace({"clinic": {"S": "north"}, "number": {"N": "7"}})
    assert clinic.table.get("north", 7) == Patient("north", 7)
    clinic.table.update("north", 7, {"ward": "C"})
    clinic.table.delete("north", 7, condition_expression="attribute_not_exists(full_name)")
    assert (clinic.keys.created, clinic.keys.opened) == (0, 0)


REFUSED: dict[str, Callable[[Table[Patient]], object]] = {
    "filter": lambda table: table.scan(filter=where("name", "=", "Ada")),
    "filter in a group": lambda table: table.query(
        "north", filter=~(where("ward", "exists") | where("drugs", "contains", "tea"))
    ),
    "if_not_exists": lambda table: table.update("north", 7, Update().if_not_exists("name", "Ada")),
    "append": lambda table: table.upsert("north", 7, Update().append("findings", [])),
    "add": lambda table: table.update("north", 7, Update().add("drugs", {"tea"})),
    "delete": lambda table: table.update("north", 7, Update().delete("drugs", {"tea"})),
    "transacted add": lambda table: table.transact_write([TransactUpdate("north", 7, Update().add("drugs", {"x"}))]),
    "raw filter": lambda table: table.scan(
        filter_expression="contains(drugs, :d)", expression_attribute_values={":d": "tea"}
    ),
    "raw condition": lambda table: table.put(
        ada(),
        condition_expression="attribute_exists(#n) AND #n=:n",
        expression_attribute_names={"#n": "full_name"},
        expression_attribute_values={":n": "Ada"},
    ),
    "raw condition of a part": lambda table: table.delete(
        "north", 7, condition_expression="attribute_exists(findings[0])"
    ),
    "raw condition of a transaction": lambda table: table.transact_write(
        [TransactConditionCheck("north", 7, "size (full_name) > visits")]
    ),
}


@pytest.mark.parametrize("call", REFUSED)
def test_encrypted_fields_cannot_be_compared(clinic: Clinic, call: str) -> None:
    clinic.table.create(ada())
    before = clinic.stored()
    with pytest.raises(InvalidQueryError, match="encrypted"):
        REFUSED[call](clinic.table)
    assert clinic.stored() == before


def test_members_and_values_of_these_names_can_be_compared(clinic: Clinic) -> None:
    clinic.table.create(ada())
    clinic.table.delete(
        "north",
        7,
        condition_expression="attribute_not_exists(extra.drugs) AND attribute_not_exists(#e.#d) AND ward = :full_name",
        expression_attribute_names={"#e": "extra", "#d": "drugs"},
        expression_attribute_values={":full_name": "B"},
    )
    assert clinic.table.get_or_none("north", 7) is None


def test_foreign_values_are_refused(clinic: Clinic, tmp_path: Path) -> None:
    clinic.table.create(ada())
    stored = clinic.stored()
    clinic.replace({**stored, "number": {"N": "8"}})
    with pytest.raises(TamperedError, match="attribute 'full_name' of the item clinic='north' number='8' in table"):
        clinic.table.get("north", 8)
    clinic.replace({**stored, "number": {"N": "9"}, "full_name": {"S": "Eve"}})
    for read in (lambda: clinic.table.get("north", 9), lambda: clinic.table.scan().all()):
        with pytest.raises((NotEncryptedError, TamperedError)):
            read()
    clinic.replace({**stored, "allergy": {"NULL": True}})
    with pytest.raises(NotEncryptedError, match="'allergy'"):
        clinic.table.get("north", 7)
    clinic.replace({**stored, "full_name": stored["allergy"]})
    with pytest.raises(TamperedError, match="'full_name'"):
        clinic.table.get("north", 7)
    clinic.replace(stored)
    others = Table(
        PATIENTS, client=clinic.client, keys=KeyFile(tmp_path / "others"), table_name=clinic.table.table_name
    )
    with pytest.raises(UnknownKeyError):
        others.get("north", 7)


def test_an_update_whose_result_cannot_be_read_was_applied(clinic: Clinic) -> None:
    clinic.table.create(ada())
    clinic.replace({**clinic.stored(), "full_name": {"S": "Eve"}})
    with pytest.raises(NotEncryptedError) as unread:
        clinic.table.update("north", 7, {"ward": "C"})
    assert outcome_of(unread.value) is Outcome.UNKNOWN
    assert clinic.stored()["ward"] == {"S": "C"}


class Broken(Counting):
    """A key file that fails."""

    fails_to_create = fails_to_open = False

    def new_data_key(self) -> DataKey:
        if self.fails_to_create:
            raise OSError("no connection")
        return super().new_data_key()

    def open_data_key(self, sealed: bytes) -> bytes:
        if self.fails_to_open:
            raise OSError("no connection")
        return super().open_data_key(sealed)


def test_failing_providers(clinic: Clinic, tmp_path: Path) -> None:
    keys = Broken(tmp_path / "broken")
    table = Table(PATIENTS, client=clinic.client, keys=keys, table_name=clinic.table.table_name)
    table.create(ada())
    keys.fails_to_create = True
    with pytest.raises(KeyProviderError, match="no connection") as unsent:
        table.put(replace(ada(), version=1))
    assert outcome_of(unsent.value) is Outcome.CANCELLED
    assert clinic.stored()["version"] == {"N": "1"}
    keys.fails_to_open = True
    with pytest.raises(UnknownOutcomeError, match=r"update Patient .*: it was applied; decrypt attribute"):
        table.update("north", 7, {"ward": "C"})
    assert clinic.stored()["version"] == {"N": "2"}


def test_stored_items_of_errors_can_be_decrypted(clinic: Clinic) -> None:
    clinic.table.create(ada())
    with pytest.raises(ConditionFailedError) as failed:
        clinic.table.create(ada())
    assert failed.value.item is not None
    assert is_encrypted(failed.value.item["full_name"])
    assert clinic.table.unmarshal(failed.value.item) == replace(ada(), version=1)
    part = {name: value for name, value in failed.value.item.items() if name != "number"}
    with pytest.raises(MalformedRowError, match="expected an item with its key, found none: number"):
        clinic.table.unmarshal(part)


def test_a_retried_write_recognizes_itself(engine: Engine, clinic: Clinic) -> None:
    client = engine.client(retries={"total_max_attempts": 2})
    faults = Faults(client)
    faults.lose("PutItem")
    table = Table(PATIENTS, client=client, keys=clinic.keys, table_name=clinic.table.table_name)
    assert table.create(ada()) == replace(ada(), version=1)
    faults.lose("UpdateItem")
    assert table.update("north", 7, {"name": "Ada King"}, expected_version=1).name == "Ada King"
    assert (faults.sent["PutItem"], faults.sent["UpdateItem"]) == (2, 2)
    client.close()


def test_errors_do_not_show_values(clinic: Clinic) -> None:
    wrong: Any = Patient("north", 7, findings=["hush"], name="hush")  # type: ignore[list-item]
    with pytest.raises(InvalidInputError) as invalid:
        clinic.table.put(wrong)
    assert str(invalid.value) == (
        "Patient: attribute findings: expected an object of Finding, found a value that is encrypted and not shown"
    )
    wrong_name: Any = {"name": ["hush"]}
    with pytest.raises(InvalidInputError, match="attribute full_name: expected text, found a value that is encrypted"):
        clinic.table.update("north", 7, wrong_name)

    @dataclass
    class Numbered:
        clinic: str = theorydb_field(roles=["pk"])
        number: int = theorydb_field(roles=["sk"])
        name: int = theorydb_field(name="full_name", encrypted=True)

    clinic.table.create(replace(ada(), name="hush"))
    numbered = Table(
        ModelDefinition.from_dataclass(Numbered),
        client=clinic.client,
        keys=clinic.keys,
        table_name=clinic.table.table_name,
    )
    with pytest.raises(MalformedRowError, match="full_name: expected a number, found a value that is encrypted") as odd:
        numbered.get("north", 7)
    assert not any("hush" in message for message in messages(odd.value))


# --- Models -------------------------------------------------------------------


def test_models_without_keys_are_refused() -> None:
    with pytest.raises(
        InvalidModelError, match="no keys for the encrypted fields name, findings, drugs, allergy: pass keys"
    ):
        Table(PATIENTS, table_name="patients")


def test_cryptography_is_needed_for_encrypted_fields_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    with pytest.raises(ImportError, match=r"pip install 'facetheory-tabletheory\[encryption\]'"):
        Table(PATIENTS, keys=keys, table_name="patients")
    program = "import sys, theorydb_py, theorydb_py.encryption; sys.exit('cryptography' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=240)


def test_invalid_models() -> None:
    @dataclass
    class Key:
        pk: str = theorydb_field(roles=["pk"], encrypted=True)

    @dataclass
    class Version:
        pk: str = theorydb_field(roles=["pk"])
        version: int = theorydb_field(roles=["version"], encrypted=True, default=0)

    for model in (Key, Version, Whole):
        with pytest.raises(
            InvalidModelError, match="encrypted: only fields of the item without a role can be encrypted"
        ):
            ModelDefinition.from_dataclass(model)
    with pytest.raises(InvalidModelError, match="name: a key cannot be encrypted, as DynamoDB compares it"):
        ModelDefinition.from_dataclass(Patient, indexes=[gsi("by-name", partition="name")])


@dataclass
class Part:
    text: str = theorydb_field(encrypted=True)


@dataclass
class Whole:
    pk: str = theorydb_field(roles=["pk"])
    parts: list[Part] = field(default_factory=list)
