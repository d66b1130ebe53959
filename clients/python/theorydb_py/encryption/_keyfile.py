"""A key provider whose master keys are in a file."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO

from theorydb_py.encryption._masterkey import MasterKey, id_in, is_comment, new_line, parse_keys
from theorydb_py.encryption._provider import DataKey
from theorydb_py.errors import InvalidInputError, UnknownKeyError

_MODE = 0o600
_MAX_SIZE = 1 << 20  # bytes; about 14,000 keys

_HEADER = """\
# Master keys of encrypted attributes (package tabletheory/envelope).
# Each line: id and key (32 bytes in base64). The first key seals, all keys open.
# Without the keys, encrypted data is lost. Back up this file and keep it secret.
"""


class KeyFile:
    """A provider for development, with its master keys in a file that Go and TypeScript read, too.

    Safe for concurrent use, also by several processes. The file must have the mode 0600.
    Each line has an id, a space and 32 bytes in base64, the newest key first. Empty
    lines, and lines that begin with #, are ignored.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the file. If it does not exist, it is created with one key; its folder must exist.

        Raises:
            InvalidInputError: the file or its mode is invalid.
            OSError: it cannot be read or created.
            ImportError: the package cryptography is missing.
        """
        self._path = Path(path)
        try:
            self._keys = _load(self._path)
        except FileNotFoundError:
            _create(self._path)
            self._keys = _load(self._path)

    def new_data_key(self) -> DataKey:
        """Create a data key, sealed by the newest master key."""
        return self._keys[0].new_data_key()

    def open_data_key(self, sealed: bytes) -> bytes:
        """Open a data key with the master key that sealed it.

        If that key is not in memory, the file is read again, as another process may
        have added it.

        Raises:
            UnknownKeyError, TamperedError, MalformedRowError: see KeyProvider.
            InvalidInputError, OSError: the file cannot be read again.
        """
        name = id_in(sealed)
        found = self._find(name)
        if found is None:
            self._keys = _load(self._path)
            found = self._find(name)
        if found is None:
            raise UnknownKeyError(
                f"unknown master key: the data key was sealed by {name}, which is not in {self._path}: "
                "restore its line from a backup of the file"
            )
        return found.open(sealed)

    def rotate(self) -> None:
        """Add a new master key to the file. From then on it seals, and all keys open.

        Attributes are sealed by the new key when they are written again; an old key may
        be deleted from the file once no attribute uses it. Other processes seal with
        the new key after they open the file again, or an attribute that it sealed.

        Raises:
            FileExistsError: another process is rotating the file, or was interrupted.
            InvalidInputError, OSError: see KeyFile.
        """
        self._keys = _rotate(self._path.resolve(strict=True))  # else a link would be replaced

    def _find(self, name: str) -> MasterKey | None:
        return next((key for key in self._keys if key.id == name), None)


def _load(path: Path) -> tuple[MasterKey, ...]:
    try:
        return parse_keys(_read(path))
    except InvalidInputError as error:
        raise InvalidInputError(f"key file {path}: {error}") from error


def _read(path: Path) -> str:
    """Check the type, mode and size of a file and read it."""
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise InvalidInputError("expected the path of a regular file")
        if stat.S_IMODE(mode) & 0o077:
            raise InvalidInputError(
                f"mode {stat.S_IMODE(mode):04o} gives other users access to the keys: chmod 600 {path}"
            )
        content = file.read(_MAX_SIZE + 1)
    if len(content) > _MAX_SIZE:
        raise InvalidInputError(f"expected at most {_MAX_SIZE} bytes, found more")
    return content.decode(errors="surrogateescape")


def _create(path: Path) -> None:
    """Create a file with one key, unless another process creates it first."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            _write(file, f"{_HEADER}{new_line()}\n")
        # The file appears atomically. A link, unlike a rename, does not replace the keys
        # of another process.
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(name)
    finally:
        Path(name).unlink()
    _sync_folder(path)


def _rotate(path: Path) -> tuple[MasterKey, ...]:
    """Add a key in front of the others.

    The new file doubles as a lock: only one process can create it, reads the old file
    while holding it, and releases it by renaming it over the old file. So no key is lost.
    """
    following = path.with_name(f"{path.name}.new")
    try:
        descriptor = os.open(following, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    except FileExistsError as error:
        raise FileExistsError(
            f"key file {path}: another process is rotating it or was interrupted: try again; "
            f"if {following} remains, delete it"
        ) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            _load(path)  # refuses an invalid file
            text = _inserted(new_line(), _read(path))
            _write(file, text)
        following.replace(path)
    except BaseException:
        following.unlink(missing_ok=True)
        raise
    # Synced before the new key seals anything: a crash must not undo the rename. From
    # the rename on, a file of this name belongs to another process.
    _sync_folder(path)
    return parse_keys(text)


def _inserted(line: str, text: str) -> str:
    """Insert a line before the first one that is not a comment."""
    lines = text.split("\n")
    at = next(i for i, old in enumerate(lines) if not is_comment(old))
    return "\n".join([*lines[:at], line, *lines[at:]])


def _write(file: BinaryIO, text: str) -> None:
    file.write(text.encode(errors="surrogateescape"))
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    """Sync the folder of a file, and with it the file's entry."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
