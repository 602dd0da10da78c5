"""Memory that commands and Python share."""

import gc

import numpy
import pytest

import byway


def test_a_buffer_begins_as_zeroes_and_is_changed_like_a_bytearray(ram):
    for buffer in [byway.Buffer(100), ram.buffer(100)]:
        assert len(buffer) == 100
        assert bytes(buffer) == bytes(100)
        buffer[3] = 7
        buffer[4:6] = b"ab"
        assert (buffer[3], bytes(buffer[2:7]), buffer[-1]) == (7, b"\0\7ab\0", 0)
        with pytest.raises(IndexError):
            buffer[100]
        with pytest.raises(ValueError):
            buffer[4:6] = b"longer"


def test_a_program_s_own_buffer_is_prepared_for_a_device(ram):
    buffer = byway.Buffer(8192)
    buffer[:] = bytes(range(256)) * 32
    ram.prepare(buffer)
    ram.nvm.write(0, buffer)
    buffer[:] = bytes(8192)
    ram.nvm.read_into(0, buffer)
    assert bytes(buffer) == bytes(range(256)) * 32


def test_numpy_shows_the_memory_itself(ram):
    buffer = ram.buffer(4096)
    array = numpy.frombuffer(buffer, dtype="<u8")
    array[:] = numpy.arange(512)
    assert array.flags.writeable and not array.flags.owndata
    ram.nvm.write(0, buffer)
    array[:] = 0
    ram.nvm.read_into(0, buffer)
    assert (array == numpy.arange(512)).all()


def test_a_view_outlives_buffer_and_device():
    device = byway.open("ram:64M")
    device.nvm[0] = b"v" * 512
    buffer = device.buffer(512)
    device.nvm.read_into(0, buffer)
    array = numpy.frombuffer(buffer, dtype="u1")
    device.close()
    del device, buffer
    gc.collect()
    assert (array == ord("v")).all()
    array[:] = 1


def test_memory_is_page_aligned(ram):
    for buffer in [byway.Buffer(1), ram.buffer(5000)]:
        assert numpy.frombuffer(buffer, dtype="u1").ctypes.data % 4096 == 0


def test_a_buffer_in_a_command_makes_no_new_views_and_goes_into_no_other(blocks):
    buffer = blocks.buffer(512)
    with blocks.queue() as queue:
        queue.submit(byway.Command.read(0, into=buffer))
        assert buffer.in_flight
        with pytest.raises(BufferError, match="in a command"):
            memoryview(buffer)
        with pytest.raises(byway.BusyError, match="in a command"):
            blocks.nvm.read_into(0, buffer)
        with pytest.raises(byway.BusyError):
            queue.submit(byway.Command.write(0, [bytearray(512), buffer]))
        assert len(buffer) == 512
        [completion] = queue.wait()
        assert completion.buffer is buffer
    assert not buffer.in_flight
    assert bytes(buffer) == bytes(512)


def test_memory_in_a_command_cannot_be_resized(blocks):
    room = bytearray(512)
    with blocks.queue() as queue:
        queue.submit(byway.Command.read(0, into=room))
        with pytest.raises(BufferError):
            room.extend(b"more")
        queue.wait()
        room.extend(b"more")


def test_buffers_live_until_their_command_ends_though_the_queue_is_deleted(blocks):
    blocks.nvm.write(0, b"k" * 4096)
    for _ in range(50):
        queue = blocks.queue(depth=8)
        for n in range(8):
            queue.submit(byway.Command.read(n, into=bytearray(512)))
            queue.submit(byway.Command.read(n)) if n < 0 else None
        del queue
        gc.collect()
    assert blocks.nvm[0:8] == b"k" * 4096


def test_a_closed_queue_gives_its_buffers_back(blocks):
    buffers = [blocks.buffer(512) for _ in range(4)]
    blocks.nvm.write(0, b"c" * 512)
    with blocks.queue() as queue:
        for buffer in buffers:
            queue.submit(byway.Command.read(0, into=buffer))
    assert [bytes(buffer) for buffer in buffers] == [b"c" * 512] * 4


def test_an_invalid_buffer_length_is_refused():
    with pytest.raises((OverflowError, TypeError)):
        byway.Buffer(-1)
    with pytest.raises((byway.Error, MemoryError)):
        byway.Buffer(1 << 62)
