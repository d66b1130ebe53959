"""What creates and opens data keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

DATA_KEY_SIZE = 32  # bytes
MAX_SEALED_SIZE = 6144  # bytes; the limit of KMS


@dataclass(frozen=True)
class DataKey:
    """A new data key."""

    plain: bytes = field(repr=False)
    """32 bytes."""
    sealed: bytes
    """What is stored: the key, sealed by a master key; 1 to 6,144 bytes."""


class KeyProvider(Protocol):
    """Creates and opens the data keys of encrypted attributes. Safe for concurrent use.

    Other errors than those below reach callers of a Table as the ``__cause__`` of a
    KeyProviderError.
    """

    def new_data_key(self) -> DataKey:
        """Create a data key. The provider does not keep it."""

    def open_data_key(self, sealed: bytes) -> bytes:
        """Open a data key that this provider, or one with the same master key, has sealed.

        Data keys that were sealed before the master key was rotated stay readable.

        Raises:
            UnknownKeyError: the provider does not have the master key that sealed it.
            TamperedError: it was modified.
            MalformedRowError: it was sealed by another kind of provider.
        """
