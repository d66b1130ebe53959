"""The built and installed package, and the programs of the README."""

from __future__ import annotations

import contextlib
import email
import fcntl
import os
import re
import shutil
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
from packaging.requirements import Requirement

import theorydb_py
from tests.conftest import EACH_ENGINE, Engine

ROOT = Path(__file__).parents[1]
NAME = f"facetheory_tabletheory-{theorydb_py.__version__}"
VERSIONS = dict(part.split("=", 1) for part in os.environ.get("ISR_TEST_PYTHONS", "").split(",") if part)
"""Interpreters of other versions that tools/install.sh has found, in environments with the dependencies and pytest."""
PURE = ["tests/isr/test_pure_vectors.py", "tests/test_encodings.py", "tests/test_outcome.py"]
NATIVE = [  # which use sockets, threads or native code
    "tests/isr/test_read_vectors.py",
    "tests/isr/test_write_vectors.py",
    "tests/isr/test_refused_vectors.py",
    "tests/test_contract.py",
    "tests/encryption/test_vectors.py",
]
DEPENDENCIES = sysconfig.get_path("purelib")  # contains boto3, but not this package


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
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
        for folder in ("theorydb_py", "tabletheory_py")
        for path in ROOT.glob(f"{folder}/**/*")
        if path.suffix in (".py", ".pyi") or path.name == "py.typed"
    }
    assert {name for name in names if ".dist-info/" not in name} == package
    assert f"{NAME}.dist-info/licenses/LICENSE" in names
    assert (metadata["Name"], metadata["Version"]) == ("facetheory-tabletheory", theorydb_py.__version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    assert urls["Homepage"] == "https://github.com/facetheory/isr"
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = [f'{needed}; extra == "encryption"' for needed in project["optional-dependencies"]["encryption"]]
    required = {Requirement(line) for line in metadata.get_all("Requires-Dist", [])}
    assert required == {Requirement(line) for line in [*project["dependencies"], *extra]}


def test_source_archive_contains_the_sources(built: Path) -> None:
    with tarfile.open(built / f"{NAME}.tar.gz") as archive:
        names = set(archive.getnames())
    for wanted in ("pyproject.toml", "README.md", "LICENSE", "theorydb_py/py.typed", "tabletheory_py/py.typed"):
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
        "import tabletheory_py\n"
        "import theorydb_py\n"
        "from tabletheory_py.isr import IsrLease\n"
        "from tabletheory_py.model import ModelDefinition, theorydb_field\n"
        "@dataclass\n"
        "class Song:\n"
        '    pk: str = theorydb_field(roles=["pk"])\n'
        "model: theorydb_py.ModelDefinition[Song] = ModelDefinition.from_dataclass(Song)\n"
        "lease: type[theorydb_py.isr.IsrLease] = IsrLease\n"
        "assert tabletheory_py.Table is theorydb_py.Table\n"
        'print(theorydb_py.__file__, model.unmarshal({"pk": {"S": "x"}}).pk.upper())\n'
    )
    where, word = run(installed, "-P", program, PYTHONPATH=DEPENDENCIES).split()
    assert Path(where).is_relative_to(installed.parents[1])
    assert word == "X"
    strictly = ("-m", "mypy", "--strict", "--python-executable", installed, "--config-file", os.devnull)
    checked = run(sys.executable, *strictly, program, cwd=tmp_path)  # not next to the sources
    assert "Success" in checked


def test_readme_programs(installed: Path, engine: Engine, table_name: str, tmp_path: Path) -> None:
    run_readme(installed, engine, table_name, tmp_path, python_path=DEPENDENCIES)


def run_readme(python: Path, engine: Engine, table_name: str, folder: Path, *, python_path: str = "") -> None:
    """Run each program of the README twice: the examples that take their table from the environment."""
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    written = [text for text in examples if "FACETHEORY_CACHE_TABLE_NAME" in text]
    expected = [["fresh", "Sinnerman 1965"], ["DE02120300000000202051"]]
    program = folder / "program.py"
    for text, lines in [*zip(written, expected, strict=True)] * 2:
        program.write_text(text)
        output = run(
            python,
            "-P",
            program,
            cwd=folder,
            PYTHONPATH=python_path,
            AWS_ENDPOINT_URL_DYNAMODB=engine.url,
            AWS_DEFAULT_REGION="us-east-1",
            AWS_ACCESS_KEY_ID="test",
            AWS_SECRET_ACCESS_KEY="test",  # noqa: S106 any does
            FACETHEORY_CACHE_TABLE_NAME=table_name,
        )
        assert output.splitlines() == lines


# --- Other versions of Python ---------------------------------------------------


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    """Return a copy of the tests, without the sources of the package next to it: they test the installed one."""
    tests = tmp_path / "clients" / "python" / "tests"
    shutil.copytree(ROOT / "tests", tests, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tests.parent)
    shutil.copytree(ROOT.parents[1] / "spec" / "vectors", tmp_path / "spec" / "vectors")
    return tmp_path


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("engine", EACH_ENGINE[:1], indirect=True)
def test_wheel_under_other_versions(
    built: Path, apart: Path, engine: Engine, table_name: str, tmp_path: Path, version: str
) -> None:
    python = VERSIONS[version]
    pip = (sys.executable, "-m", "pip", "--python", python)  # environments of other versions have none
    wheel = built / f"{NAME}-py3-none-any.whl"
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", wheel)
    run(*pip, "check")
    smoke = (python, "-W", "error", "-P", "tests/versions/smoke.py")
    run(*smoke, *PURE, *NATIVE, cwd=apart / "clients" / "python", ISR_TEST_ENGINES=f"{engine.name}={engine.url}")
    (workdir := tmp_path / version).mkdir()
    run_readme(Path(python), engine, table_name, workdir)


NODE, WASM = os.environ.get("ISR_TEST_NODE", ""), ROOT / "tests" / "versions"


@pytest.mark.skipif(
    not NODE or not (WASM / "node_modules").exists(),
    reason="ISR_TEST_NODE is not set, or tests/versions has no node_modules: run npm ci there",
)
def test_wheel_under_python_3_14_as_webassembly(built: Path, apart: Path) -> None:
    with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as wheel:
        wheel.extractall(apart / "installed")  # noqa: S202 our own
    output = run(NODE, WASM / "wasm.mjs", apart, apart / "installed", DEPENDENCIES, "--", *PURE)
    assert output.startswith("3.14.")
