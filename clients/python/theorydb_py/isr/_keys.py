"""Cache keys, tenants, idempotency keys, and partition keys made of them."""

from __future__ import annotations

import hashlib
import re

from theorydb_py.errors import InvalidInputError, InvalidKeyError

_MAX_KEY = 4096
_MAX_PK = 2048
_MAX_JOB_KEY = 1024
_MAX_REQUEST_KEY = 256
_MAX_HASH = 256
_TENANT = re.compile(r"[A-Za-z0-9._-]{1,64}")
_REQUEST_KEY = re.compile(r"[!-~]{1,256}")


def hashed_partition(cache_key: str, tenant: str = "") -> str:
    """Return the default partition key: ``CACHE#`` and the hex SHA-256 of the key, prefixed by the tenant.

    It distributes keys evenly, at a fixed length.

    Raises:
        InvalidKeyError: the key has not 1 to 4,096 bytes of UTF-8, or the tenant not 1 to
            64 letters, digits, ``.``, ``_`` and ``-``.
        InvalidInputError: one of them is no str.
    """
    key = check_cache_key(cache_key)
    return _tenant_prefix(tenant) + "CACHE#" + hashlib.sha256(key.encode()).hexdigest()


def raw_partition(cache_key: str, tenant: str = "") -> str:
    """Return the readable partition key: ``CACHE#`` and the key, prefixed by the tenant.

    For tables in which other services use this form.

    Raises:
        InvalidKeyError: as hashed_partition, or the result exceeds DynamoDB's 2,048 bytes.
        InvalidInputError: an argument is no str.
    """
    return check_partition(_tenant_prefix(tenant) + "CACHE#" + check_cache_key(cache_key))


def body_prefix(pk: str) -> str:
    """Return the prefix of a partition's stored bodies, with a slash at the end."""
    return "bodies/" + hashlib.sha256(pk.encode()).hexdigest() + "/"


def job_partition(key: object) -> str:
    """Return the partition key of a job's lease: ``JOB#`` and the key, 1 to 1,024 bytes of UTF-8."""
    return "JOB#" + _sized("the lease key", key, _MAX_JOB_KEY)


def check_cache_key(cache_key: object) -> str:
    """Return the key. Raises InvalidKeyError unless it has 1 to 4,096 bytes of UTF-8."""
    return _sized("the cache key", cache_key, _MAX_KEY)


def check_partition(pk: object) -> str:
    """Return the partition key. Raises InvalidKeyError unless it has 1 to 2,048 bytes of UTF-8."""
    return _sized("the partition key", pk, _MAX_PK, "; use hashed_partition")


def check_tenant(tenant: object) -> str:
    """Return the tenant. Raises InvalidKeyError unless it has 1 to 64 letters, digits, ``.``, ``_`` and ``-``."""
    name = _text("the tenant", tenant)
    if _TENANT.fullmatch(name) is None:
        raise InvalidKeyError(f"the tenant is {name[:70]!r}: expected 1 to 64 of the characters A-Z a-z 0-9 . _ -")
    return name


def check_request_key(key: object) -> str:
    """Return the idempotency key. Raises InvalidKeyError unless it has 1 to 256 printable ASCII characters."""
    name = _text("the idempotency key", key)
    if _REQUEST_KEY.fullmatch(name) is None:
        raise InvalidKeyError(
            f"the idempotency key {name[:60]!r} has {len(name)} characters: expected 1 to {_MAX_REQUEST_KEY} "
            "printable ASCII characters without spaces"
        )
    return name


def check_request_hash(value: object) -> str:
    """Return the hash of a request's inputs. Raises InvalidKeyError unless it has 1 to 256 bytes of UTF-8."""
    return _sized("the request hash", value, _MAX_HASH, "; use hash_inputs")


def _tenant_prefix(tenant: str) -> str:
    return "" if tenant == "" else f"TENANT#{check_tenant(tenant)}#"


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} is {value!r}: expected a str")
    return value


def _sized(name: str, value: object, longest: int, advice: str = "") -> str:
    text = _text(name, value)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidKeyError(f"{name} {text[:60]!r} is not Unicode text: it has a lone surrogate") from None
    if not 1 <= size <= longest:
        raise InvalidKeyError(f"{name} {text[:60]!r} has {size} bytes: expected 1 to {longest}{advice}")
    return text
