"""Refreshes, releases, backs off and breaks leases."""

from __future__ import annotations

import math

from theorydb_py._classify import stored_item, write_failure
from theorydb_py._outcome import Outcome, condition_held, outcome_of
from theorydb_py.errors import InvalidInputError, LeaseLostError, MovedError
from theorydb_py.isr._acquire import delete_lock
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._expression import compare, delete, is_held, update
from theorydb_py.isr._fence import Fence
from theorydb_py.isr._lease import IsrLease
from theorydb_py.isr._lockrow import expiry, holder_note, until
from theorydb_py.isr._names import SK_LOCK
from theorydb_py.isr._numbers import check_number
from theorydb_py.isr._row import key, number, string
from theorydb_py.isr._transaction import Action, Purpose, Transaction


def refresh(connection: Connection, lease: IsrLease, seconds: int | None = None) -> None:
    """Extend a held lease and its request, if any, by so many seconds from now; None: by its present duration.

    Raises LeaseLostError if it expired or was taken. Any other error leaves open
    whether it was extended; the call may be repeated.
    """
    try:
        extend(connection, lease, seconds)
    except LeaseLostError:
        lease.end(lost=True)
        raise


def extend(connection: Connection, lease: IsrLease, seconds: int | None = None) -> None:
    """Extend a lease, but leave marking it as lost to the caller: a concurrent publish may be what ended it."""
    what = f"refresh the lease of {lease.pk}"
    lifetime = lease.duration_seconds if seconds is None else seconds
    try:
        connection.retry.bounded(lambda: _extend(connection, lease, lifetime))
    except LeaseLostError:
        raise
    except Exception as error:
        if outcome_of(error) is not Outcome.CONDITION_FAILED:
            raise write_failure(what, error) from error
        raise LeaseLostError(f"{what}: it is lost{holder_note(stored_item(error))}; acquire it again") from error


def _extend(connection: Connection, lease: IsrLease, seconds: int) -> None:
    """Extend a lease that is still ours and has not expired.

    An expired lease is not extended even if the row still carries our token: another
    process may be about to take it with a request whose condition was already
    evaluated.
    """
    if lease.over:  # perhaps since a hanging attempt of ours
        raise LeaseLostError(f"refresh the lease of {lease.pk}: it is over; acquire it again")
    now, started = connection.now(), connection.monotonic()
    expires_at = expiry(now, seconds)
    lock = update(key(lease.pk, SK_LOCK), until(expires_at), is_held(lease.lease_token, math.floor(now)))
    attempt = lease.attempt
    if attempt is None:
        connection.call("update_item", **lock)
    else:
        # The lease is lost with its request.
        request = update(key(lease.pk, attempt.sk), attempt.extended(expires_at), attempt.is_ours())
        _extend_both(
            connection, lease, [Action(Purpose.LOCK, "Update", lock), Action(Purpose.REQUEST, "Update", request)]
        )
    lease.granted(expires_at, started, seconds)


def _extend_both(connection: Connection, lease: IsrLease, actions: list[Action]) -> None:
    what = f"refresh the lease of {lease.pk}"
    transaction = Transaction(connection, actions)
    try:
        transaction.send()
    except Exception as error:
        why = transaction.refusal(error)
        if not why:
            raise transaction.cancelled(what, error) from error
        found = holder_note(why[Purpose.LOCK]) if Purpose.LOCK in why else " (its request was taken over or has ended)"
        raise LeaseLostError(f"{what}: it is lost{found}; acquire it again") from error


def release(connection: Connection, lease: IsrLease) -> None:
    """Release the lease. Releasing a lost lease does nothing and is no error."""
    try:
        delete_lock(connection, lease, None)
    except Exception as error:
        raise write_failure(f"release the lease of {lease.pk}", error) from error
    lease.end()


def back_off(connection: Connection, lease: IsrLease, pause_ms: float) -> None:
    """Replace a held lease by a backoff with one more failure. A lost lease stays as it is: no error."""
    pause = check_number("pause_ms", pause_ms)
    if pause < 0:
        raise InvalidInputError(f"pause_ms is {pause_ms!r}: expected 0 or more milliseconds")
    changes = {
        "lease_token": string(connection.new_token()),  # unknown to everyone: the backoff has no holder
        **until(expiry(connection.now(), pause / 1000)),
        # A constant, not an addition: repeating the write must not count the failure
        # twice.
        "failures": number(lease.failures + 1),
        "lease_owner": None,
    }
    ours = compare("lease_token", "=", string(lease.lease_token))
    row = update(key(lease.pk, SK_LOCK), changes, ours)
    try:
        # A failed condition means that the lease is lost, or that an attempt whose reply
        # was lost was applied. Either way nothing is left to do.
        condition_held(lambda: connection.repeat(None, "update_item", **row))
    except Exception as error:
        raise write_failure(f"back off from {lease.pk}", error) from error
    lease.end()


def break_lease(connection: Connection, fence: Fence) -> None:
    """Delete the lease that a read saw, of any holder, unless it was replaced since.

    Its holder cannot publish any more. Does nothing if the read saw no lease. A lease
    without a token (of another service) counts as replaced once it is refreshed. Raises
    MovedError if it was replaced or is gone, and this call did not delete it.

    It is a transaction of one action for its client token: a repetition after a lost
    reply, by this package or by boto3, returns the outcome of the first request.
    """
    if fence.lock is None:
        return
    erase = Action(Purpose.LOCK, "Delete", delete(key(fence.pk, SK_LOCK), fence.is_same_lock()))
    transaction = Transaction(connection, [erase])
    what = f"break the lease of {fence.pk}"
    try:
        connection.retry.bounded(transaction.send)
    except Exception as error:
        if outcome_of(error) is not Outcome.CONDITION_FAILED:
            raise write_failure(what, transaction.cancelled(what, error)) from error
        found = holder_note(transaction.refusal(error).get(Purpose.LOCK))
        raise MovedError(f"{what}: it is no longer the lease that was read{found}; read the page again") from error
