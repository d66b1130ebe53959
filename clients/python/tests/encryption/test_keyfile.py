"""Key files, which Go and TypeScript read, too."""

from __future__ import annotations

import base64
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from theorydb_py.encryption import DataKey, KeyFile
from theorydb_py.errors import InvalidInputError, TamperedError, UnknownKeyError


def line(name: str, byte: int) -> str:
    return f"{name} {base64.b64encode(bytes([byte] * 32)).decode()}\n"


def written(path: Path, text: str) -> Path:
    path.write_text(text, newline="")
    path.chmod(0o600)
    return path


def test_creation(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    made = KeyFile(str(path)).new_data_key()
    assert path.stat().st_mode & 0o777 == 0o600
    assert KeyFile(path).open_data_key(made.sealed) == made.plain
    assert len(made.plain) == 32
    assert list(tmp_path.iterdir()) == [path]
    text = path.read_text()
    assert text.startswith("# Master keys of encrypted attributes (package tabletheory/envelope).\n")
    name, key = text.splitlines()[-1].split()
    assert (len(name), len(base64.b64decode(key))) == (26, 32)
    assert text.endswith("\n")


def test_the_first_key_seals(tmp_path: Path) -> None:
    old = KeyFile(written(tmp_path / "old", line("old", 1))).new_data_key()
    both = KeyFile(
        written(tmp_path / "both", "# a comment\n\n  \t\n" + line("new-1_A", 2) + "# x\r\n" + line(" old", 1))
    )
    assert both.open_data_key(old.sealed) == old.plain
    new = both.new_data_key()
    assert KeyFile(written(tmp_path / "new", line("new-1_A", 2))).open_data_key(new.sealed) == new.plain


def test_modes(tmp_path: Path) -> None:
    path = written(tmp_path / "keys", line("a", 1))
    for mode in (0o604, 0o640, 0o660, 0o666, 0o601):
        path.chmod(mode)
        with pytest.raises(InvalidInputError, match=f"chmod 600 {path}"):
            KeyFile(path)


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        KeyFile(tmp_path)
    with pytest.raises(FileNotFoundError):
        KeyFile(tmp_path / "none" / "keys")
    with pytest.raises(InvalidInputError, match="key file /dev/null: expected the path of a regular file"):
        KeyFile("/dev/null")
    with pytest.raises(InvalidInputError, match="at most 1048576 bytes"):
        KeyFile(written(tmp_path / "large", "#\n" * (1 << 19) + "#"))
    with pytest.raises(InvalidInputError, match="line 1: expected an id"):
        KeyFile(written(tmp_path / "long", "x" * 70_000))


def test_rotation(tmp_path: Path) -> None:
    path = written(tmp_path / "keys", "# owner: me\n" + line("first", 1))
    with path.open("ab") as file:
        file.write(b"# the \xff end\n")
    keys, other = KeyFile(path), KeyFile(path)
    first = keys.new_data_key()
    keys.rotate()
    second = keys.new_data_key()
    for reader in (keys, KeyFile(path), other):  # the last one reads the file again
        assert reader.open_data_key(first.sealed) == first.plain
        assert reader.open_data_key(second.sealed) == second.plain
    lines = path.read_bytes().split(b"\n")
    assert (len(lines), lines[2] + b"\n", lines[3:]) == (5, line("first", 1).encode(), [b"# the \xff end", b""])
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
    only_second = KeyFile(written(tmp_path / "second", lines[1].decode() + "\n"))
    assert only_second.open_data_key(other.new_data_key().sealed)


def test_rotation_through_a_link(tmp_path: Path) -> None:
    path, link = written(tmp_path / "keys", line("a", 1)), tmp_path / "link"
    link.symlink_to(path)
    keys = KeyFile(link)
    keys.rotate()
    made = keys.new_data_key()
    assert link.is_symlink()
    assert KeyFile(path).open_data_key(made.sealed) == made.plain


def test_rotation_is_locked(tmp_path: Path) -> None:
    path = written(tmp_path / "keys", line("a", 1))
    keys, lock = KeyFile(path), written(tmp_path / "keys.new", "")
    with pytest.raises(FileExistsError, match=f"if {lock} remains, delete it"):
        keys.rotate()
    assert (path.read_text(), lock.exists()) == (line("a", 1), True)


def test_rotation_of_an_invalid_file(tmp_path: Path) -> None:
    path = written(tmp_path / "keys", line("a", 1))
    keys = KeyFile(path)
    path.write_text("damaged\n")
    with pytest.raises(InvalidInputError, match="line 1"):
        keys.rotate()
    assert path.read_text() == "damaged\n"
    assert list(tmp_path.iterdir()) == [path]


def test_unknown_master_keys(tmp_path: Path) -> None:
    lost = KeyFile(written(tmp_path / "lost", line("lost", 1))).new_data_key()
    path = written(tmp_path / "another", line("another", 1))
    keys = KeyFile(path)
    with pytest.raises(
        UnknownKeyError, match=f"sealed by lost, which is not in {path}: restore its line from a backup"
    ):
        keys.open_data_key(lost.sealed)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        keys.open_data_key(lost.sealed)
    with pytest.raises(TamperedError, match="another key of the id lost"):
        KeyFile(written(tmp_path / "forged", line("lost", 2))).open_data_key(lost.sealed)


def test_concurrent_processes_lose_no_key(tmp_path: Path) -> None:
    path = tmp_path / "keys"

    def process(_: int) -> list[DataKey]:
        keys = KeyFile(path)
        made = [keys.new_data_key()]
        try:
            keys.rotate()
        except FileExistsError:
            return made
        return [*made, keys.new_data_key()]

    with ThreadPoolExecutor(8) as pool:
        made = [key for keys in pool.map(process, range(8)) for key in keys]
    keys = KeyFile(path)
    for key in made:
        assert keys.open_data_key(key.sealed) == key.plain
    assert list(tmp_path.iterdir()) == [path]


def test_cryptography_is_optional(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    with pytest.raises(ImportError, match=r"pip install 'facetheory-tabletheory\[encryption\]'"):
        KeyFile(tmp_path / "keys")
