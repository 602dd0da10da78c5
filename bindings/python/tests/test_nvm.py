"""Blocks as slices, and synchronous calls."""

import random
from pathlib import Path

import numpy
import pytest

import byway


def noise(blocks, seed=0):
    return random.Random(seed).randbytes(512 * blocks)


def test_a_block_and_a_range_of_blocks_are_bytes(blocks):
    nvm = blocks.nvm
    assert nvm[0] == bytes(512)
    data = noise(7)
    nvm[3:10] = data
    assert nvm[3:10] == data
    assert nvm[4] == data[512:1024]
    nvm[4] = bytes(512)
    assert nvm[3:6] == data[:512] + bytes(512) + data[1024:1536]


def test_indices_are_pythons(blocks):
    nvm = blocks.nvm
    nvm[-1] = b"e" * 512
    assert nvm[len(nvm) - 1] == b"e" * 512 == nvm[-1:]
    assert nvm[5:5] == b"" == nvm[7:3]
    nvm[5:5] = b""
    for wrong in [len(nvm), -len(nvm) - 1]:
        with pytest.raises(IndexError):
            nvm[wrong]
    with pytest.raises(byway.InvalidArgumentError, match="step 1"):
        nvm[0:8:2]
    with pytest.raises(TypeError, match="a number or a slice"):
        nvm["3"]


def test_data_that_does_not_fit_its_range_is_refused_and_nothing_is_written(blocks):
    nvm = blocks.nvm
    for data in [b"x" * 511, b"x" * 1024, b""]:
        with pytest.raises(byway.InvalidArgumentError, match="1 blocks have 512 bytes"):
            nvm[3] = data
    with pytest.raises(byway.InvalidArgumentError, match="no whole number of blocks"):
        nvm.write(3, b"x" * 700)
    with pytest.raises(byway.InvalidArgumentError, match="no whole number of blocks"):
        nvm.write(3, b"")
    assert nvm[3:5] == bytes(1024)


def test_access_beyond_the_end_is_refused(blocks):
    nvm = blocks.nvm
    end = nvm.blocks
    for call in [
        lambda: nvm.read(end - 1, 2),
        lambda: nvm.read(2**64 - 1, 2),
        lambda: nvm.read_into(end - 1, bytearray(1024)),
        lambda: nvm.write(end, bytes(512)),
        lambda: nvm.trim(end, 1),
        lambda: nvm.write_zeroes(end - 1, 2),
    ]:
        with pytest.raises(byway.OutOfRangeError):
            call()


def test_blocks_are_written_from_and_read_into_bytes_like_objects(blocks):
    nvm = blocks.nvm
    data = noise(4)
    buffer = blocks.buffer(2048)
    buffer[:] = data
    array = numpy.frombuffer(data, dtype="<u4").reshape(16, 32)
    for given in [data, bytearray(data), memoryview(data), buffer, array]:
        nvm.write(8, bytes(2048))
        nvm.write(8, given)
        assert nvm[8:12] == data
    for room in [bytearray(2048), memoryview(bytearray(2048)), blocks.buffer(2048), numpy.zeros((2, 128))]:
        nvm.read_into(8, room)
        assert bytes(room) == data


def test_several_pieces_of_memory_are_written_and_read_by_one_command(blocks):
    nvm = blocks.nvm
    data = noise(4)
    whole = blocks.buffer(1024)
    whole[:] = data[:1024]
    nvm.write(0, [whole, data[1024:1536], data[1536:1600], bytearray(data[1600:])])
    assert nvm[0:4] == data
    parts = [bytearray(512), blocks.buffer(1024), numpy.zeros(512, dtype="u1")]
    nvm.read_into(0, parts)
    assert b"".join(map(bytes, parts)) == data


def test_memory_that_is_not_in_one_piece_is_refused(blocks):
    array = numpy.zeros((64, 64), dtype="u1")[:, :32]
    with pytest.raises(byway.InvalidArgumentError, match="one behind the other"):
        blocks.nvm.write(0, array)
    with pytest.raises(byway.InvalidArgumentError, match="cannot be read into"):
        blocks.nvm.read_into(0, bytes(512))
    with pytest.raises(TypeError, match="holds bytes"):
        blocks.nvm.write(0, "text")


def test_a_list_with_something_wrong_in_it_gives_its_buffers_back(blocks):
    buffer = blocks.buffer(512)
    with pytest.raises(TypeError):
        blocks.nvm.write(0, [buffer, "text"])
    assert not buffer.in_flight
    blocks.nvm.write(0, buffer)


def test_more_than_a_command_can_move_is_moved_by_several(tmp_path):
    with byway.open("ram:128M") as ram, byway.open(tmp_path / "a", create="64M") as file:
        for nvm in [ram.nvm, file.nvm]:
            data = random.Random(5).randbytes(40 << 20)
            nvm.write(1, data)
            assert nvm[1 : 1 + len(data) // 512] == data
            room = numpy.zeros(len(data), dtype="u1")
            nvm.read_into(1, room)
            assert room.tobytes() == data


def test_trimmed_and_zeroed_blocks_read_as_zeroes_and_others_stay(blocks):
    nvm = blocks.nvm
    nvm.write(0, noise(32))
    nvm.trim(8, 8)
    nvm.write_zeroes(24)
    nvm.flush()
    wanted = bytearray(noise(32))
    wanted[8 * 512 : 16 * 512] = bytes(8 * 512)
    wanted[24 * 512 : 25 * 512] = bytes(512)
    assert nvm[0:32] == wanted


def test_a_block_is_written_in_place_of_the_one_that_is_expected(tmp_path):
    with byway.open("ram:64M") as device:
        assert "compare_and_write" in device.capabilities.nvm_commands
        assert device.nvm.compare_and_write(4, bytes(512), noise(1))
        assert not device.nvm.compare_and_write(4, bytes(512), b"x" * 512)
        assert device.nvm[4] == noise(1)
        with pytest.raises(byway.InvalidArgumentError, match="512 bytes are expected, and 1024 would be written"):
            device.nvm.compare_and_write(4, bytes(512), bytes(1024))
    with byway.open(tmp_path / "file", create="1M", backend="psync") as device:
        with pytest.raises(byway.UnsupportedError, match="as one"):
            device.nvm.compare_and_write(4, bytes(512), noise(1))


def test_nil_moves_nothing():
    with byway.open("nil:1G") as device:
        assert device.backend == "null-backend"
        device.nvm[7] = noise(1)
        room = bytearray(b"r" * 512)
        device.nvm.read_into(7, room)
        assert room == b"r" * 512
        device.nvm.flush()


def test_direct_io_bounces_unaligned_memory(tmp_path):
    try:
        device = byway.open(tmp_path / "a", create="1M", direct=True)
    except byway.Error as error:
        pytest.skip(f"no direct I/O here: {error}")
    with device:
        align = device.capabilities.memory_align_bytes
        data = random.Random(3).randbytes(8192)
        device.nvm.write(0, data)  # Python puts bytes where it likes.
        assert device.nvm[0:16] == data
        buffer = device.buffer(4096)
        device.nvm.read_into(0, buffer)
        assert bytes(buffer) == data[:4096]
        if align > 1:
            with pytest.raises(byway.InvalidArgumentError, match=str(align)):
                device.nvm.read_into(0, memoryview(bytearray(4096 + 1))[1:])


def test_a_file_that_shrank_is_reported(tmp_path):
    with byway.open(tmp_path / "a", create="1M", backend="psync") as device:
        (tmp_path / "a").write_bytes(b"")
        with pytest.raises(byway.Error) as raised:
            device.nvm[100]
        assert raised.value.kind != "closed"


def test_a_random_script_does_what_a_bytearray_does(blocks):
    dice, model, nvm = random.Random(2), bytearray(64 * 512), blocks.nvm
    for _ in range(300):
        start = dice.randrange(64)
        count = dice.randrange(1, 65 - start)
        place = slice(start * 512, (start + count) * 512)
        match dice.randrange(4):
            case 0 | 1:
                model[place] = nvm[start : start + count] = dice.randbytes(count * 512)
            case 2:
                nvm.trim(start, count)
                model[place] = bytes(count * 512)
            case _:
                assert nvm[start : start + count] == model[place]
    assert nvm[:64] == model


def test_queries_of_blocks_move_text_and_result_by_two_commands():
    mesh = (Path(__file__).parents[3] / "tests" / "data" / "laghos" / "test1.parquet").read_bytes()
    with byway.open("ram:64M") as device:
        nvm = device.nvm
        blocks = -(-len(mesh) // nvm.lba_bytes)
        nvm[0:blocks] = mesh.ljust(blocks * nvm.lba_bytes, b"\0")
        sql = "SELECT count(*) AS n, max(x) AS x FROM mesh WHERE y < 0.04"
        # The first opens a queue for all of them.
        assert nvm.query(0, len(mesh), sql) == b"n,x\n4,2.5625\n"
        before = device.ledger()
        assert nvm.query(0, len(mesh), sql) == b"n,x\n4,2.5625\n"
        assert (device.ledger() - before).rows()["command_fetch"].count == 2
    with pytest.raises(byway.Error):
        nvm.query(0, len(mesh), sql)
