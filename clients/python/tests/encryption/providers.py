"""Key providers, and the messages of errors."""

from __future__ import annotations

from collections.abc import Iterator

from theorydb_py.encryption import DataKey, KeyFile


class Fixed:
    """A provider that returns fixed keys."""

    def __init__(self, plain: bytes = bytes(32), sealed: bytes = b"sealed", error: Exception | None = None) -> None:
        self._key = DataKey(plain, sealed)
        self._error = error

    def new_data_key(self) -> DataKey:
        if self._error is not None:
            raise self._error
        return self._key

    def open_data_key(self, sealed: bytes) -> bytes:
        assert sealed
        return self.new_data_key().plain


class Counting(KeyFile):
    """A key file that counts."""

    created, opened = 0, 0

    def new_data_key(self) -> DataKey:
        self.created += 1
        return super().new_data_key()

    def open_data_key(self, sealed: bytes) -> bytes:
        self.opened += 1
        return super().open_data_key(sealed)


def messages(error: BaseException | None) -> Iterator[str]:
    """Yield the messages of an error and of all behind it."""
    while error is not None:
        yield str(error)
        error = error.__cause__ or error.__context__
