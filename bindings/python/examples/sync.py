"""Blocks as slices, and a numpy array that is written and read into without a copy: sync.py [URI]"""

import sys

import byway
import numpy

with byway.open(sys.argv[1] if len(sys.argv) > 1 else "embedded-ram:64M") as device:
    nvm = device.nvm
    print(nvm.blocks, "blocks of", nvm.lba_bytes, "bytes")
    nvm[0:8] = bytes(range(256)) * (8 * nvm.lba_bytes // 256)

    written = numpy.arange(8 * nvm.lba_bytes // 8, dtype="<u8")
    read = numpy.empty_like(written)
    nvm.write(8, written)
    nvm.flush()
    nvm.read_into(8, read)
    print("read what was written" if (read == written).all() else "read something else")

    nvm.trim(8, 8)
    print("after trim:", nvm[8][:4])
    try:
        nvm.read(nvm.blocks)
    except byway.OutOfRangeError as error:
        print("refused:", error)
