"""Local memory of a device, and programs that run over it."""

import threading

import pytest

import byway

# r0 = *(u8 *)(ranges[0].base + first); exit
LOAD = bytes.fromhex("7911000000000000 0f31000000000000 7110000000000000 9500000000000000")
# *(u8 *)ranges[0].base = 1; goto -1
ENDLESS = bytes.fromhex("7911000000000000 7201000001000000 0500ffff00000000")
CRC32C = 2
FREE = 5


@pytest.fixture
def memory(ram):
    return ram.open_memory(ram.create_memory(1 << 20))


@pytest.fixture
def programs(ram):
    return ram.open_programs(ram.create_programs())


def test_memory_is_written_read_filled_and_copied(ram, memory):
    assert len(memory) == 1 << 20
    memory.write(0, b"twelve bytes")
    memory.copy_from(64, memory.nsid, 0, 12)
    memory.fill(68, 4)
    assert memory.read(64, 12) == b"twel\0\0\0\0ytes"
    ram.nvm[3] = b"x" * 512
    memory.copy_blocks(4096, ram.nvm, 3)
    assert memory.read(4096, 512) == b"x" * 512


def test_blocks_of_another_device_are_not_copied(memory):
    with byway.open("ram:64M") as other:
        other.nvm[0] = b"x" * 512
        with pytest.raises(byway.InvalidArgumentError, match="not of another device"):
            memory.copy_blocks(0, other.nvm, 0)
    assert memory.read(0, 4) == b"\0" * 4


def test_memory_outside_is_refused(memory):
    with pytest.raises(byway.OutOfRangeError, match="outside a memory"):
        memory.write(1 << 20, b"four")
    with pytest.raises(byway.InvalidArgumentError, match="no whole dwords"):
        memory.read(2, 4)
    with pytest.raises(byway.InvalidArgumentError, match="more than"):
        memory.read(0, 1 << 40)


def test_programs_run_over_ranges_and_sets_of_them(memory, programs):
    memory.write(0, b"123456789\0\0\0")
    programs.load(FREE, LOAD, identifier=7)
    programs.activate(FREE)
    programs.activate(CRC32C)
    text = [(memory.nsid, 0, 9)]
    assert programs.execute(FREE, text, 4) == ord("5")
    assert programs.execute(CRC32C, text) == 0xE3069283
    number = programs.create_range_set(text)
    assert programs.execute(CRC32C, number) == 0xE3069283
    programs.delete_range_set(number)
    assert programs.execute(CRC32C) == 0
    with pytest.raises(byway.InvalidArgumentError, match="no set"):
        programs.execute(CRC32C, 0)
    with pytest.raises(byway.Error):
        programs.execute(FREE, text, 9)
    programs.deactivate(FREE)
    programs.unload(FREE)


def test_what_no_program_is_is_refused(programs):
    with pytest.raises(byway.InvalidArgumentError, match="ebpf or wasm"):
        programs.load(FREE, LOAD, type="elf")
    with pytest.raises(byway.Error, match="nvalid Program"):
        programs.load(FREE, LOAD[:8])
    with pytest.raises(byway.Error):
        programs.activate(FREE)


def test_deletion_of_its_memory_ends_a_program_that_loops(ram, memory, programs):
    programs.load(FREE, ENDLESS)
    programs.activate(FREE)
    ended = []

    def run():
        try:
            programs.execute(FREE, [(memory.nsid, 0, 8)])
        except byway.Error as error:
            ended.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    while memory.read(0, 4)[0] != 1:
        assert thread.is_alive()
    ram.kv[b"key"] = b"value"
    assert ram.kv[b"key"] == b"value"
    ram.delete_namespace(memory.nsid)
    thread.join()
    assert len(ended) == 1 and "Memory Namespace" in ended[0]


def test_namespaces_of_another_kind_and_closed_devices_are_refused(ram, memory):
    with pytest.raises(byway.InvalidArgumentError, match="no namespace of local memory"):
        ram.open_memory(1)
    with pytest.raises(byway.InvalidArgumentError, match="no namespace of programs"):
        ram.open_programs(memory.nsid)
    ram.close()
    with pytest.raises(byway.Error):
        memory.fill(0, 4)


def test_programs_run_over_values():
    with byway.open("ram:64M?exec=1:crc32c") as device:
        kv = device.kv
        kv[b"key"] = b"123456789"
        crc = (0xE3069283).to_bytes(8, "little")
        assert kv.exec(b"key", 3) == (crc, 8)
        assert kv.exec(b"key", 3, bytearray(16), max_bytes=2) == (crc[:2], 8)
        with pytest.raises(byway.KeyNotFoundError):
            kv.exec(b"none", 3)
        with pytest.raises(byway.Error, match="Operation Denied"):
            kv.exec(b"key", 4)


def test_no_program_runs_over_values_of_a_device_without_a_list(ram):
    ram.kv[b"key"] = b"123456789"
    with pytest.raises(byway.UnsupportedError):
        ram.kv.exec(b"key", 3)
