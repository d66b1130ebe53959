"""Fixtures: real engines over HTTP."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config

from tests import documented

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

documented.install()

ENGINES = [
    (name, url)
    for name, _, url in (part.partition("=") for part in os.environ.get("ISR_TEST_ENGINES", "").split(",") if part)
]


@dataclass(frozen=True)
class Engine:
    """A server that speaks DynamoDB's protocol."""

    name: str
    url: str

    def client(self, **config: object) -> DynamoDBClient:
        """Return a new client with timeouts that a busy machine keeps."""
        defaults: dict[str, object] = {
            "connect_timeout": 60,
            "read_timeout": 60,
            "retries": {"total_max_attempts": 3},
            "user_agent": "tests",  # botocore's own is computed for each request, a tenth of its CPU time
        }
        make: Any = boto3.client  # no overload of the stubs accepts this Config
        made: DynamoDBClient = make(
            "dynamodb",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 any does
            config=Config(**{**defaults, **config}),  # type: ignore[arg-type]
        )
        return made


NO_ENGINE = pytest.mark.skip(
    "ISR_TEST_ENGINES is not set: comma-separated name=URL of servers that speak DynamoDB's protocol"
)
EACH_ENGINE = [pytest.param(Engine(name, url), id=name) for name, url in ENGINES] or [
    pytest.param(None, id="no-engine", marks=NO_ENGINE)
]


@pytest.fixture(params=EACH_ENGINE)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    found: Engine = request.param
    return found


@pytest.fixture
def client(engine: Engine) -> Iterator[DynamoDBClient]:
    """A client of the engine."""
    made = engine.client()
    yield made
    made.close()


@pytest.fixture
def table_name(client: DynamoDBClient) -> Iterator[str]:
    """A new table with the text keys pk and sk."""
    name = f"python-{uuid.uuid4().hex}"
    client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
    yield name
    client.delete_table(TableName=name)
