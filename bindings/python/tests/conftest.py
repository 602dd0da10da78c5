"""Devices to try things on: one in memory, and files of blocks behind each of the kernel's interfaces."""

import pytest

import byway

FILE_BACKENDS = ["io_uring", "libaio", "threads", "psync", "posix_aio"]


@pytest.fixture
def ram():
    """A device in this process: namespace 1 of keys and values, namespace 2 of 512-byte blocks."""
    with byway.open("ram:64M") as device:
        yield device


@pytest.fixture(params=FILE_BACKENDS)
def file(request, tmp_path):
    """A new file of 2048 blocks, by each backend."""
    with open_file(tmp_path, request.param) as device:
        yield device


@pytest.fixture(params=["ram", *FILE_BACKENDS])
def blocks(request, tmp_path):
    """A device with a namespace of blocks, whatever it is."""
    if request.param == "ram":
        device = byway.open("ram:64M")
    else:
        device = open_file(tmp_path, request.param)
    with device:
        yield device


@pytest.fixture
def nil():
    """No device: commands succeed and move nothing."""
    with byway.open("nil:1G") as device:
        yield device


def open_file(folder, backend):
    try:
        return byway.open(folder / "blocks", backend=backend, create="1M")
    except byway.UnsupportedError as error:
        pytest.skip(f"{backend}: {error}")
