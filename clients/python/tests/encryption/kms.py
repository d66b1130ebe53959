"""A server for the part of AWS KMS's protocol (JSON 1.1) that envelopes use."""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
from botocore.config import Config

REGION = "eu-central-1"
ARN = f"arn:aws:kms:{REGION}:123456789012:key/"


class RefusedError(Exception):
    """An error reply: its code and message."""


class Kms:
    """Its keys, and the data keys that they sealed. A sealed one is random bytes that only this server resolves."""

    def __init__(self, *ids: str) -> None:
        self.keys = {name: name for name in ids}
        """IDs of keys, by ID and by alias."""
        self.failures: list[tuple[str, str]] = []
        """The codes and messages of the next replies."""
        self.calls: list[str] = []
        self._sealed: dict[bytes, tuple[str, bytes, Any]] = {}
        self._lock = threading.Lock()

    def reply(self, target: str, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.calls.append(target)
            if self.failures:
                raise RefusedError(*self.failures.pop(0))
            match target:
                case "TrentService.GenerateDataKey":
                    return self._generate(**request)
                case "TrentService.Decrypt":
                    return self._decrypt(**request)
        raise RefusedError("UnknownOperationException", target)

    def _generate(self, *, KeyId: str, KeySpec: str, EncryptionContext: Any) -> dict[str, Any]:  # noqa: N803 KMS's names
        if KeySpec != "AES_256":
            raise RefusedError("ValidationException", "KeySpec")
        name, plain, blob = self._key(KeyId), secrets.token_bytes(32), secrets.token_bytes(184)
        self._sealed[blob] = (name, plain, EncryptionContext)
        return {"CiphertextBlob": _base64(blob), "Plaintext": _base64(plain), "KeyId": ARN + name}

    def _decrypt(self, *, KeyId: str, CiphertextBlob: str, EncryptionContext: Any) -> dict[str, Any]:  # noqa: N803
        name = self._key(KeyId)
        sealed = self._sealed.get(base64.b64decode(CiphertextBlob))
        if sealed is None:
            raise RefusedError("InvalidCiphertextException", "")
        if sealed[0] != name:
            raise RefusedError("IncorrectKeyException", "The key ID does not identify the key.")
        if sealed[2] != EncryptionContext:
            raise RefusedError("InvalidCiphertextException", "")
        return {"Plaintext": _base64(sealed[1]), "KeyId": ARN + name, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"}

    def _key(self, name: str) -> str:
        found = self.keys.get(name.removeprefix(ARN))
        if found is None:
            raise RefusedError("NotFoundException", f"Key '{name}' does not exist")
        return found


@contextlib.contextmanager
def serving(kms: Kms) -> Iterator[Any]:
    """Serve it, and yield a boto3 client."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/x-amz-json-1.1"
            assert f"/{REGION}/kms/aws4_request" in self.headers["Authorization"]
            try:
                status, reply = 200, kms.reply(self.headers["X-Amz-Target"], json.loads(body))
            except RefusedError as refused:
                status, reply = 400, {"__type": refused.args[0], "message": refused.args[1]}
            content = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True  # connections are kept alive
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            with connected(server.server_port) as client:
                yield client
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def connected(port: int) -> Iterator[Any]:
    """Yield a boto3 client of the server at a port."""
    client = boto3.client(
        "kms",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 any does
        config=Config(connect_timeout=60, read_timeout=60, retries={"total_max_attempts": 1}),
    )
    try:
        yield client
    finally:
        client.close()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
