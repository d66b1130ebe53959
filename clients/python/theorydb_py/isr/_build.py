"""The builds of a site: the row BUILD names the current one, and the sequence at which it was deployed."""

from __future__ import annotations

import re

from theorydb_py.errors import InvalidInputError, MovedError
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._entry import ReloadTarget
from theorydb_py.isr._expression import absent, compare, update
from theorydb_py.isr._groupcommit import GroupCommit
from theorydb_py.isr._names import PK_LOG, SK_BUILD
from theorydb_py.isr._purge import RowPurge
from theorydb_py.isr._purgerow import require_number
from theorydb_py.isr._row import (
    EXPECTED_COUNT,
    EXPECTED_TEXT,
    Item,
    count_of,
    key,
    malformed,
    number,
    read,
    string,
    text,
)
from theorydb_py.isr._transaction import Action, Purpose, Refusal

_ID = re.compile(r"[ -~]{1,256}")
_MAX_ATTEMPTS = 8
"""How many times a deployment is attempted while other builds are deployed."""


def build_sequence(connection: Connection, log: GroupCommit, build_id: str) -> int:
    """Return the sequence at which a build was deployed, and make it the current one unless it is.

    If processes of several builds start at the same time, the last one's is the current
    one. Raises InvalidInputError, MalformedRowError, MovedError (others keep deploying),
    and the errors of GroupCommit.
    """
    if not isinstance(build_id, str) or _ID.fullmatch(build_id) is None:
        raise InvalidInputError(
            f"the id of the build is {build_id!r:.100}: expected 1 to 256 printable ASCII characters"
        )
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        row = connection.read_row(PK_LOG, SK_BUILD)
        if row is not None and _id_of(row) == build_id:
            return read(row, "seq", count_of, 0)
        try:
            return log.commit(_Deployment(build_id, row))
        except MovedError:
            if attempt == _MAX_ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _id_of(row: Item) -> str:
    if text(row, "value") == "":
        raise malformed(row, "value", EXPECTED_TEXT)
    require_number(row, "seq", EXPECTED_COUNT)
    read(row, "seq", count_of, 0)
    return text(row, "value")


class _Deployment:
    """Makes a build the current one, if BUILD still is what was read; implements logcommit.LogChange."""

    pk = PK_LOG
    reload: tuple[ReloadTarget, ...] = ()
    purges: tuple[RowPurge, ...] = ()
    confirm = False
    mark_lifetime = 0

    def __init__(self, build_id: str, replaced: Item | None) -> None:
        self._id = build_id
        self._replaced = replaced

    def name(self) -> str:
        return f"deploy the build {self._id}"

    def actions(self, seq: int) -> list[Action]:
        # The stored sequence grows with every new build.
        unchanged = absent() if self._replaced is None else compare("seq", "=", self._replaced["seq"])
        changes = {"value": string(self._id), "seq": number(seq)}
        return [Action(Purpose.BUILD, "Update", update(key(PK_LOG, SK_BUILD), changes, unchanged))]

    def classify(self, why: Refusal) -> Exception | None:
        if Purpose.BUILD in why:
            return MovedError(f"{self.name()}: another build was deployed at the same time")
        return None
