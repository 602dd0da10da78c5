"""Copies the blocks of one device to another, several pieces at a time: copy.py [FROM TO]

Without arguments it copies a device in memory to a file of its own.
"""

import sys
import tempfile

import byway
from byway import Command

PIECE_BYTES, DEPTH = 64 << 10, 8


def copy(source, target):
    blocks = source.nvm.blocks
    each = PIECE_BYTES // source.nvm.lba_bytes
    pieces = iter(range(0, blocks, each))

    with source.queue(depth=DEPTH) as reads, target.queue(depth=DEPTH) as writes:

        def read_next():
            slba = next(pieces, None)
            if slba is not None:
                reads.submit(Command.read(slba, min(each, blocks - slba)), tag=slba, callback=write)

        def write(done):
            writes.submit(Command.write(done.tag, done.check().buffer), callback=written)

        def written(done):
            done.check()
            read_next()

        for _ in range(DEPTH):
            read_next()
        while reads.outstanding or writes.outstanding:
            reads.wait(timeout=1)
            writes.wait(timeout=1)
    target.nvm.flush()
    return blocks * source.nvm.lba_bytes


if len(sys.argv) > 2:
    with byway.open_to_read(sys.argv[1]) as source, byway.open(sys.argv[2]) as target:
        print(copy(source, target), "bytes")
else:
    with tempfile.TemporaryDirectory() as folder, byway.open("embedded-ram:64M") as source:
        source.nvm[0:3] = b"abc" * source.nvm.lba_bytes
        with byway.open(f"{folder}/copy", create=str(source.nvm.blocks * 512)) as target:
            print(copy(source, target), "bytes")
            assert target.nvm[0:3] == source.nvm[0:3]
