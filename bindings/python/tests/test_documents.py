"""Every example, and every program in the documents, runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent.parent
ROOT = HERE.parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "docs" / "guide" / "python.md", HERE / "README.md"]
PROGRAMS = [
    pytest.param(program, id=f"{document.relative_to(ROOT)}-{n}")
    for document in DOCUMENTS
    for n, program in enumerate(re.findall(r"^```python\n(.*?)^```$", document.read_text(), re.M | re.S))
]


def run(program, folder):
    done = subprocess.run(
        [sys.executable, "-W", "error", *program], capture_output=True, text=True, cwd=folder, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir()), "it leaves nothing behind"


@pytest.mark.parametrize("example", sorted((HERE / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_the_example_runs(example, tmp_path):
    run([str(example)], tmp_path)


@pytest.mark.parametrize("example", ["info", "sync", "async", "awaited", "batch", "events"])
def test_an_example_takes_another_device(example, tmp_path):
    blocks = tmp_path / "blocks"
    blocks.write_bytes(bytes(1 << 20))
    (tmp_path / "here").mkdir()
    run([str(HERE / "examples" / f"{example}.py"), str(blocks)], tmp_path / "here")


def test_python_and_rust_have_the_same_examples():
    names = lambda folder, kind: {path.stem for path in folder.glob(f"*.{kind}")}  # noqa: E731
    assert names(HERE / "examples", "py") == names(ROOT / "crates" / "byway" / "examples", "rs")


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_program_in_a_document_runs(program, tmp_path):
    run(["-c", program], tmp_path)


def test_each_document_has_a_program():
    for document in DOCUMENTS:
        assert "```python" in document.read_text(), document
