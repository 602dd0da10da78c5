"""What the stubs say is what the module is."""

import subprocess
import sys
from pathlib import Path

import pytest

import byway
from test_documents import PROGRAMS

mypy = pytest.importorskip("mypy", reason="the types are checked by mypy")

PROGRAM = """
import byway

with byway.open("ram:64M", transfer="inline", readonly=False) as device:
    value: bytes = device.kv[b"key"]
    maybe: bytes | None = device.kv.get(b"key")
    other: bytes | int = device.kv.get(b"key", 7)
    device.nvm[3:10] = bytearray(10)
    buffer = device.buffer(512)
    device.nvm.read_into(0, buffer)
    with device.queue() as queue:
        tag: int = queue.submit(byway.Command.read(0, into=buffer), callback=lambda done: done.check())
    for key, pair in device.kv.items(prefix=b"k"):
        print(key + pair)

async def main() -> None:
    async with device.async_queue() as queue:
        view: memoryview = await queue.read(0)
        await queue.put(b"key", view)
"""

WRONG = """
import byway

device = byway.open("ram:64M")
device.kv["text"] = b"value"
device.nvm.write(0, "text")
device.queue().submit("read")
byway.create("path", "1M", media="tape")
"""


def check(*arguments, **options):
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, **options)


def test_the_stubs_and_the_module_agree(tmp_path):
    allowed = ["--allowlist", str(Path(__file__).parent / "stubtest.txt"), "--ignore-unused-allowlist"]
    result = check("mypy.stubtest", "byway", *allowed, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_package_is_typed_throughout(tmp_path):
    result = check("mypy", "--strict", "-p", "byway", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_mypy_checks_programs_against_the_stubs(tmp_path):
    (tmp_path / "right.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(WRONG)
    result = check("mypy", "--strict", "right.py", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    result = check("mypy", "--strict", "wrong.py", cwd=tmp_path)
    wrong_lines = {int(line.split(":")[1]) for line in result.stdout.splitlines() if ": error:" in line}
    assert wrong_lines == {5, 6, 7, 8}, result.stdout + result.stderr


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_every_program_in_a_document_is_typed_right(version, tmp_path):
    for n, program in enumerate(PROGRAMS):
        (tmp_path / f"program_{n}.py").write_text(program.values[0])
    result = check("mypy", "--python-version", version, ".", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


ARRAYS = """
import array
import mmap

import byway
import numpy

with byway.open("ram:64M") as device:
    device.nvm.write(16, numpy.arange(1024))
    device.nvm.read_into(16, numpy.empty(1024, dtype=int))
    device.nvm.write(16, [bytes(512), numpy.zeros(512, dtype="u1"), array.array("B", bytes(512))])
    device.nvm.write(16, mmap.mmap(-1, 4096))
    device.kv[b"key"] = numpy.arange(4)
    device.kv.load([(b"a", numpy.arange(4)), (b"b", memoryview(b"b"))])
    device.kv.update({b"c": b"d"})
    length: int = len(device.kv)
    pairs: dict[bytes, bytes] = dict(device.kv)
    popped: bytes | None = device.kv.pop(b"a", None)
    byway.create("never", "64M", namespaces=["kv:32M", byway.NewNamespace("nvm")])
    version: str = byway.__version__
"""


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_bytes_like_objects_pass_the_type_checker(version, tmp_path):
    (tmp_path / "arrays.py").write_text(ARRAYS)
    result = check("mypy", "--strict", "--python-version", version, "arrays.py", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_name_in_all_exists():
    for name in byway.__all__:
        assert getattr(byway, name) is not None
