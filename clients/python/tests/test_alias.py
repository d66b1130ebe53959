"""tabletheory_py is another name of theorydb_py: one set of modules, types, errors and pickles."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import tabletheory_py
import theorydb_py
import theorydb_py.model
from tabletheory_py import ModelDefinition, Table, theorydb_field
from tabletheory_py.errors import LeaseLostError
from tabletheory_py.lease import LeaseKey, LeaseManager
from tabletheory_py.table import Table as TableOfModule
from tabletheory_py.transaction import TransactPut
from tests.documented import MODULES, OPTIONAL

ROOT = Path(__file__).parents[1]

# Type checkers accept these assignments only if both names are of the same types.
TABLE: type[theorydb_py.Table[int]] = Table
MANAGER: type[theorydb_py.LeaseManager] = LeaseManager
LOST: type[theorydb_py.LeaseLostError] = LeaseLostError
MODEL: type[theorydb_py.model.ModelDefinition[int]] = ModelDefinition
PUT: type[theorydb_py.TransactPut[int]] = TransactPut


def modules() -> Iterator[str]:
    """Return the names of all modules that can be imported here, without the package's own."""
    for found in pkgutil.walk_packages(theorydb_py.__path__, "theorydb_py."):
        try:
            importlib.import_module(found.name)
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in OPTIONAL:
                raise
        else:
            yield found.name.removeprefix("theorydb_py")


def test_all_modules_are_the_same_objects() -> None:
    names = list(modules())
    assert {".isr", ".isr._keys", ".leases", ".lease"} <= set(names)
    for name in ["", *names]:
        real = sys.modules["theorydb_py" + name]
        assert importlib.import_module("tabletheory_py" + name) is real, name
        assert real.__spec__ is not None
        assert real.__spec__.name == real.__name__ == "theorydb_py" + name
    assert sys.modules["tabletheory_py"] is tabletheory_py


def test_names_are_those_of_the_package() -> None:
    assert (TABLE, TableOfModule) == (theorydb_py.Table, theorydb_py.Table)
    assert (
        theorydb_py.LeaseManager,
        theorydb_py.LeaseLostError,
        theorydb_py.ModelDefinition,
        theorydb_py.TransactPut,
    ) == (MANAGER, LOST, MODEL, PUT)
    assert theorydb_field is theorydb_py.theorydb_field
    assert tabletheory_py.__version__ == theorydb_py.__version__


def test_modules_that_do_not_exist_name_themselves() -> None:
    with pytest.raises(ModuleNotFoundError, match="tabletheory_py") as raised:
        importlib.import_module("tabletheory_py.nothing")
    assert raised.value.name == "tabletheory_py.nothing"


PROGRAM = """
import pickle, sys, threading
from importlib import import_module

first, second = {order!r}
names = {modules!r}
failures = []

def load(package):
    try:
        for name in names if package == first else reversed(names):
            import_module(package + name)
    except BaseException as error:
        failures.append(error)

loading = [threading.Thread(target=load, args=(package,)) for package in (first, second) * 4]
for thread in loading: thread.start()
for thread in loading: thread.join()
assert not failures, failures
for name in names:
    assert import_module(first + name) is import_module(second + name), name
    assert import_module(first + name).__name__ == "theorydb_py" + name, name
one, other = import_module(first), import_module(second)
key = one.LeaseKey("JOB#a")
assert isinstance(key, other.LeaseKey)
try:
    raise one.LeaseHeldError("held", owner="a")
except other.TheorydbError as error:
    assert type(error) is other.LeaseHeldError
sys.stdout.buffer.write(pickle.dumps(key))
"""


@pytest.mark.parametrize("order", [("theorydb_py", "tabletheory_py"), ("tabletheory_py", "theorydb_py")], ids=" ".join)
def test_first_import_of_either_name(order: tuple[str, str]) -> None:
    """In a new process, from several threads at the same time, and with the pickles of another process."""
    program = PROGRAM.format(order=order, modules=[name for name in MODULES if name != ".web.django"])
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert pickle.loads(done.stdout) == LeaseKey("JOB#a")  # noqa: S301 our own


def test_pickles_with_the_names_of_the_peer() -> None:
    """A pickle names the module of its class: pickles of TableTheory name tabletheory_py."""
    written = pickle.dumps(LeaseKey("JOB#a"), protocol=0).replace(
        b"theorydb_py.leases._manager", b"tabletheory_py.lease"
    )
    assert b"tabletheory_py" in written
    assert pickle.loads(written) == theorydb_py.LeaseKey("JOB#a")  # noqa: S301 our own


@pytest.mark.parametrize("suffix", MODULES)
def test_public_modules_have_a_file(suffix: str) -> None:
    """Without it, type checkers do not find the module under the other name."""
    path = ROOT / "tabletheory_py" / Path(*suffix.split("."))
    files = [path / "__init__.pyi", path / "__init__.py", path.with_suffix(".py")]
    assert f"from theorydb_py{suffix} import *" in next(file for file in files if file.exists()).read_text()


def test_public_modules_are_listed() -> None:
    """All modules but the private ones are in MODULES, which other tests go through."""
    public: list[str] = [name for name in modules() if "._" not in name]
    assert {"", *public} <= set(MODULES)
    module: ModuleType = sys.modules["theorydb_py"]
    assert module is theorydb_py
