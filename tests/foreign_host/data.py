"""Blocks, keys and values, and what SMART counts of them."""

import struct

from admin import UNUSED, number
from checks import (
    EVERY, SC_COMPARE, SC_INVALID_FIELD, SC_KEY_EXISTS, SC_KEY_SIZE, SC_LBA_RANGE, SC_NO_KEY, SC_SGL_LENGTH,
    SC_SGL_TYPE, check, pattern, same,
)
from nvme_tcp import command, in_capsule, transport

BLOCK = 512
FLUSH, WRITE, READ, COMPARE, WRITE_ZEROES, DSM, VERIFY, COPY = 0x00, 0x01, 0x02, 0x05, 0x08, 0x09, 0x0C, 0x19
STORE, RETRIEVE, LIST, DELETE, EXIST = 0x01, 0x02, 0x06, 0x10, 0x14


def blocks(target, opcode, lba, count, sgl=bytes(16), flags=0x40, **dwords):
    fields = {"cdw10": lba & EVERY, "cdw11": lba >> 32, "cdw12": count - 1, **dwords}
    return command(opcode, target.blocks, sgl, flags, **fields)


def write(target, io, lba, data):
    if len(data) <= 8192:
        io.ok(blocks(target, WRITE, lba, len(data) // BLOCK, in_capsule(len(data))), data)
    else:
        io.ok(blocks(target, WRITE, lba, len(data) // BLOCK, transport(len(data))), b"", data)


def read(target, io, lba, count):
    return io.ok(blocks(target, READ, lba, count, transport(count * BLOCK))).data


def keyed(target, opcode, key, length=0, options=0, sgl=bytes(16), flags=0x40):
    entry = command(opcode, target.keys, sgl, flags, cdw10=length, cdw11=len(key) | options << 8)
    padded = key.ljust(16, b"\0")
    entry[8:16], entry[56:64] = padded[:8], padded[8:16]
    return entry


def store(target, io, key, value, options=0):
    if len(value) <= 8192:
        return io.run(keyed(target, STORE, key, len(value), options, in_capsule(len(value))), value).status
    return io.run(keyed(target, STORE, key, len(value), options, transport(len(value))), b"", value).status


def retrieve(target, io, key, room=8192):
    answer = io.run(keyed(target, RETRIEVE, key, room, 0, transport(room)))
    return answer.status, answer.dw0, answer.data


@check
def blocks_in_capsules_are_read_back(target):
    with target.host() as (_, io):
        data = pattern(4096)
        write(target, io, 0, data)
        same(read(target, io, 0, 8), data)


@check
def blocks_that_are_asked_for_are_read_back(target):
    for digests in (0, 3):
        with target.host(digests) as (_, io):
            data = pattern(256 * 1024, digests)
            write(target, io, 64, data)
            same(read(target, io, 64, 512), data)


@check
def io_commands_without_data_take_any_descriptor(target):
    with target.host() as (admin, io):
        flushes_all = admin.identify(0x01)[525] >> 1 & 3 == 3
        for sgl, flags in UNUSED:
            io.ok(command(FLUSH, target.blocks, sgl, flags))
            if flushes_all:
                io.ok(command(FLUSH, EVERY, sgl, flags))
            io.ok(command(FLUSH, target.keys, sgl, flags))
            io.ok(blocks(target, WRITE_ZEROES, 900, 8, sgl, flags))
            io.ok(blocks(target, VERIFY, 900, 8, sgl, flags))
            same(store(target, io, b"key", b"value"), 0)
            io.ok(keyed(target, STORE, b"key", 0, 0, sgl, flags))
            same(io.ok(keyed(target, RETRIEVE, b"key", 0, 0, sgl, flags)).data, b"")
            io.ok(keyed(target, EXIST, b"key", 0, 0, sgl, flags))
            io.ok(keyed(target, DELETE, b"key", 0, 0, sgl, flags))


@check
def io_commands_with_data_need_a_descriptor(target):
    with target.host() as (_, io):
        for opcode in (WRITE, READ, COMPARE):
            same(io.run(blocks(target, opcode, 0, 8)).status, SC_SGL_TYPE)
        same(io.run(blocks(target, READ, 0, 8, transport(512))).status, SC_SGL_LENGTH)
        same(io.run(blocks(target, READ, 0, 8, transport(4096), 0x00)).status, SC_INVALID_FIELD)
        same(io.run(blocks(target, WRITE, 0, 8, in_capsule(512)), bytes(512)).status, SC_SGL_LENGTH)


@check
def zeroes_are_written(target):
    with target.host() as (_, io):
        write(target, io, 100, pattern(4096))
        io.ok(blocks(target, WRITE_ZEROES, 100, 8))
        same(read(target, io, 100, 8), bytes(4096))


@check
def blocks_are_compared(target):
    with target.host() as (_, io):
        data = pattern(1024)
        write(target, io, 200, data)
        compare = blocks(target, COMPARE, 200, 2, in_capsule(1024))
        io.ok(compare, data)
        same(io.run(compare, pattern(1024, 2)).status, SC_COMPARE)


@check
def blocks_are_compared_and_written_as_one(target):
    with target.host() as (_, io):
        old, new = pattern(512, 3), pattern(512, 4)
        write(target, io, 210, old)
        pair = [
            (blocks(target, COMPARE, 210, 1, in_capsule(512), 0x41), old),
            (blocks(target, WRITE, 210, 1, in_capsule(512), 0x42), new),
        ]
        sent = [io.send(entry, data) for entry, data in pair]
        same([io.wait(cid).status for cid in sent], [0, 0])
        same(read(target, io, 210, 1), new)


@check
def blocks_are_deallocated(target):
    with target.host() as (_, io):
        write(target, io, 300, pattern(4096))
        ranges = struct.pack("<IIQ", 0, 8, 300)
        io.ok(command(DSM, target.blocks, in_capsule(16), cdw10=0, cdw11=4), ranges)
        assert len(read(target, io, 300, 8)) == 4096


@check
def blocks_are_copied(target):
    with target.host() as (admin, io):
        if not admin.identify(0x01)[521] & 1:
            return
        data = pattern(2048, 6)
        write(target, io, 320, data)
        ranges = struct.pack("<8xQHHIIHH", 320, 3, 0, 0, 0, 0, 0)
        io.ok(command(COPY, target.blocks, in_capsule(32), cdw10=340), ranges)
        same(read(target, io, 340, 4), data)


@check
def blocks_past_the_end_are_out_of_range(target):
    with target.host() as (admin, io):
        end = number(admin.identify(0x00, target.blocks), 0, 8)
        same(io.run(blocks(target, READ, end, 1, transport(512))).status, SC_LBA_RANGE)
        same(io.run(blocks(target, VERIFY, end - 1, 2)).status, SC_LBA_RANGE)


@check
def a_namespace_of_keys_reads_no_blocks(target):
    with target.host() as (_, io):
        assert io.run(command(VERIFY, target.keys)).status
        assert io.run(command(READ, EVERY, transport(512))).status


@check
def a_full_queue_of_commands_is_answered(target):
    with target.host() as (_, io):
        data = [pattern(4096, seed) for seed in range(16)]
        entries = [blocks(target, WRITE, 400 + 8 * at, 8, transport(4096)) for at in range(16)]
        sent = [io.send(entry, b"", piece) for entry, piece in zip(entries, data)]
        same([io.wait(cid).status for cid in sent], [0] * 16)
        sent = [io.send(blocks(target, READ, 400 + 8 * at, 8, transport(4096))) for at in range(16)]
        same([io.wait(cid).data for cid in sent], data)


@check
def queues_of_one_controller_share_its_blocks(target):
    with target.admin() as admin, target.queue(admin, 1) as one, target.queue(admin, 2) as other:
        write(target, one, 500, pattern(512, 9))
        same(read(target, other, 500, 1), pattern(512, 9))


@check
def values_of_any_length_are_retrieved(target):
    with target.host() as (_, io):
        for length in (0, 1, 100, 4096, 8192, 16384, 100_000):
            value = pattern(length, length)
            same(store(target, io, b"value", value), 0)
            status, whole, data = retrieve(target, io, b"value", max(length, 4))
            same((status, whole, data[:length]), (0, length, value))


@check
def a_short_buffer_takes_the_beginning_of_a_value(target):
    with target.host() as (_, io):
        same(store(target, io, b"long", pattern(1000)), 0)
        same(retrieve(target, io, b"long", 64), (0, 1000, pattern(1000)[:64]))


@check
def a_long_buffer_ends_in_zeroes(target):
    with target.host() as (_, io):
        same(store(target, io, b"short", b"abc"), 0)
        same(retrieve(target, io, b"short", 64), (0, 3, b"abc".ljust(64, b"\0")))


@check
def keys_of_every_length_are_distinct(target):
    with target.host() as (_, io):
        keys = [b"k" * length for length in range(1, 17)]
        for key in keys:
            same(store(target, io, key, key), 0)
        for key in keys:
            same(retrieve(target, io, key, 16)[2][: len(key)], key)
            io.ok(keyed(target, DELETE, key))


@check
def keys_that_cannot_be_are_refused(target):
    with target.host() as (_, io):
        same(io.run(keyed(target, EXIST, b"")).status, SC_KEY_SIZE)
        entry = keyed(target, EXIST, b"k")
        entry[44] = 17
        assert io.run(entry).status in (SC_INVALID_FIELD, SC_KEY_SIZE)


@check
def a_key_that_is_none_is_said_to_be_none(target):
    with target.host() as (_, io):
        same(io.run(keyed(target, EXIST, b"none")).status, SC_NO_KEY)
        same(retrieve(target, io, b"none")[0], SC_NO_KEY)
        io.ok(keyed(target, DELETE, b"none"))


@check
def stores_go_by_their_condition(target):
    with target.host() as (_, io):
        if_exists, if_absent = 1, 2
        io.ok(keyed(target, DELETE, b"cond"))
        same(store(target, io, b"cond", b"a", if_exists), SC_NO_KEY)
        same(store(target, io, b"cond", b"b", if_absent), 0)
        same(store(target, io, b"cond", b"c", if_absent), SC_KEY_EXISTS)
        same(store(target, io, b"cond", b"d", if_exists), 0)
        same(retrieve(target, io, b"cond", 4)[2][:1], b"d")
        same(store(target, io, b"cond", b"e", if_exists | if_absent), SC_INVALID_FIELD)


@check
def keys_are_listed_in_order_from_the_one_given(target):
    with target.host() as (_, io):
        for key in (b"list-b", b"list-a", b"list-c"):
            same(store(target, io, key, b"v"), 0)
        page = io.ok(keyed(target, LIST, b"list-a", 4096, 0, transport(4096))).data
        found, at = [], 4
        for _ in range(number(page, 0, 4)):
            length = number(page, at, 2)
            found.append(page[at + 2 : at + 2 + length])
            at += (2 + length + 3) // 4 * 4
        same(found[:3], [b"list-a", b"list-b", b"list-c"])


@check
def junk_in_dwords_that_are_reserved_is_not_looked_at(target):
    with target.host() as (_, io):
        entry = keyed(target, STORE, b"junk", 3, 0, in_capsule(3))
        # The count of blocks that a cache's executor sends with every Store.
        struct.pack_into("<I", entry, 48, 527)
        io.ok(entry, b"abc")
        entry = blocks(target, READ, 0, 1, transport(512), cdw2=7, cdw3=7)
        io.ok(entry)


@check
def health_counts_what_was_moved(target):
    with target.host() as (admin, io):
        counted = lambda: [number(admin.log(0x02, 512), at, 8) for at in (64, 80)]
        before = counted()
        write(target, io, 600, pattern(512))
        for _ in range(3):
            read(target, io, 600, 1)
        same(store(target, io, b"smart", b"value"), 0)
        retrieve(target, io, b"smart")
        same([now - then for now, then in zip(counted(), before)], [4, 2], "host reads and writes")
        units = number(admin.log(0x02, 512), 32, 8)
        for _ in range(2000):
            read(target, io, 600, 1)
        same(number(admin.log(0x02, 512), 32, 8) - units, 2, "2000 blocks are two units")
