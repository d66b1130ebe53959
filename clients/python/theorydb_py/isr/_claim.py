"""Acquires a lease for a request record: LOCK and REQ# in one transaction.

Only the holder of the lease can start a request, and a refused acquisition writes
nothing. Both rows are read first: a transaction does not return the items that it
replaces, and a cancellation does not name every failed condition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from theorydb_py._classify import read_failure
from theorydb_py._outcome import Outcome, outcome_of
from theorydb_py.errors import (
    LeaseHeldError,
    RequestCompletedError,
    RequestInProgressError,
    RequestMismatchError,
    TheorydbError,
)
from theorydb_py.isr._acquire import abandon, retry_after_backoff
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._entry import Lock
from theorydb_py.isr._expression import all_of, is_free, put, same, update
from theorydb_py.isr._lease import IsrLease
from theorydb_py.isr._lockrow import expiry, held_error, is_held, lock_of, new_lock
from theorydb_py.isr._names import SK_LOCK
from theorydb_py.isr._request import read_request
from theorydb_py.isr._requestrow import Attempt, Claim, claim_error, in_progress_error, is_unchanged, request_of
from theorydb_py.isr._row import Item, key, text
from theorydb_py.isr._transaction import Action, Purpose, Refusal, Transaction

# After these errors it is certain that no attempt has committed: the rows belong to other processes.
_DEFINITE = (LeaseHeldError, RequestCompletedError, RequestInProgressError, RequestMismatchError)


@dataclass(frozen=True)
class _PreparedClaim:
    """One transaction that writes the lease and the claim, based on the rows as they were read."""

    transaction: Transaction
    failures: int  # of the lease that is replaced
    expires_at: int  # of the requested lease
    sent_at: float  # monotonic time before sending


def acquire_for(connection: Connection, lease: IsrLease, attempt: Attempt, claim: Claim) -> None:
    """Acquire a lease for a request, or raise.

    Raises LeaseHeldError; RequestCompletedError, RequestInProgressError or
    RequestMismatchError if the idempotency key was used before; MalformedRowError;
    UnknownOutcomeError as acquire does.
    """
    started, tries, unanswered = connection.monotonic(), 0, False
    prepared: _PreparedClaim | None = None
    while True:
        tries += 1
        try:
            prepared = prepared or _prepare(connection, lease, attempt, claim)
            if prepared is None:
                return  # a request whose reply was lost was applied
            prepared.transaction.send()
        except Exception as error:
            outcome, failure = outcome_of(error), error
            if prepared is None or outcome is Outcome.REFUSED:
                raise _failed(connection, lease, failure, unanswered) from error
            if outcome is Outcome.CONDITION_FAILED:
                # Another process was faster, or an earlier request of ours was applied.
                verdict = _check_refusal(connection, lease, prepared, claim, error)
                if verdict is None:
                    return
                failure = verdict
            unanswered = unanswered or outcome is Outcome.UNKNOWN
            if not retry_after_backoff(connection, tries, started):
                raise _failed(connection, lease, failure, unanswered) from error
            if outcome is not Outcome.UNKNOWN:
                prepared = None
        else:
            lease.failures = prepared.failures
            lease.granted(prepared.expires_at, prepared.sent_at)
            return


def _prepare(connection: Connection, lease: IsrLease, attempt: Attempt, claim: Claim) -> _PreparedClaim | None:
    """Read both rows and prepare the transaction; None if they are ours already. Raises if they must stay."""
    stored, earlier = read_request(connection, lease.pk, claim.key)
    stored_lock = connection.read_row(lease.pk, SK_LOCK)
    lock = lock_of(stored_lock) if stored_lock else Lock()
    now, sent_at = connection.now(), connection.monotonic()
    if text(stored_lock, "lease_token") == lease.lease_token:
        lease.granted(lock.lease_expires_at, sent_at)
        return None
    refusal = claim_error(earlier, claim, now) if earlier else None
    if refusal is not None:
        raise refusal
    if is_held(lock.lease_expires_at, int(now)):
        raise held_error(lease.pk, lock)
    expires_at = expiry(now, lease.duration_seconds)
    actions = [
        Action(Purpose.LOCK, "Put", _lock(lease, stored_lock, int(now), expires_at)),
        Action(Purpose.REQUEST, "Update", _request(lease, attempt, claim, stored, expires_at)),
    ]
    # After a crash behind this commit point the lease expires, and the request can be
    # taken over at the same moment.
    return _PreparedClaim(Transaction(connection, actions), lock.failures, expires_at, sent_at)


def _lock(lease: IsrLease, found: Item | None, now: int, expires_at: int) -> dict[str, Any]:
    """Return the put of the lease, on condition that the row has the failure count that was read.

    A worker that froze after reading must not overwrite the count with failures that a
    success has reset since.
    """
    as_counted = same("failures", (found or {}).get("failures"))
    return put(new_lock(lease.pk, lease.lease_token, lease.lease_owner, expires_at), all_of(is_free(now), as_counted))


def _request(lease: IsrLease, attempt: Attempt, claim: Claim, found: Item | None, expires_at: int) -> dict[str, Any]:
    return update(key(lease.pk, attempt.sk), attempt.started(claim.request_hash, expires_at), is_unchanged(found))


def _check_refusal(
    connection: Connection, lease: IsrLease, prepared: _PreparedClaim, claim: Claim, error: Exception
) -> Exception | None:
    """Classify the rows that refused the transaction: None if they are ours, else the error once retries run out."""
    why: Refusal = prepared.transaction.refusal(error)
    if Purpose.LOCK in why:
        row = why[Purpose.LOCK] or {}
        lock = lock_of(row) if row else Lock(lease_expires_at=connection.second())  # released since it was read
        if text(row, "lease_token") == lease.lease_token:
            lease.granted(lock.lease_expires_at, prepared.sent_at)
            return None
        # The lease may have expired by now; it was held, or in backoff, when it refused
        # the request.
        return held_error(lease.pk, lock)
    row = why.get(Purpose.REQUEST) or {}
    try:
        earlier = request_of(row, claim.key, 0) if row else None
    except TheorydbError as malformed:
        return malformed
    if earlier is None:
        return error
    # Claimed since it was read, whatever its outcome.
    return claim_error(earlier, claim, connection.now()) or in_progress_error(earlier)


def _failed(connection: Connection, lease: IsrLease, error: Exception, unanswered: bool) -> Exception:
    """Return the error of a failed claim. If a request got no reply, the rows may be ours: release them."""
    if isinstance(error, _DEFINITE):
        return error
    if unanswered:
        return abandon(connection, lease, error)
    return error if isinstance(error, TheorydbError) else read_failure(f"acquire the lease of {lease.pk}", error)
