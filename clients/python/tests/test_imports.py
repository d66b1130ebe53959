"""No module imports itself over others, not for types either: each can be read without those that import it."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import theorydb_py


def imports_of(path: list[str], text: str, modules: set[str]) -> set[str]:
    """Return the modules that a module names in import statements, in functions and for type checkers too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = path[: -node.level] if node.level else []
            base = ".".join([*home, *([node.module] if node.module else [])])
            # The module itself, or one of a package.
            found |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules else base for alias in node.names}
    return found & modules


def test_no_circles() -> None:
    """An import graph without circles has an order."""
    root = Path(theorydb_py.__file__).parent
    files = {".".join((root.name, *file.relative_to(root).with_suffix("").parts)): file for file in root.rglob("*.py")}
    modules = {name.removesuffix(".__init__") for name in files}
    graph = {
        name.removesuffix(".__init__"): imports_of(name.split("."), file.read_text(encoding="utf-8"), modules)
        for name, file in files.items()
    }
    assert sum(map(len, graph.values())) > len(graph), "the imports were not found"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))
