"""Stored bodies in S3, as ``isr serve`` writes and reads them."""

from __future__ import annotations

import base64
import hashlib
import logging
import zlib
from typing import Any

from botocore.exceptions import ClientError

from theorydb_py.isr import Entry
from theorydb_py.web._presented import presented

_logger = logging.getLogger("theorydb_py.web")


class Bodies:
    """The bodies of a bucket. Safe for concurrent use, as boto3's clients are."""

    def __init__(self, client: Any, bucket: str, max_body: int) -> None:
        """Use a bucket through ``boto3.client("s3")``."""
        self._client = client
        self._bucket = bucket
        self._max_body = max_body

    def put(self, key: str, body: bytes) -> None:
        """Store a body under a new key. Raises botocore's errors."""
        try:
            self._client.put_object(
                Bucket=self._bucket,
                Key=key,
                Body=body,
                ContentType="application/octet-stream",
                ChecksumCRC32=base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode(),
                IfNoneMatch="*",
            )
        except ClientError as error:
            # boto3 repeats a put whose reply was lost, and then finds its own object: the key is unique.
            found = self._read(key) if _status(error) == 412 else None
            if found is None or found[0] != body:
                raise

    def get(self, entry: Entry) -> tuple[Entry, bytes] | None:
        """Return an entry and its body; None if that is missing, damaged or too large. Raises botocore's other errors.

        An entry of another service has the status and header that stand beside the body;
        None if they cannot be served.
        """
        key = self._key(entry.s3_key)
        if key is None or entry.content_length > self._max_body:
            return None
        found = self._read(key)
        if found is None:
            return None
        body, metadata = found
        if entry.foreign:
            try:
                return presented(entry, metadata), body
            except ValueError as error:
                _logger.warning("%s cannot be served with its metadata: %s", entry.s3_key, error)
                return None
        intact = len(body) == entry.content_length and hashlib.sha256(body).hexdigest() == entry.content_sha256
        return (entry, body) if intact else None

    def _key(self, s3_key: str) -> str | None:
        """Return a key in the bucket; None if it names another bucket."""
        if not s3_key.startswith("s3://"):
            return s3_key
        bucket, _, key = s3_key.removeprefix("s3://").partition("/")
        return key if bucket == self._bucket else None

    def _read(self, key: str) -> tuple[bytes, dict[str, str]] | None:
        """Return an object and its metadata."""
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
        except ClientError as error:
            if _status(error) == 404:
                return None
            raise
        with answer["Body"] as stream:
            body: bytes = stream.read(self._max_body + 1)
        return (body, answer["Metadata"]) if len(body) <= self._max_body else None


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
