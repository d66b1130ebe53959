"""AES-256-GCM, by the package cryptography, which is optional."""

from __future__ import annotations

import os
from types import ModuleType

NONCE_SIZE = 12  # bytes
TAG_SIZE = 16  # bytes


def aead_module() -> ModuleType:
    """Import the ciphers of cryptography. Raises ImportError with the command that installs it."""
    try:
        from cryptography.hazmat.primitives.ciphers import aead
    except ImportError as error:
        raise ImportError(
            "encrypted attributes need the package cryptography: pip install 'facetheory-tabletheory[encryption]'"
        ) from error
    return aead


class Cipher:
    """Encrypts under one key, with random nonces. Safe for concurrent use."""

    def __init__(self, key: bytes) -> None:
        self._aead = aead_module().AESGCM(key)

    def encrypt(self, plaintext: bytes, additional_data: bytes) -> tuple[bytes, bytes]:
        """Return the nonce, and the ciphertext with its tag."""
        nonce = os.urandom(NONCE_SIZE)
        return nonce, self._aead.encrypt(nonce, plaintext, additional_data)

    def decrypt(self, nonce: bytes, ciphertext: bytes, additional_data: bytes) -> bytes | None:
        """Return the plaintext; None: the authentication failed."""
        from cryptography.exceptions import InvalidTag

        try:
            plaintext: bytes = self._aead.decrypt(nonce, ciphertext, additional_data)
        except InvalidTag:
            return None
        return plaintext
