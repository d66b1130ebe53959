"""Compiles the installed package, imports all of its modules by both names, and runs tests of it, under any Python.

Warnings are errors. Its arguments are pytest's.
"""

from __future__ import annotations

import compileall
import importlib
import pkgutil
import sys
import warnings

import pytest

import theorydb_py

OPTIONAL = {"cryptography", "django"}
"""Packages that may be missing."""


def main(arguments: list[str]) -> int:
    """Return the exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if not compileall.compile_dir(theorydb_py.__path__[0], quiet=1, force=True):
            return 1
        for module in pkgutil.walk_packages(theorydb_py.__path__, "theorydb_py."):
            try:
                imported = importlib.import_module(module.name)
            except ImportError as error:
                if (error.name or "").partition(".")[0] not in OPTIONAL:
                    raise
            else:
                suffix = module.name.removeprefix("theorydb_py")
                assert importlib.import_module("tabletheory_py" + suffix) is imported, suffix
    return int(pytest.main(["-q", "-p", "no:cacheprovider", *arguments]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
