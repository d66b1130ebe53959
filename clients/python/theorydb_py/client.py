"""The DynamoDB client that this package requires."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class DynamoDB(Protocol):
    """``boto3.client("dynamodb")``, with or without type stubs.

    A client is safe for concurrent use and has its own timeouts and retries: pass
    ``Config(connect_timeout=…, read_timeout=…)``, as boto3 waits a minute for a reply
    by default.
    """

    @property
    def get_item(self) -> Callable[..., Any]: ...
    @property
    def put_item(self) -> Callable[..., Any]: ...
    @property
    def update_item(self) -> Callable[..., Any]: ...
    @property
    def delete_item(self) -> Callable[..., Any]: ...
    @property
    def query(self) -> Callable[..., Any]: ...
    @property
    def batch_get_item(self) -> Callable[..., Any]: ...
    @property
    def batch_write_item(self) -> Callable[..., Any]: ...
    @property
    def transact_write_items(self) -> Callable[..., Any]: ...
