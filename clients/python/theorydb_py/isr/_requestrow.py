"""The REQ# row: a request record, the state of an idempotency key."""

from __future__ import annotations

from dataclasses import dataclass

from theorydb_py._times import format_time
from theorydb_py._values import Attribute
from theorydb_py.errors import (
    RequestCompletedError,
    RequestInProgressError,
    RequestMismatchError,
    TheorydbError,
)
from theorydb_py.isr._entry import RequestRecord
from theorydb_py.isr._expression import Condition, absent, all_of, compare, exists, same
from theorydb_py.isr._keys import check_request_hash, check_request_key
from theorydb_py.isr._lockrow import LINGER, is_held
from theorydb_py.isr._names import REQUEST_PREFIX
from theorydb_py.isr._numbers import check_interval
from theorydb_py.isr._row import (
    EXPECTED_TEXT,
    Item,
    lease_end_of,
    lenient_number,
    lenient_text,
    malformed,
    number,
    read,
    string,
    text,
    text_of,
)

STARTED, COMPLETED, FAILED = "STARTED", "COMPLETED", "FAILED"
_EXPECTED_STATUS = "STARTED, COMPLETED or FAILED"
_MAX_FAILURE = 1024
"""How much of a failure's reason is kept, in bytes."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A request with an idempotency key: it is executed once, however often it is made."""

    key: str
    """The idempotency key."""
    request_hash: str
    """The hex SHA-256 of its inputs; see hash_inputs."""
    keep_seconds: float = 24 * 3600
    """How long its record is kept, in seconds after it was made."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An attempt at a request: its token grants the right to end it."""

    sk: str
    token: str
    keep: int
    """The earliest ttl of the record, in epoch seconds."""

    @staticmethod
    def of(claim: Claim, now: int, token: str) -> Attempt:
        """Return a new attempt at a claim. Raises InvalidKeyError or InvalidInputError."""
        kept = check_interval("keep_seconds", claim.keep_seconds)
        return Attempt(sk=REQUEST_PREFIX + claim.key, token=token, keep=now + kept + 1)

    def started(self, request_hash: str, until: int) -> dict[str, Attribute | None]:
        """Return the changes of a claim to the row. Unknown attributes stay."""
        return {
            "request_hash": string(request_hash),
            "status": string(STARTED),
            "attempt_token": string(self.token),
            **self.extended(until),
            "result_s3_key": None,
            "generation_id": None,
            "error": None,
        }

    def extended(self, until: int) -> dict[str, Attribute | None]:
        """Return the attributes of a request in progress until then. The record is kept for longer."""
        return {"in_progress_until": number(until), "ttl": number(max(self.keep, until + LINGER))}

    def is_ours(self) -> Condition:
        """Require that the request is STARTED under our token."""
        return all_of(compare("attempt_token", "=", string(self.token)), compare("status", "=", string(STARTED)))


def check_claim(claim: Claim) -> None:
    """Raise InvalidKeyError or InvalidInputError for a claim that cannot be stored."""
    check_request_key(claim.key)
    check_request_hash(claim.request_hash)
    check_interval("keep_seconds", claim.keep_seconds)


def completed(s3_key: str, generation_id: str) -> dict[str, Attribute | None]:
    """Return the changes that complete a request. Its ttl stays."""
    return {
        "status": string(COMPLETED),
        "result_s3_key": string(s3_key) if s3_key else None,
        "generation_id": string(generation_id) if generation_id else None,
        "in_progress_until": None,
        "error": None,
    }


def failed(reason: str) -> dict[str, Attribute | None]:
    """Return the changes that fail a request, with at most 1,024 bytes of the reason."""
    kept = reason.encode("utf-8", "replace")[:_MAX_FAILURE].decode("utf-8", "ignore")
    return {
        "status": string(FAILED),
        "result_s3_key": None,
        "generation_id": None,
        "in_progress_until": None,
        "error": string(kept) if kept else None,
    }


def request_of(item: Item, key: str, now: int) -> RequestRecord | None:
    """Decode a request record; None if it has expired, as DynamoDB deletes it some time later.

    Raises MalformedRowError if it is unreadable: the request may have been executed.
    """
    end = read(item, "ttl", lenient_number, 0)
    if 0 < end <= now:
        return None
    if text(item, "request_hash") == "":
        raise malformed(item, "request_hash", EXPECTED_TEXT)
    if text(item, "status") not in (STARTED, COMPLETED, FAILED):
        raise malformed(item, "status", _EXPECTED_STATUS)
    return RequestRecord(
        key=key,
        request_hash=text(item, "request_hash"),
        status=text(item, "status"),
        result_s3_key=read(item, "result_s3_key", text_of, ""),
        generation_id=read(item, "generation_id", lenient_text, ""),
        in_progress_until=read(item, "in_progress_until", lease_end_of, 0),
        error=read(item, "error", lenient_text, ""),
    )


def is_unchanged(item: Item | None) -> Condition:
    """Require that a REQ# row is as it was read: not refreshed, taken over or ended since."""
    if item is None:
        return absent()
    names = ("request_hash", "status", "attempt_token", "in_progress_until", "ttl")
    return all_of(exists(), *(same(name, item.get(name)) for name in names))


def claim_error(earlier: RequestRecord, claim: Claim, now: float) -> TheorydbError | None:
    """Return the error of a claim while this record stands; None: the claim may start."""
    what = f"request {claim.key!r}"
    if earlier.request_hash != claim.request_hash:
        return RequestMismatchError(
            f"{what}: its idempotency key was used with other inputs: use a new key for a new request"
        )
    if earlier.status == COMPLETED:
        return RequestCompletedError(
            f"{what} is completed: use its result",
            result_s3_key=earlier.result_s3_key,
            generation_id=earlier.generation_id,
        )
    if earlier.status == STARTED and is_held(earlier.in_progress_until, now):
        return in_progress_error(earlier)
    return None


def in_progress_error(earlier: RequestRecord) -> RequestInProgressError:
    """Return the error of a claim that another attempt is ahead of."""
    return RequestInProgressError(
        f"request {earlier.key!r} is in progress until {format_time(earlier.in_progress_until)}: try again then",
        until=earlier.in_progress_until,
    )
