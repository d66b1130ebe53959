"""Leases: the right to do something that only one process is to do at a time."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from theorydb_py.answers import read_failure, stored_item, write_failure
from theorydb_py.api import DynamoDB
from theorydb_py.errors import InvalidKeyError, LeaseHeldError, LeaseLostError, UnknownOutcomeError
from theorydb_py.heartbeat import Heartbeat
from theorydb_py.lockrow import (
    IS_FREE,
    IS_HELD,
    IS_OURS,
    LINGER,
    Lock,
    expiry,
    free_at,
    held_at,
    lease_seconds,
    read_lock,
)
from theorydb_py.outcome import Outcome, outcome_of
from theorydb_py.retry import Retry
from theorydb_py.table_name import checked_table_name
from theorydb_py.times import readable_moment

JOB_PREFIX = "JOB#"
"""Begins the partition keys of jobs, whose rows are no page's."""


@dataclass(frozen=True)
class LeaseKey:
    """Where a lease is in the table: its partition and sort key, of 1 to 2,048 and 1,024 bytes."""

    pk: str
    sk: str = "LOCK"

    def __post_init__(self) -> None:
        _check_key("LeaseKey.pk", self.pk, 2048)
        _check_key("LeaseKey.sk", self.sk, 1024)


class Lease:
    """A lease that was acquired, proven by its token.

    The token stays the same for the life of the lease, so that a refresh whose
    reply was lost can be repeated. Safe for concurrent use.
    """

    def __init__(self, key: LeaseKey, token: str, seconds: int, now: Callable[[], float], retry: Retry) -> None:
        """Be made by a LeaseManager."""
        self.key = key
        self.token = token
        self.failures = 0
        """How many attempts had failed in a row before this one."""
        self._now = now
        self._monotonic = retry.monotonic
        self._lock = threading.Lock()
        self._seconds = seconds  # guarded by _lock, as all below
        self._expires_at = 0
        self._deadline = 0.0
        self._over = False
        self._heartbeat: Heartbeat | None = None

    @property
    def seconds(self) -> int:
        """The lifetime that it was last given."""
        with self._lock:
            return self._seconds

    @property
    def expires_at(self) -> int:
        """When it ends unless it is extended, in epoch seconds, as last acknowledged."""
        with self._lock:
            return self._expires_at

    @property
    def lost(self) -> bool:
        """Whether it is over: released, taken by somebody else, or expired.

        By the wall clock that others judge it by, and by the monotonic one, which
        nobody sets.
        """
        with self._lock:
            heartbeat = self._heartbeat
            over = self._over or self._expires_at <= int(self._now()) or self._deadline <= self._monotonic()
        return over or (heartbeat is not None and heartbeat.lost)

    def check(self) -> None:
        """Raise LeaseLostError if it is lost. Call it before each effect that only the holder may have."""
        if self.lost:
            raise LeaseLostError(f"the lease of {self.key.pk} is lost: stop, and leave the rest to its next holder")

    def _granted(self, expires_at: int, started: float, seconds: int) -> None:
        # started is before the request left, so that time on the way counts against us.
        with self._lock:
            self._expires_at, self._deadline, self._seconds = expires_at, started + seconds, seconds

    def _end(self) -> None:
        # A clock that is set back, or a row that comes back from a backup, does
        # not revive it in this process.
        with self._lock:
            self._over = True

    def _ended(self) -> bool:
        with self._lock:
            return self._over

    def _keep_by(self, heartbeat: Heartbeat) -> None:
        with self._lock:
            self._heartbeat = heartbeat


class LeaseManager:
    """Leases in one table, with the same rows and guarantees as in Go and TypeScript.

    At most one unexpired lease per key, whose holder finds out when it has lost
    it. A lease does not stop a holder that was frozen from writing elsewhere
    after it has expired: what it writes should be made conditional as well.

    A key that is text names a job, such as a nightly import that one of many
    processes is to run: 1 to 1,024 bytes, kept in the partition ``JOB#`` + key,
    apart from pages. A LeaseKey names any row. Safe for concurrent use.
    """

    def __init__(
        self,
        client: DynamoDB,
        *,
        table_name: str,
        owner: str = "",
        now: Callable[[], float] = time.time,
        token: Callable[[], str] = lambda: uuid.uuid4().hex,
        ttl_buffer_seconds: int = LINGER,
        retry: Retry | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        """``owner`` is for people who look who has a lease; ``now`` is the wall clock in epoch seconds.

        ``token`` makes a text that nobody can guess, anew each time.
        ``ttl_buffer_seconds`` is how long a row outlives its lease before
        DynamoDB may collect it: longer than clocks differ.
        """
        self._client = client
        self._table = checked_table_name(table_name)
        self._owner = owner
        self._now = now
        self._token = token
        self._linger = lease_seconds("ttl_buffer_seconds", ttl_buffer_seconds)
        self._retry = retry or Retry()
        self._logger = logger or logging.getLogger("theorydb_py")

    def lock_key(self, pk: str, sk: str = "LOCK") -> LeaseKey:
        """Return the key of any row."""
        return LeaseKey(pk, sk)

    def acquire(self, key: str | LeaseKey, *, lease_seconds: float = 30) -> Lease:
        """Take the lease for so long, rounded up to whole seconds; it does not wait.

        LeaseHeldError: somebody else has it. InvalidKeyError, InvalidInputError:
        nothing was asked. Other errors: it was not taken, or given back, unless
        it is an UnknownOutcomeError: then at worst a lease remains that nobody
        uses until it expires.
        """
        lease = Lease(_location(key), self._token(), _whole_seconds(lease_seconds), self._now, self._retry)
        what = f"acquire the lease of {lease.key.pk}"
        started = self._retry.monotonic()
        attempt = 0
        while True:
            attempt += 1
            try:
                self._take(lease)
            except Exception as error:
                outcome = outcome_of(error)
                if outcome is Outcome.CONDITION_FAILED:
                    return self._contest(lease, error, started, what)
                if outcome is Outcome.REFUSED and attempt == 1:
                    raise read_failure(what, error) from error
                if outcome is Outcome.REFUSED or not self._may_go_on(attempt, started):
                    raise self._abandon(lease, error, what) from error
            else:
                return lease

    def refresh(self, lease: Lease, *, lease_seconds: float | None = None) -> None:
        """Extend a held lease from now by so long; None: by the lifetime it has.

        LeaseLostError: it expired or was taken, and cannot come back. Other
        errors leave open whether it was extended; it may be called again.
        """
        seconds = lease.seconds if lease_seconds is None else _whole_seconds(lease_seconds)
        what = f"refresh the lease of {lease.key.pk}"
        if lease._ended():
            raise LeaseLostError(f"{what}: it is lost; acquire it anew")
        try:
            self._retry.bounded(lambda: self._extend(lease, seconds))
        except Exception as error:
            if outcome_of(error) is not Outcome.CONDITION_FAILED:
                raise write_failure(what, error) from error
            lease._end()
            raise LeaseLostError(f"{what}: it is lost ({_who_has(error)}); acquire it anew") from error

    def release(self, lease: Lease) -> None:
        """Give the lease up. Releasing one that is already lost does nothing and is no error."""
        try:
            self._retry.bounded(lambda: self._erase(lease))
        except Exception as error:
            if outcome_of(error) is not Outcome.CONDITION_FAILED:
                raise write_failure(f"release the lease of {lease.key.pk}", error) from error
        lease._end()

    @contextlib.contextmanager
    def lease(self, key: str | LeaseKey, *, lease_seconds: float = 30) -> Iterator[Lease]:
        """Acquire the lease, extend it at a third of its lifetime meanwhile, and release it at the end.

        Python cannot interrupt the work: ask ``lease.lost``, or call
        ``lease.check()``, before each effect. If the lease was lost before the
        end, LeaseLostError is raised there, with the work's own exception as its
        cause. A release that fails is logged, and the lease left to expire.
        """
        began = self._retry.monotonic()
        held = self.acquire(key, lease_seconds=lease_seconds)
        heartbeat = Heartbeat(
            lambda: self.refresh(held),
            name=held.key.pk,
            seconds=held.seconds,
            acquired_at=began,
            logger=self._logger,
            monotonic=self._retry.monotonic,
        )
        held._keep_by(heartbeat)
        try:
            yield held
        except Exception as error:
            if self._finish(held, heartbeat):
                raise _lost_meanwhile(held) from error
            raise
        except BaseException:
            self._finish(held, heartbeat)
            raise
        if self._finish(held, heartbeat):
            raise _lost_meanwhile(held)

    # --- One request each ---------------------------------------------------

    def _take(self, lease: Lease) -> None:
        """Ask for the row once. If we crash here, a lease expires."""
        now, started = self._now(), self._retry.monotonic()
        expires_at = expiry(now, lease.seconds)
        answer = self._client.put_item(
            TableName=self._table,
            Item=self._row(lease, expires_at),
            ConditionExpression=IS_FREE,
            ExpressionAttributeValues=free_at(now),
            ReturnValues="ALL_OLD",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
        # What it replaced: a back-off that has passed, or a lease whose holder died.
        lease.failures = read_lock(answer.get("Attributes", {})).failures
        lease._granted(expires_at, started, lease.seconds)

    def _extend(self, lease: Lease, seconds: int) -> None:
        """Move the end of a lease that is still ours and has not passed.

        A lease that has expired stays so, although the row still carries our
        token: another node may be about to take it, by a request that has already
        been judged.
        """
        now, started = self._now(), self._retry.monotonic()
        expires_at = expiry(now, seconds)
        self._client.update_item(
            TableName=self._table,
            Key=_key(lease),
            UpdateExpression="SET lease_expires_at = :end, #ttl = :ttl",
            ConditionExpression=IS_HELD,
            ExpressionAttributeNames={"#ttl": "ttl"},
            ExpressionAttributeValues={
                **held_at(lease.token, now),
                ":end": {"N": str(expires_at)},
                ":ttl": {"N": str(expires_at + self._linger)},
            },
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
        lease._granted(expires_at, started, seconds)

    def _erase(self, lease: Lease) -> None:
        """Delete the row if it is ours."""
        self._client.delete_item(
            TableName=self._table,
            Key=_key(lease),
            ConditionExpression=IS_OURS,
            ExpressionAttributeValues={":token": {"S": lease.token}},
        )

    def _row(self, lease: Lease, expires_at: int) -> dict[str, Any]:
        owner = {"lease_owner": {"S": self._owner}} if self._owner else {}
        return {
            **_key(lease),
            "lease_token": {"S": lease.token},
            "lease_expires_at": {"N": str(expires_at)},
            "ttl": {"N": str(expires_at + self._linger)},
            **owner,
        }

    # --- What answers mean --------------------------------------------------

    def _may_go_on(self, attempt: int, started: float) -> bool:
        """Wait before another attempt at an acquisition, unless it was tried often or long enough."""
        return attempt < self._retry.attempts and self._retry.pause(attempt, started + self._retry.timeout)

    def _contest(self, lease: Lease, refusal: Exception, started: float, what: str) -> Lease:
        """Look at the row that refused us.

        Our own token on it means that an earlier attempt, ours or boto3's, was
        carried out and its reply lost.
        """
        lock = read_lock(stored_item(refusal) or {})
        if lock.token == lease.token:
            lease._granted(lock.expires_at, started, lease.seconds)
            return lease
        raise LeaseHeldError(
            f"{what}: {_holder(lock)}", owner=lock.owner, expires_at=lock.expires_at, failures=lock.failures
        ) from refusal

    def _abandon(self, lease: Lease, cause: Exception, what: str) -> Exception:
        """Make sure that a lease whose acquisition was not answered is nobody's, and return what to raise.

        After a definite answer no row carries the token, and no request that
        demands it can succeed any more.
        """
        try:
            self._retry.until(self._retry.monotonic() + self._retry.timeout, lambda: self._erase(lease))
        except Exception as error:
            if outcome_of(error) is not Outcome.CONDITION_FAILED:
                return UnknownOutcomeError(f"{what}: there was no answer ({cause}), nor to giving it back: {error}")
        self._logger.warning("settled an unanswered acquisition of %s: %s", lease.key.pk, cause)
        return read_failure(what, cause)

    def _finish(self, lease: Lease, heartbeat: Heartbeat) -> bool:
        """End the heartbeat and release the lease; say whether it was lost before."""
        lost = lease.lost
        lost = heartbeat.stop() or lost
        try:
            self.release(lease)
        except Exception as error:
            self._logger.warning("the lease of %s could not be released and is left to expire: %s", lease.key.pk, error)
        return lost


def _whole_seconds(seconds: float) -> int:
    return lease_seconds("lease_seconds", seconds)


def _location(key: str | LeaseKey) -> LeaseKey:
    if isinstance(key, LeaseKey):
        return key
    _check_key("the key of a lease", key, 1024)
    return LeaseKey(JOB_PREFIX + key)


def _check_key(what: str, key: object, longest: int) -> None:
    try:
        size = len(key.encode()) if isinstance(key, str) else 0
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= longest:
        raise InvalidKeyError(f"{what}: expected text of 1 to {longest} bytes of UTF-8, found {key!r:.60}")


def _key(lease: Lease) -> dict[str, Any]:
    return {"pk": {"S": lease.key.pk}, "sk": {"S": lease.key.sk}}


def _holder(lock: Lock) -> str:
    until = readable_moment(lock.expires_at)
    if lock.failures and not lock.owner:
        return f"it rests after {lock.failures} failures until {until}"
    return f"it is held by {lock.owner or 'another holder'} until {until}"


def _who_has(error: BaseException) -> str:
    item = stored_item(error)
    return _holder(read_lock(item)) if item else "there is no lease"


def _lost_meanwhile(lease: Lease) -> LeaseLostError:
    return LeaseLostError(f"the lease of {lease.key.pk} was lost before the work ended; others may have done it too")
