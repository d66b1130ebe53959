"""A client of a real engine with planned faults."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Sequence
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError


class Fault(enum.Enum):
    """The fate of one call."""

    NONE = "none"
    LOST_REQUEST = "not applied"
    LOST_REPLY = "applied, reply lost"
    LATE = "applied before the next call, reply lost"
    LAST = "applied after all others, reply lost"
    THROTTLED = "throttled"
    SERVER_ERROR = "500, applied"
    CONFLICT = "conflict, not applied"
    DENIED = "400, not applied, permanent"


class Faulty:
    """A client of a real engine that follows a plan of faults, and may then be down."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._late: list[Callable[[], object]] = []
        self._last: list[Callable[[], object]] = []
        self.plan: list[Fault] = []
        self.down: Callable[[], bool] = _never
        self.calls = 0
        self.before: Callable[[int], None] = lambda _: None

    def arm(
        self,
        plan: Sequence[Fault],
        *,
        down: Callable[[], bool] | None = None,
        before: Callable[[int], None] | None = None,
    ) -> None:
        """Plan the faults of the next calls. Later calls succeed, or are lost while ``down`` returns True."""
        self.plan, self.down, self.calls = list(plan), down or _never, 0
        self.before = before or (lambda _: None)

    def deliver(self) -> None:
        """Apply all delayed calls, and end all faults."""
        self.arm([])
        self._deliver_late()
        self._late, self._last = self._last, []
        self._deliver_late()

    def _deliver_late(self) -> None:
        late, self._late = self._late, []
        for call in late:
            _ignore_reply(call)

    def __getattr__(self, operation: str) -> Any:
        def call(**arguments: Any) -> Any:
            return self._call(operation, lambda: getattr(self._client, operation)(**arguments))

        return call

    def _call(self, operation: str, call: Callable[[], Any]) -> Any:
        self.calls += 1
        fault = self.plan.pop(0) if self.plan else Fault.LOST_REQUEST if self.down() else Fault.NONE
        self._deliver_late()
        self.before(self.calls)
        match fault:
            case Fault.NONE:
                return call()
            case Fault.LOST_REPLY:
                _ignore_reply(call)
            case Fault.LATE:
                self._late.append(call)
            case Fault.LAST:
                self._last.append(call)
            case Fault.SERVER_ERROR:
                _ignore_reply(call)
                raise client_error("InternalServerError", 500, operation)
            case Fault.THROTTLED:
                raise client_error("ThrottlingException", 400, operation)
            case Fault.CONFLICT:
                raise client_error("TransactionConflictException", 400, operation)
            case Fault.DENIED:
                raise client_error("AccessDeniedException", 400, operation)
        raise ReadTimeoutError(endpoint_url="lost")


def _never() -> bool:
    return False


def client_error(code: str, status: int, operation: str) -> ClientError:
    """Return an error as boto3 raises it."""
    response: Any = {"Error": {"Code": code, "Message": "by plan"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, operation)


def _ignore_reply(call: Callable[[], object]) -> None:
    with contextlib.suppress(ClientError):  # the reply is lost, including errors
        call()
