"""The sections ``Raises:`` of public docstrings, whose completeness tests/documented.py checks in all tests."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from tests.documented import public_methods, public_objects, raises_of
from theorydb_py import errors


def documented() -> Iterator[Any]:
    seen: set[int] = set()
    for module, name, found in public_objects():
        label = f"{module.__name__}.{name}"
        if id(found) in seen or (inspect.isclass(found) and issubclass(found, BaseException)):
            continue
        seen.add(id(found))
        yield pytest.param(found, None, id=label)
        if inspect.isclass(found):
            yield from (pytest.param(m, found, id=f"{label}.{n}") for n, m in public_methods(found))


@pytest.mark.parametrize(("member", "owner"), list(documented()))
def test_raises(member: Any, owner: type | None) -> None:
    """What a docstring lists exists, and it lists what the function itself raises."""
    listed = raises_of(member)
    for name in listed:
        module, _, kind = name.rpartition(".")
        found = getattr(importlib.import_module(module) if module else errors, kind, None) or getattr(builtins, kind)
        assert issubclass(found, Exception)
    function = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", member)))
    if inspect.isfunction(function) and function.__code__.co_filename != "<string>":  # of a dataclass
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        raised = {_name(node.exc) for node in ast.walk(tree) if isinstance(node, ast.Raise)} - {""}
        assert raised <= listed | (raises_of(owner) if owner else set())


def _name(raised: ast.expr | None) -> str:
    """Return the name of the class that is raised by a call; empty for anything else."""
    called = raised.func if isinstance(raised, ast.Call) else None
    return called.id if isinstance(called, ast.Name) and called.id.endswith("Error") else ""
