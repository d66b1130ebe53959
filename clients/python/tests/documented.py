"""Requires docstrings to list the errors that public functions raise.

While it is installed, every error of this package that leaves a public function must be
in the section ``Raises:`` of its docstring or of its class's.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from theorydb_py.errors import TheorydbError

MODULES = (
    "",
    ".aio",
    ".encryption",
    ".errors",
    ".isr",
    ".lease",
    ".leases",
    ".model",
    ".query",
    ".release_state",
    ".streams",
    ".table",
    ".testkit",
    ".transaction",
    ".web",
    ".web.django",
)
OPTIONAL = {"cryptography", "django"}
"""Packages that may be missing."""

_SECTION = re.compile(r"^Raises:\n((?:(?: .*)?\n?)*)", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}(\S[^:]*):", re.MULTILINE)
_REFERENCE = re.compile(r"^See (Table|Reader|Query)\.(\w+)")


def raises_of(documented: object) -> frozenset[str]:
    """Return the names in the section ``Raises:``, or in the section of the method that the docstring refers to."""
    text = inspect.getdoc(documented) or ""
    if (reference := _REFERENCE.match(text)) is not None:
        owner = getattr(importlib.import_module("theorydb_py"), reference[1])
        return raises_of(getattr(owner, reference[2])) | raises_of(owner)
    section = _SECTION.search(text)
    entries = _ENTRY.findall(section[1]) if section else []
    return frozenset(name for entry in entries for name in re.split(r",\s+", entry))


def public_objects() -> Iterator[tuple[Any, str, Any]]:
    """Return the public classes and functions of this package, each once per module that exports it."""
    for suffix in MODULES:
        try:
            module = importlib.import_module("theorydb_py" + suffix)
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in OPTIONAL:
                raise
            continue
        own = [n for n, o in vars(module).items() if getattr(o, "__module__", "") == module.__name__ and n[0] != "_"]
        for name in getattr(module, "__all__", own):
            if inspect.isclass(getattr(module, name)) or inspect.isfunction(getattr(module, name)):
                yield module, name, getattr(module, name)


def public_methods(owner: type) -> Iterator[tuple[str, Any]]:
    """Return the constructor, the public methods and the properties that a class defines."""
    for name, member in vars(owner).items():
        function = getattr(member, "__func__", getattr(member, "fget", member))
        ours = inspect.isfunction(function) and function.__module__.startswith("theorydb_py")
        if ours and (name in ("__init__", "__post_init__", "__iter__") or not name.startswith("_")):
            yield name, member


def install() -> None:
    """Wrap all public functions, methods and properties."""
    wrapped: set[type] = set()
    for module, name, found in list(public_objects()):
        if inspect.isfunction(found):
            setattr(module, name, _checked(found, name, frozenset()))
        elif inspect.isclass(found) and not issubclass(found, BaseException):
            for owner in {c for c in found.__mro__ if c.__module__.startswith("theorydb_py")} - wrapped:
                wrapped.add(owner)
                _install_on(owner)


def _install_on(owner: type) -> None:
    inherited = raises_of(owner)
    for name, member in list(public_methods(owner)):
        label = f"{owner.__name__}.{name}"
        wrapped: Any
        if isinstance(member, property):
            wrapped = property(_checked(member.fget, label, inherited), member.fset)
        elif isinstance(member, (classmethod, staticmethod)):
            wrapped = type(member)(_checked(member.__func__, label, inherited))
        else:
            wrapped = _checked(member, label, inherited)
        setattr(owner, name, wrapped)


def _checked(function: Any, label: str, inherited: frozenset[str]) -> Any:
    allowed = raises_of(function) | inherited
    wrapped: Any
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            with _only(allowed, label):
                return await function(*args, **kwargs)

    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with _only(allowed, label):
                return (yield from function(*args, **kwargs))

    elif inspect.isasyncgenfunction(function):
        wrapped = function
    else:

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with _only(allowed, label):
                return function(*args, **kwargs)

    return wrapped


@contextlib.contextmanager
def _only(allowed: frozenset[str], label: str) -> Iterator[None]:
    try:
        yield
    except TheorydbError as error:
        if not allowed & {kind.__name__ for kind in type(error).__mro__}:
            listed = ", ".join(sorted(allowed)) or "none"
            raise AssertionError(
                f"{label} raises {type(error).__name__}, and its docstring lists {listed}: {error}"
            ) from error
        raise
