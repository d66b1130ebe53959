"""Keeping a lease, giving it up, and taking it from somebody."""

from __future__ import annotations

import math

from theorydb_py.answers import stored_item, write_failure
from theorydb_py.errors import InvalidInputError, LeaseLostError, MovedError
from theorydb_py.isr.acquire import drop
from theorydb_py.isr.amounts import check_number
from theorydb_py.isr.connection import Connection
from theorydb_py.isr.expressions import compare, delete, is_held, update
from theorydb_py.isr.fence import Fence
from theorydb_py.isr.items import SK_LOCK, key, number, string
from theorydb_py.isr.lease import IsrLease
from theorydb_py.isr.lockrow import expiry, until, whose
from theorydb_py.isr.transaction import Action, Purpose, Transaction
from theorydb_py.outcome import Outcome, condition_held, outcome_of


def refresh(connection: Connection, lease: IsrLease, seconds: int | None = None) -> None:
    """Extend a held lease, and its request if it has one, from now by so long; None: by the lifetime it has.

    LeaseLostError: it expired or was taken. Other errors leave open whether it was
    extended; it may be called again.
    """
    try:
        extend(connection, lease, seconds)
    except LeaseLostError:
        lease.end(lost=True)
        raise


def extend(connection: Connection, lease: IsrLease, seconds: int | None = None) -> None:
    """Do the same, and leave it to the caller to note the loss: a publish may be under way that ends the lease."""
    what = f"refresh the lease of {lease.pk}"
    lifetime = lease.duration_seconds if seconds is None else seconds
    try:
        connection.retry.bounded(lambda: _extend(connection, lease, lifetime))
    except LeaseLostError:
        raise
    except Exception as error:
        if outcome_of(error) is not Outcome.CONDITION_FAILED:
            raise write_failure(what, error) from error
        raise LeaseLostError(f"{what}: it is lost{whose(stored_item(error))}; acquire it anew") from error


def _extend(connection: Connection, lease: IsrLease, seconds: int) -> None:
    """Move the end of a lease that is still ours and has not passed.

    A lease that has expired stays so, although the row still carries our token:
    another node may be about to take it, by a request that has already been judged.
    """
    if lease.over:  # perhaps since an attempt of ours that hung
        raise LeaseLostError(f"refresh the lease of {lease.pk}: it is over; acquire it anew")
    now, started = connection.now(), connection.monotonic()
    expires_at = expiry(now, seconds)
    lock = update(key(lease.pk, SK_LOCK), until(expires_at), is_held(lease.lease_token, math.floor(now)))
    attempt = lease.attempt
    if attempt is None:
        connection.call("update_item", **lock)
    else:
        # A request that was taken over takes the lease with it.
        request = update(key(lease.pk, attempt.sk), attempt.extended(expires_at), attempt.is_mine())
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
        found = whose(why[Purpose.LOCK]) if Purpose.LOCK in why else " (its request was taken over, or is ended)"
        raise LeaseLostError(f"{what}: it is lost{found}; acquire it anew") from error


def release(connection: Connection, lease: IsrLease) -> None:
    """Give the lease up. Releasing one that is already lost does nothing and is no error."""
    try:
        drop(connection, lease, None)
    except Exception as error:
        raise write_failure(f"release the lease of {lease.pk}", error) from error
    lease.end()


def back_off(connection: Connection, lease: IsrLease, pause_ms: float) -> None:
    """Turn a held lease into one that nobody holds until the pause has passed, with one more failure counted.

    A lease that is lost is left as it is: no error.
    """
    pause = check_number("pause_ms", pause_ms)
    if pause < 0:
        raise InvalidInputError(f"pause_ms is {pause_ms!r}: expected 0 or more milliseconds")
    changes = {
        "lease_token": string(connection.new_token()),  # nobody's, and nobody is told
        **until(expiry(connection.now(), pause / 1000)),
        # The count is a constant, not an addition: a repetition must not count the
        # failure twice.
        "failures": number(lease.failures + 1),
        "lease_owner": None,
    }
    ours = compare("lease_token", "=", string(lease.lease_token))
    row = update(key(lease.pk, SK_LOCK), changes, ours)
    try:
        # A failed condition is a lost lease, or the effect of an attempt of ours
        # whose reply was lost. Both leave the row as it ought to be.
        condition_held(lambda: connection.repeat(None, "update_item", **row))
    except Exception as error:
        raise write_failure(f"back off from {lease.pk}", error) from error
    lease.end()


def break_lease(connection: Connection, fence: Fence) -> None:
    """Free the lease that a read saw, whoever holds it, and only if it is still that one.

    Its holder cannot publish any more. If the read saw none, nothing is done. A
    lease without a token, which another service took, is another one once it was
    refreshed. MovedError: it is another one, or gone, and this call did not free it.

    It is a transaction of one row for the sake of its client token: whoever repeats
    it because a reply was lost, this package or boto3, is told what became of the
    first.
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
        found = whose(transaction.refusal(error).get(Purpose.LOCK))
        raise MovedError(f"{what}: it is not the one that was read any more{found}; read again") from error
