"""Acquires a lease and settles lost replies."""

from __future__ import annotations

from theorydb_py._classify import read_failure, stored_item
from theorydb_py._outcome import Outcome, condition_held, outcome_of
from theorydb_py.errors import TheorydbError, UnknownOutcomeError
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._expression import compare, delete, is_free, put
from theorydb_py.isr._lease import IsrLease
from theorydb_py.isr._lockrow import expiry, held_error, lock_of, new_lock
from theorydb_py.isr._names import SK_LOCK
from theorydb_py.isr._request import end_request
from theorydb_py.isr._requestrow import failed
from theorydb_py.isr._row import key, string, text


def acquire(connection: Connection, lease: IsrLease) -> None:
    """Acquire the lease, or raise.

    A request whose reply was lost is repeated under the same token: if the row that
    refuses it carries that token, the first request was applied. If no reply comes, the
    row is deleted by its token.

    Raises LeaseHeldError if another process holds the lease, and UnknownOutcomeError if
    the deletion got no reply either: at worst an unused lease then remains until it
    expires.
    """
    started, attempt = connection.monotonic(), 0
    while True:
        attempt += 1
        try:
            _put_lock(connection, lease)
        except Exception as error:
            outcome = outcome_of(error)
            if outcome is Outcome.CONDITION_FAILED:
                return _check_refusal(lease, error, started)
            if outcome is Outcome.REFUSED and attempt == 1:
                raise read_failure(f"acquire the lease of {lease.pk}", error) from error
            if outcome is Outcome.REFUSED or not retry_after_backoff(connection, attempt, started):
                raise abandon(connection, lease, error) from error
        else:
            return None


def retry_after_backoff(connection: Connection, attempt: int, started: float) -> bool:
    """Back off before the next attempt; return False once the attempts or the timeout are used up."""
    retry = connection.retry
    return attempt < retry.attempts and retry.pause(attempt, started + retry.timeout_seconds)


def _put_lock(connection: Connection, lease: IsrLease) -> None:
    """Write the LOCK row once. After a crash here the lease expires."""
    now, started = connection.now(), connection.monotonic()
    expires_at = expiry(now, lease.duration_seconds)
    row = new_lock(lease.pk, lease.lease_token, lease.lease_owner, expires_at)
    response = connection.call("put_item", ReturnValues="ALL_OLD", **put(row, is_free(int(now))))
    # The replaced row is a backoff that has passed, or a lease whose holder died.
    lease.failures = lock_of(response.get("Attributes", {})).failures
    lease.granted(expires_at, started)


def _check_refusal(lease: IsrLease, refusal: Exception, started: float) -> None:
    """Read the row that refused the request.

    Our own token on it means that an earlier attempt, ours or boto3's, was applied and
    its reply was lost.
    """
    row = stored_item(refusal) or {}
    found = lock_of(row)
    if text(row, "lease_token") != lease.lease_token:
        raise held_error(lease.pk, found) from refusal
    lease.granted(found.lease_expires_at, started)


def abandon(connection: Connection, lease: IsrLease, cause: Exception) -> Exception:
    """Release a lease whose acquisition got no reply, and return the error to raise.

    If its request record was already STARTED, it becomes FAILED, so that the request
    can be retried.
    """
    deadline = connection.monotonic() + connection.retry.timeout_seconds
    try:
        delete_lock(connection, lease, deadline)
        end_request(connection, lease, failed(f"the acquisition failed: {cause}"), deadline)
    except Exception as failure:
        return UnknownOutcomeError(
            f"acquire the lease of {lease.pk}: no reply ({cause}), and none to its release ({failure}): "
            "try again after the lease has expired"
        )
    connection.logger.warning("settled an acquisition without a reply: %s: %s", lease.pk, cause)
    return cause if isinstance(cause, TheorydbError) else read_failure(f"acquire the lease of {lease.pk}", cause)


def delete_lock(connection: Connection, lease: IsrLease, deadline: float | None) -> bool:
    """Delete the LOCK row if it carries the lease's token; return whether it did. deadline: see Connection.repeat.

    Afterwards no row carries the token, so that no pending request that requires it can
    succeed.
    """
    ours = compare("lease_token", "=", string(lease.lease_token))
    row = delete(key(lease.pk, SK_LOCK), ours)
    return condition_held(lambda: connection.repeat(deadline, "delete_item", **row))
