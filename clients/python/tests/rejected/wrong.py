"""Programs that type checkers must reject: tests/test_table.py runs mypy on this file, and nothing runs it."""

from typing import Any

from theorydb_py import ModelDefinition, Query, Table, theorydb_field, theorydb_model, where
from theorydb_py.encryption import KeyFile, KmsKeys


@theorydb_model
class Song:
    artist: str = theorydb_field(roles=["pk"])
    title: str = theorydb_field(roles=["sk"])
    year: int = theorydb_field(default=0)
    version: int = theorydb_field(roles=["version"], default=0)


@theorydb_model(frozen=True)
class Fixed:
    pk: str = theorydb_field(roles=["pk"])


Song()  # rejected: both keys are missing
Song("Nina Simone")  # rejected: so is the title
Song("Nina Simone", "Sinnerman", "1965")  # rejected: the year is a number
Song("Nina Simone", "Sinnerman", plays=1)  # rejected: there is no such field
right = Song("Nina Simone", "Sinnerman", year=1965)
Fixed("x").pk = "y"  # rejected: it is frozen

songs: Table[Song] = Table(ModelDefinition.from_dataclass(Song, table_name="songs"))
songs.put("Sinnerman")  # rejected: not a song
songs.get("Nina Simone", "Sinnerman").genre  # rejected: there is no such field
songs.get_or_none("Nina Simone", "Sinnerman").year  # rejected: it may be None
songs.batch_get([("Nina Simone", "Sinnerman")])[0].year  # rejected: it may be None
songs.query("Nina Simone").items  # rejected: a query has pages, and only they have items
where("year", "like", 1965)  # rejected: there is no such operator
songs.query("Nina Simone", filter="year > 1960")  # rejected: a filter is made by where
found: Query[Song] = songs.query("Nina Simone", filter=where("year", ">", 1960) & ~where("title", "exists"))
part: list[dict[str, Any]] = found.select("title").all()
theorydb_field(encrypted="yes")  # rejected: it is or is not


@theorydb_model
class Patient:
    pk: str = theorydb_field(roles=["pk"])
    name: str = theorydb_field(encrypted=True)


Patient("x")  # rejected: the name is missing
patients = ModelDefinition.from_dataclass(Patient, table_name="patients")
Table(patients, keys="keys")  # rejected: not a provider of keys
Table(patients, keys=KeyFile("keys")).get("x").name.real  # rejected: it is a text, though encrypted
Table(patients, keys=KmsKeys("client", "alias/app"))  # rejected: no client of KMS
