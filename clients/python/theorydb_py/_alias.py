"""A second name of this package, under which its modules are the same objects."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_REAL = __name__.partition(".")[0]


def alias(name: str) -> None:
    """Make ``name``, and each ``name.module``, another name of this package and its module.

    A module that were loaded again under the other name would have other classes, which
    ``isinstance`` and ``except`` do not treat as equal.
    """
    if not any(isinstance(finder, _Finder) and finder.name == name for finder in sys.meta_path):
        # Before PathFinder, which would find the files of this package.
        sys.meta_path.insert(0, _Finder(name))
    sys.modules[name] = sys.modules[_REAL]


class _Finder(MetaPathFinder, Loader):
    """Finds the modules of this package under the other name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002 as of every finder
    ) -> ModuleSpec | None:
        # It must not import: the import system calls it with its global lock.
        real = PathFinder.find_spec(fullname, path) if fullname.startswith(f"{self.name}.") else None
        if real is None:
            return None
        package = real.submodule_search_locations is not None
        return ModuleSpec(fullname, self, origin=real.origin, is_package=package)

    def exec_module(self, module: ModuleType) -> None:
        # The import system returns what sys.modules has once this returns.
        sys.modules[module.__name__] = importlib.import_module(_REAL + module.__name__.removeprefix(self.name))
