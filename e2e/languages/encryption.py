"""Writes or reads encrypted attributes with the Python client; see encryption_test.go."""

import json
import sys

from theorydb_py import ModelDefinition, Table, theorydb_field, theorydb_model
from theorydb_py.encryption import KeyFile

command, key_file, table_name = sys.argv[1:]


@theorydb_model
class Secret:
    pk: str = theorydb_field(roles=["pk"])
    sk: str = theorydb_field(roles=["sk"])
    text: str = theorydb_field(encrypted=True)
    count: int = theorydb_field(encrypted=True)
    tags: set[str] = theorydb_field(encrypted=True)
    lines: list[str] = theorydb_field(encrypted=True)
    raw: bytes = theorydb_field(encrypted=True)


keys = KeyFile(key_file)
table = Table(ModelDefinition.from_dataclass(Secret, table_name=table_name), keys=keys)
if command == "write":
    keys.rotate()
    text = "Ünï€😀 by python"
    table.create(Secret("secrets", "python", text, -1200, {"b", "a", "😀", "ﬁ"}, ["x", ""], b"\x00\xff"))
else:
    for item in table.query("secrets"):
        # Sorted by UTF-16 code units, as JavaScript does.
        tags = sorted(item.tags, key=lambda tag: tag.encode("utf-16-be"))
        fields = [item.sk, item.text, item.count, tags, item.lines, list(item.raw)]
        print(json.dumps(fields, ensure_ascii=False, separators=(",", ":")))
