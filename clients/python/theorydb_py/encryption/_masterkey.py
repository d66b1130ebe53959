"""Master keys in a text file."""

from __future__ import annotations

import base64
import re
import secrets
from dataclasses import dataclass

from theorydb_py.encryption._cipher import NONCE_SIZE, TAG_SIZE, Cipher
from theorydb_py.encryption._plaintext import decode_base64
from theorydb_py.encryption._provider import DATA_KEY_SIZE, DataKey
from theorydb_py.errors import InvalidInputError, MalformedRowError, TamperedError

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_FIELDS = 2  # of a line


@dataclass(frozen=True)
class MasterKey:
    """A key that seals data keys.

    A sealed data key is the length of the id (one byte), the id, a nonce, and the
    AES-256-GCM ciphertext. The length and the id are the additional data.
    """

    id: str
    cipher: Cipher

    def new_data_key(self) -> DataKey:
        """Create a data key, sealed by this key."""
        plain, header = secrets.token_bytes(DATA_KEY_SIZE), bytes([len(self.id)]) + self.id.encode()
        nonce, ciphertext = self.cipher.encrypt(plain, header)
        return DataKey(plain, header + nonce + ciphertext)

    def open(self, sealed: bytes) -> bytes:
        """Open a data key that has this key's id. Raises TamperedError if another key sealed it."""
        start = 1 + len(self.id)
        nonce, ciphertext = sealed[start : start + NONCE_SIZE], sealed[start + NONCE_SIZE :]
        plain = self.cipher.decrypt(nonce, ciphertext, sealed[:start])
        if plain is None:
            raise TamperedError(
                f"authentication of the data key failed: it was modified, or sealed by another key of the id {self.id}"
            )
        return plain


def id_in(sealed: bytes) -> str:
    """Return the id of the master key that sealed a data key. Raises MalformedRowError if none did."""
    size = sealed[0] if sealed else 0
    found = sealed[1 : 1 + size].decode(errors="replace")
    if len(sealed) != 1 + size + NONCE_SIZE + DATA_KEY_SIZE + TAG_SIZE or _ID.fullmatch(found) is None:
        expected, other = "a data key that a key file sealed", "one of another provider"
        raise MalformedRowError(f"expected {expected}, found {other}", expected=expected, found=other)
    return found


def new_line() -> str:
    """Return a new master key, as a line of a key file without its line feed."""
    name = base64.b32encode(secrets.token_bytes(16)).decode().rstrip("=")
    return f"{name} {base64.b64encode(secrets.token_bytes(DATA_KEY_SIZE)).decode()}"


def is_comment(line: str) -> bool:
    """Return whether a line of a key file is a comment or empty."""
    return line.strip()[:1] in ("", "#")


def parse_keys(text: str) -> tuple[MasterKey, ...]:
    """Parse a key file.

    Raises:
        InvalidInputError: a line is invalid, or there is no key. It has the number of
            the line but does not quote it, as it may contain a key.
    """
    keys: dict[str, tuple[int, MasterKey]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if is_comment(line):
            continue
        key = _parse_line(number, line)
        if key.id in keys:
            raise InvalidInputError(
                f"line {number}: same id as line {keys[key.id][0]}: every key needs an id of its own"
            )
        keys[key.id] = (number, key)
    if not keys:
        raise InvalidInputError(
            "no key in the file: restore it from a backup, or, if nothing was encrypted with it, delete it to create a "
            "new one"
        )
    return tuple(key for _, key in keys.values())


def _parse_line(number: int, line: str) -> MasterKey:
    fields = line.split()
    if len(fields) != _FIELDS or _ID.fullmatch(fields[0]) is None:
        raise InvalidInputError(
            f"line {number}: expected an id (1 to 64 letters, digits, - and _), a space, and a key of {DATA_KEY_SIZE} "
            "bytes in base64"
        )
    try:
        key = decode_base64(fields[1])
    except ValueError:
        key = b""
    if len(key) != DATA_KEY_SIZE:
        raise InvalidInputError(
            f"line {number}: key {fields[0]} is not {DATA_KEY_SIZE} bytes in base64: restore the line from a backup"
        )
    return MasterKey(fields[0], Cipher(key))
