"""The examples in the documents pass mypy --strict and pyright, whose errors in wrong examples are found."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT.parents[1] / "docs" / "clients.md"]
PYRIGHT = ROOT / "tests" / "versions" / "node_modules" / "pyright" / "index.js"
NODE = os.environ.get("ISR_TEST_NODE", "")

UNTYPED = """
def shout(word):
    return word.upper()  # wrong
"""
WRONG = """
from theorydb_py import ModelDefinition, Table, theorydb_field, theorydb_model

@theorydb_model
class Song:
    title: str = theorydb_field(roles=["pk"])

songs = Table(ModelDefinition.from_dataclass(Song, table_name="songs"))
songs.get_or_none("Sinnerman").title  # wrong
songs.put(Song(title=1))  # wrong
for song in songs.scan():
    print(song.year)  # wrong
"""


def examples(document: Path) -> dict[str, str]:
    """Return a module for each section with examples. The examples of a section follow each other."""
    modules = {}
    for number, section in enumerate(re.split(r"^#+ ", document.read_text(), flags=re.MULTILINE)):
        if blocks := re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE):
            modules[f"{document.stem.lower()}_{number}"] = f"# {section.partition(chr(10))[0]}\n" + "\n".join(blocks)
    return modules


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """Return a folder with all examples, and with two that are wrong."""
    written = {name: text for document in DOCUMENTS for name, text in examples(document).items()}
    assert len(written) > 5
    for name, text in {**written, "untyped": UNTYPED, "wrong": WRONG}.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def check(output: str, pattern: str) -> None:
    """Check that errors are in the lines that are wrong, and nowhere else."""
    found = {(Path(name).name, int(line)) for name, line in re.findall(pattern, output, re.MULTILINE)}
    assert {error for error in found if error[0] not in ("untyped.py", "wrong.py")} == set(), output
    lines = [number for number, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# wrong")]
    assert {line for name, line in found if name == "wrong.py"} == set(lines), output
    assert any(name == "untyped.py" for name, _ in found), output


def run(folder: Path, *command: str | Path) -> str:
    environment = {**os.environ, "MYPYPATH": str(ROOT), "NO_COLOR": "1"}
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_examples_are_strictly_typed(modules: Path) -> None:
    config = modules / "mypy.ini"
    config.write_text("[mypy]\nstrict = true\n")
    cache = ("--cache-dir", modules / ".mypy")
    output = run(modules, sys.executable, "-m", "mypy", "--config-file", config, *cache, *modules.glob("*.py"))
    check(output, r"^(\S+\.py):(\d+): error: ")


@pytest.mark.skipif(
    not NODE or not PYRIGHT.exists(),
    reason="ISR_TEST_NODE is not set, or tests/versions has no node_modules: run npm ci there",
)
def test_examples_pass_pyright(modules: Path) -> None:
    # The stubs of boto3 name the stubs of all services, of which most are not installed.
    config = {"typeCheckingMode": "strict", "reportUnknownMemberType": False, "extraPaths": [str(ROOT)]}
    (modules / "pyrightconfig.json").write_text(json.dumps(config))
    output = run(modules, NODE, PYRIGHT, "--pythonpath", sys.executable, "-p", modules)
    check(output, r"^\s*(\S+\.py):(\d+):\d+ - error: ")


def test_examples_are_in_fences() -> None:
    """Code that is only indented would not be checked."""
    for document in DOCUMENTS:
        outside = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
        assert re.findall(r"^    (?:from|import|with|async|def|class) .*", outside, re.MULTILINE) == []
