"""The built and installed package, and the programs of the README."""

from __future__ import annotations

import contextlib
import email
import fcntl
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import theorydb_py
from tests.conftest import Engine

ROOT = Path(__file__).parents[1]
NAME = f"facetheory_tabletheory-{theorydb_py.__version__}"
DEPENDENCIES = sysconfig.get_path("purelib")  # contains boto3, but not this package


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def once_per_run(factory: pytest.TempPathFactory, name: str) -> Iterator[tuple[Path, bool]]:
    """Return a folder that the workers of pytest-xdist share, and whether this one has to fill it."""
    shared = factory.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else factory.getbasetemp()
    folder, done = shared / name, shared / f"{name}.done"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder, not done.exists()
        done.touch()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source archive, and the wheel from it."""
    with once_per_run(tmp_path_factory, "dist") as (folder, first):
        if first:
            run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment that contains only the wheel."""
    with once_per_run(tmp_path_factory, "installed") as (folder, first):
        python = folder / "bin" / "python"
        if first:
            venv.create(folder, with_pip=False)
            pip = ("-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps")
            run(sys.executable, *pip, built / f"{NAME}-py3-none-any.whl")
    return python


def test_wheel_contains_only_the_package(built: Path) -> None:
    with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
        metadata = email.message_from_bytes(wheel.read(f"{NAME}.dist-info/METADATA"))
    package = {
        str(path.relative_to(ROOT))
        for path in ROOT.glob("theorydb_py/**/*")
        if path.suffix == ".py" or path.name == "py.typed"
    }
    assert {name for name in names if ".dist-info/" not in name} == package
    assert f"{NAME}.dist-info/licenses/LICENSE" in names
    assert (metadata["Name"], metadata["Version"]) == ("facetheory-tabletheory", theorydb_py.__version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    assert urls["Homepage"] == "https://github.com/facetheory/isr"
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = [f'{needed} ; extra == "encryption"' for needed in project["optional-dependencies"]["encryption"]]
    assert metadata.get_all("Requires-Dist") == [*project["dependencies"], *extra]


def test_source_archive_contains_the_sources(built: Path) -> None:
    with tarfile.open(built / f"{NAME}.tar.gz") as archive:
        names = set(archive.getnames())
    for wanted in ("pyproject.toml", "README.md", "LICENSE", "theorydb_py/py.typed"):
        assert f"{NAME}/{wanted}" in names
    # The tests stay in the repository, as they need its vectors.
    assert not any(name.startswith(f"{NAME}/tests") for name in names)


def test_archives_can_be_uploaded(built: Path) -> None:
    archives = (built / f"{NAME}.tar.gz", built / f"{NAME}-py3-none-any.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", *archives)


def test_installed_wheel_is_typed(installed: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from dataclasses import dataclass\n"
        "import theorydb_py\n"
        "from theorydb_py.model import ModelDefinition, theorydb_field\n"
        "@dataclass\n"
        "class Song:\n"
        '    pk: str = theorydb_field(roles=["pk"])\n'
        "model: ModelDefinition[Song] = ModelDefinition.from_dataclass(Song)\n"
        'print(theorydb_py.__file__, model.unmarshal({"pk": {"S": "x"}}).pk.upper())\n'
    )
    where, word = run(installed, "-P", program, PYTHONPATH=DEPENDENCIES).split()
    assert Path(where).is_relative_to(installed.parents[1])
    assert word == "X"
    strictly = ("-m", "mypy", "--strict", "--python-executable", installed, "--config-file", os.devnull)
    checked = run(sys.executable, *strictly, program, cwd=tmp_path)  # not next to the sources
    assert "Success" in checked


def test_readme_programs(installed: Path, engine: Engine, table_name: str, tmp_path: Path) -> None:
    written = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    expected = [["fresh", "Sinnerman 1965"], ["DE02120300000000202051"]]
    program = tmp_path / "program.py"
    for text, lines in [*zip(written, expected, strict=True)] * 2:
        program.write_text(text)
        output = run(
            installed,
            "-P",
            program,
            cwd=tmp_path,
            PYTHONPATH=DEPENDENCIES,
            AWS_ENDPOINT_URL_DYNAMODB=engine.url,
            AWS_DEFAULT_REGION="us-east-1",
            AWS_ACCESS_KEY_ID="test",
            AWS_SECRET_ACCESS_KEY="test",  # noqa: S106 any does
            FACETHEORY_CACHE_TABLE_NAME=table_name,
        )
        assert output.splitlines() == lines
