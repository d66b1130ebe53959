"""Keeps boto3 from repeating an update that must not be applied twice."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from theorydb_py._client import DynamoDB
from theorydb_py._outcome import THROTTLING_CODES, Outcome, error_code, outcome_of

_ERROR_STATUS = 300


class NotRepeatedError(Exception):
    """boto3 tried to repeat a request that may have been applied."""


@dataclass
class _Sending:
    """An update in progress."""

    may_be_sent: bool = True
    """Whether it was not sent yet, or the last reply proved that it was not applied."""


_sending: ContextVar[_Sending | None] = ContextVar("theorydb_py._once", default=None)


def watch_updates(client: DynamoDB) -> None:
    """Register what send_once needs with a client's events. May be called repeatedly."""
    events: Any = client.meta.events
    events.register_first("before-send.dynamodb.UpdateItem", _before_send, unique_id="theorydb_py.before_send")
    events.register_first("needs-retry.dynamodb.UpdateItem", _needs_retry, unique_id="theorydb_py.needs_retry")


def send_once(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``client.update_item`` of a watched client such that it is applied at most once.

    boto3 repeats it only after replies that prove that it was not applied, such as
    throttling.
    """

    def send(**arguments: Any) -> Any:
        # botocore calls its handlers in this thread.
        token = _sending.set(_Sending())
        try:
            return call(**arguments)
        finally:
            _sending.reset(token)

    return send


def _before_send(**_: Any) -> None:
    """Let an update pass once."""
    sending = _sending.get()
    if sending is None:
        return
    if not sending.may_be_sent:  # such as after a reply with a wrong checksum
        raise NotRepeatedError("boto3 tried to repeat an update that may have been applied")
    sending.may_be_sent = False


def _needs_retry(response: Any, caught_exception: Exception | None, operation: Any, **_: Any) -> None:
    """Raise the failure of an update that may have been applied, before boto3 waits to repeat it."""
    sending = _sending.get()
    if sending is None:
        return
    if caught_exception is not None:
        raise caught_exception
    http, parsed = response
    if http.status_code < _ERROR_STATUS:
        return
    error = ClientError(parsed, operation.name)
    if outcome_of(error) is Outcome.UNKNOWN and error_code(error) not in THROTTLING_CODES:
        raise error
    sending.may_be_sent = True
