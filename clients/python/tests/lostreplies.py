"""Lost requests and lost replies, injected by botocore's events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


class Faults:
    """Make requests of one client fail, before they are sent or after they were applied.

    ``lose("PutItem", 2)``: the next two such requests are applied, and their replies
    lost. ``drop``: they never arrive. boto3 sees both as network failures, and retries
    if it is configured to. ``sent`` counts the requests that arrived.
    """

    def __init__(self, client: DynamoDBClient) -> None:
        self.client = client
        self.sent: dict[str, int] = {}
        self._lost: dict[str, int] = {}
        self._dropped: dict[str, int] = {}
        self._url = client.meta.endpoint_url
        client.meta.events.register("before-send.dynamodb.*", self._before)

    def lose(self, operation: str, times: int = 1) -> None:
        self._lost[operation] = times

    def drop(self, operation: str, times: int = 1) -> None:
        self._dropped[operation] = times

    def _before(self, event_name: str, request: Any, **_: Any) -> None:
        operation = event_name.rpartition(".")[2]
        if self._dropped.get(operation, 0):
            self._dropped[operation] -= 1
            raise ConnectionClosedError(endpoint_url=self._url)
        self.sent[operation] = self.sent.get(operation, 0) + 1
        if self._lost.get(operation, 0):
            self._lost[operation] -= 1
            session: Any = self.client._endpoint.http_session  # type: ignore[attr-defined]
            session.send(request)
            raise ReadTimeoutError(endpoint_url=self._url)
