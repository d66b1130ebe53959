"""The types that public signatures name can be imported without private modules."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import pytest

import theorydb_py
from tests.documented import public_methods, public_objects
from theorydb_py import errors
from theorydb_py.web import PageCache

MADE_HERE = (
    "AsyncQuery",
    "AsyncReader",
    "Field",
    "IsrLease",
    "Lease",
    "LocalDynamoDB",
    "ModelDefinition",
    "Query",
    "Reader",
)
"""Classes that users do not construct."""
INTERNAL = (theorydb_py.isr.Fence, theorydb_py.isr.IsrLease, PageCache)
"""Classes whose further methods are for the store and for the middlewares."""

EXPORTED = {found for _, _, found in public_objects()} | set(filter(inspect.isclass, vars(errors).values()))


@pytest.mark.parametrize(
    ("label", "function"),
    [
        (f"{name}.{member}" if inspect.isclass(found) else name, function)
        for _, name, found in public_objects()
        if found not in INTERNAL
        for member, function in (public_methods(found) if inspect.isclass(found) else [("", found)])
        if not (member == "__init__" and name in MADE_HERE)
    ],
)
def test_types_of_signatures_are_exported(label: str, function: Any) -> None:
    plain = inspect.unwrap(getattr(function, "__func__", getattr(function, "fget", function)))
    scope = {**vars(theorydb_py), **plain.__globals__}
    hints = typing.get_type_hints(plain, scope)
    assert {named for hint in hints.values() for named in classes(hint)} <= EXPORTED, label


def classes(hint: Any) -> set[type]:
    """Return the classes of this package that a type names."""
    if isinstance(hint, list):  # the arguments of a Callable
        return {named for part in hint for named in classes(part)}
    if typing.get_origin(hint) is not None:
        return {named for part in (typing.get_origin(hint), *typing.get_args(hint)) for named in classes(part)}
    return {hint} if inspect.isclass(hint) and hint.__module__.startswith("theorydb_py") else set()
