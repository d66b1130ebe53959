"""Taking a lease for a request: LOCK and REQ# in one transaction.

So a request is STARTED by a holder of the lease and by nobody else, and whoever
does not get the lease leaves no trace. Both rows are read before: what a
transaction replaces is not told, and it is refused without saying all that is
wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from theorydb_py.answers import read_failure
from theorydb_py.errors import (
    LeaseHeldError,
    RequestCompletedError,
    RequestInProgressError,
    RequestMismatchError,
    TheorydbError,
)
from theorydb_py.isr.acquire import abandon, may_go_on
from theorydb_py.isr.connection import Connection
from theorydb_py.isr.entry import Lock
from theorydb_py.isr.expressions import all_of, is_free, put, same, update
from theorydb_py.isr.items import SK_LOCK, Item, key, text
from theorydb_py.isr.lease import IsrLease
from theorydb_py.isr.lockrow import expiry, held_error, is_held, lock_of, new_lock
from theorydb_py.isr.request import find_request
from theorydb_py.isr.requestrow import Attempt, Claim, in_progress, is_unchanged, request_of, standing
from theorydb_py.isr.transaction import Action, Purpose, Refusal, Transaction
from theorydb_py.outcome import Outcome, outcome_of

# The rows of others are an answer, whatever else was sent before.
_ANSWERS = (LeaseHeldError, RequestCompletedError, RequestInProgressError, RequestMismatchError)


@dataclass(frozen=True)
class _Claiming:
    """One request for a lease and a claim, made of the rows as they were found."""

    transaction: Transaction
    failures: int  # of the lease that it replaces
    expires_at: int  # of the lease that it asks for
    asked: float  # before it was sent, on the monotonic clock


def acquire_for(connection: Connection, lease: IsrLease, attempt: Attempt, claim: Claim) -> None:
    """Take a lease that nobody has asked for yet, for a request, or raise.

    Errors: LeaseHeldError; RequestCompletedError, RequestInProgressError and
    RequestMismatchError for a request that was made before; MalformedRowError;
    UnknownOutcomeError as of acquire.
    """
    started, tries, unanswered = connection.monotonic(), 0, False
    claiming: _Claiming | None = None
    while True:
        tries += 1
        try:
            claiming = claiming or _look(connection, lease, attempt, claim)
            if claiming is None:
                return  # the rows are ours already, by a request whose reply was lost
            claiming.transaction.send()
        except Exception as error:
            outcome, failure = outcome_of(error), error
            if claiming is None or outcome is Outcome.REFUSED:
                raise _failed(connection, lease, failure, unanswered) from error
            if outcome is Outcome.CONDITION_FAILED:
                # Somebody was faster, perhaps an earlier request of ours.
                verdict = _contest(connection, lease, claiming, claim, error)
                if verdict is None:
                    return
                failure = verdict
            unanswered = unanswered or outcome is Outcome.UNKNOWN
            if not may_go_on(connection, tries, started):
                raise _failed(connection, lease, failure, unanswered) from error
            if outcome is not Outcome.UNKNOWN:
                claiming = None
        else:
            lease.failures = claiming.failures
            lease.granted(claiming.expires_at, claiming.asked)
            return


def _look(connection: Connection, lease: IsrLease, attempt: Attempt, claim: Claim) -> _Claiming | None:
    """Read what there is, and prepare to replace it; None if it is ours already. Raises if it is not to be replaced."""
    stored, earlier = find_request(connection, lease.pk, claim.key)
    stored_lock = connection.read_row(lease.pk, SK_LOCK)
    lock = lock_of(stored_lock) if stored_lock else Lock()
    now, asked = connection.now(), connection.monotonic()
    if text(stored_lock, "lease_token") == lease.lease_token:
        lease.granted(lock.lease_expires_at, asked)
        return None
    refusal = standing(earlier, claim, now) if earlier else None
    if refusal is not None:
        raise refusal
    if is_held(lock.lease_expires_at, int(now)):
        raise held_error(lease.pk, lock)
    expires_at = expiry(now, lease.duration_seconds)
    actions = [
        Action(Purpose.LOCK, "Put", _lock(lease, stored_lock, int(now), expires_at)),
        Action(Purpose.REQUEST, "Update", _request(lease, attempt, claim, stored, expires_at)),
    ]
    # If we crash once it is carried out, the lease expires, and the request may be
    # taken over at the same moment.
    return _Claiming(Transaction(connection, actions), lock.failures, expires_at, asked)


def _lock(lease: IsrLease, found: Item | None, now: int, expires_at: int) -> dict[str, Any]:
    """State the lease, on condition that the row counts as many failures as the one that was read.

    A worker that froze after it had looked must not take over failures that others
    have made up for.
    """
    as_counted = same("failures", (found or {}).get("failures"))
    return put(new_lock(lease.pk, lease.lease_token, lease.lease_owner, expires_at), all_of(is_free(now), as_counted))


def _request(lease: IsrLease, attempt: Attempt, claim: Claim, found: Item | None, expires_at: int) -> dict[str, Any]:
    return update(key(lease.pk, attempt.sk), attempt.begun(claim.request_hash, expires_at), is_unchanged(found))


def _contest(
    connection: Connection, lease: IsrLease, claiming: _Claiming, claim: Claim, error: Exception
) -> Exception | None:
    """Read the rows that refused us: None if they are ours.

    Otherwise it is what is said to somebody for whom others are faster time and
    again.
    """
    why: Refusal = claiming.transaction.refusal(error)
    if Purpose.LOCK in why:
        row = why[Purpose.LOCK] or {}
        lock = lock_of(row) if row else Lock(lease_expires_at=connection.second())  # given up since we looked
        if text(row, "lease_token") == lease.lease_token:
            lease.granted(lock.lease_expires_at, claiming.asked)
            return None
        # Its time may be over by now: it was held, or another's failure, when it
        # refused us.
        return held_error(lease.pk, lock)
    row = why.get(Purpose.REQUEST) or {}
    try:
        earlier = request_of(row, claim.key, 0) if row else None
    except TheorydbError as malformed:
        return malformed
    if earlier is None:
        return error
    # Claimed since we looked, whatever became of it.
    return standing(earlier, claim, connection.now()) or in_progress(earlier)


def _failed(connection: Connection, lease: IsrLease, error: Exception, unanswered: bool) -> Exception:
    """Return the error of a claim. A request that was not answered may have made the rows ours."""
    if isinstance(error, _ANSWERS):
        return error
    if unanswered:
        return abandon(connection, lease, error)
    return error if isinstance(error, TheorydbError) else read_failure(f"acquire the lease of {lease.pk}", error)
