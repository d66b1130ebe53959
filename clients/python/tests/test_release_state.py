"""Transitions of a registry of releases: the state of an environment, its events, and messages to send."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tabletheory_py.release_state import transition_release_state
from tests.conftest import Engine
from theorydb_py import (
    ConditionFailedError,
    InvalidInputError,
    InvalidModelError,
    ItemNotFoundError,
    ModelDefinition,
    Table,
    VersionConflictError,
    theorydb_field,
    theorydb_model,
)

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


@theorydb_model
class State:
    pk: str = theorydb_field(roles=["pk"])
    sk: str = theorydb_field(roles=["sk"])
    release: str = theorydb_field(name="releaseId")
    note: str | None = theorydb_field(omitempty=True, default=None)
    version: int = theorydb_field(roles=["version"], default=0)


@theorydb_model
class Event:
    pk: str = theorydb_field(roles=["pk"])
    sk: str = theorydb_field(roles=["sk"])
    release: str


STATES, EVENTS = ModelDefinition.from_dataclass(State), ModelDefinition.from_dataclass(Event)
KEY = {"pk": "production", "sk": "STATE"}


class Registry:
    def __init__(self, client: Any, table_name: str) -> None:
        self.states = Table(STATES, client=client, table_name=table_name)
        self.events = Table(EVENTS, client=client, table_name=table_name)

    def move(self, release: str, n: int, **more: Any) -> None:
        event = Event("production", f"EVENT#{n}", release)
        arguments: dict[str, Any] = {"actual_key": KEY, "set_values": {"release": release}, "event_item": event, **more}
        transition_release_state(self.states, self.events, **arguments)

    def read(self) -> State | None:
        return self.states.get_or_none("production", "STATE")

    def event(self, n: int) -> Event | None:
        return self.events.get_or_none("production", f"EVENT#{n}")


@pytest.fixture
def registry(client: DynamoDBClient, table_name: str) -> Registry:
    return Registry(client, table_name)


def test_a_transition_changes_the_row_and_adds_its_event_or_neither(registry: Registry) -> None:
    with pytest.raises(VersionConflictError):
        registry.move("r1", 1, expected_version=1)
    with pytest.raises(ItemNotFoundError):  # the row would be incomplete
        registry.move("r1", 1, set_values={"note": "n"})
    assert registry.read() is None
    registry.move("r1", 1)
    assert registry.read() == State("production", "STATE", "r1", version=1)
    with pytest.raises(ConditionFailedError):  # the event exists
        registry.move("r2", 1)
    with pytest.raises(VersionConflictError):
        registry.move("r2", 2, expected_version=7)
    assert registry.read() == State("production", "STATE", "r1", version=1)
    assert registry.event(2) is None
    message = Event("outbox", "2", "r2")
    registry.move("r2", 2, expected_version=1, outbox_item=message)
    with pytest.raises(ConditionFailedError):  # the message exists
        registry.move("r3", 3, outbox_item=message, outbox_table=registry.events)
    registry.move("r2", 3, set_values={"note": "slow"})
    assert registry.read() == State("production", "STATE", "r2", note="slow", version=3)
    assert registry.events.get("outbox", "2") == message
    registry.move("r4", 4, set_values={"releaseId": "r4"}, version_field="version")
    assert registry.read() == State("production", "STATE", "r4", note="slow", version=4)


def test_a_transition_that_could_not_be_checked_is_refused(registry: Registry, engine: Engine, table_name: str) -> None:
    wrong: list[dict[str, Any]] = [
        {"set_values": {}},
        {"set_values": {"version": 2}},
        {"set_values": {"release": "a", "releaseId": "b"}},
        {"set_values": {"other": 2}},
        {"set_values": None},
        {"actual_key": {}},
        {"actual_key": {"pk": "production"}},
        {"actual_key": {**KEY, "release": "r"}},
        {"event_item": Event("staging", "EVENT#1", "r1")},
        {"event_item": None},
        {"outbox_item": State("outbox", "1", "r1")},
        {"outbox_item": Event("outbox", "1", "r"), "outbox_table": Registry(engine.client(), table_name).events},
        {"outbox_item": Event("o", "1", "r"), "outbox_table": Registry(registry.events._client, "others").events},
    ]
    for more in wrong:
        with pytest.raises(InvalidInputError):
            registry.move("r1", 1, **more)
    with pytest.raises(InvalidModelError, match="'revision' with the role version"):
        registry.move("r1", 1, version_field="revision")
    with pytest.raises(InvalidModelError, match="role version"):
        transition_release_state(
            registry.events,
            registry.events,
            actual_key=KEY,
            set_values={"release": "r"},
            event_item=Event("production", "EVENT#1", "r"),
        )
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        registry.move("r1", 1, expected=1)
    assert (registry.read(), registry.event(1)) == (None, None)


def test_of_concurrent_transitions_from_one_version_one_wins(registry: Registry) -> None:
    registry.move("r0", 0)
    together = threading.Barrier(8)

    def move(n: int) -> bool:
        together.wait()
        try:
            registry.move(f"r{n}", n, expected_version=1)
        except VersionConflictError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(move, range(1, 9)))
    assert sum(won) == 1
    winner = won.index(True) + 1
    assert registry.read() == State("production", "STATE", f"r{winner}", version=2)
    assert [n for n in range(1, 9) if registry.event(n) is not None] == [winner]
