"""A program in eBPF over local memory of a device: compute.py [URI]"""

import sys

import byway

# The sum of the bytes of the first range.
SUM = bytes.fromhex(
    "7912000000000000"  # r2 = *(u64 *)(r1 + 0)
    "7913080000000000"  # r3 = *(u64 *)(r1 + 8)
    "0f23000000000000"  # r3 += r2
    "b700000000000000"  # r0 = 0
    "7124000000000000"  # r4 = *(u8 *)(r2 + 0)
    "0f40000000000000"  # r0 += r4
    "0702000001000000"  # r2 += 1
    "ad32fcff00000000"  # if r2 < r3 goto -4
    "9500000000000000"  # exit
)
INDEX = 8

with byway.open(sys.argv[1] if len(sys.argv) > 1 else "embedded-ram:64M") as device:
    memory = device.open_memory(device.create_memory(1 << 20))
    programs = device.open_programs(device.create_programs())

    # Blocks get to the memory within the device.
    lba_bytes = device.nvm.lba_bytes
    device.nvm[0] = b"\3" * lba_bytes
    memory.copy_blocks(0, device.nvm, 0)
    memory.write(0, bytes([100, 0, 0, 0]))

    programs.load(INDEX, SUM)
    programs.activate(INDEX)
    ranges = programs.create_range_set([(memory.nsid, 0, lba_bytes)])
    print(f"the sum of {lba_bytes} bytes in the device is {programs.execute(INDEX, ranges)}")

    device.delete_namespace(programs.nsid)
    device.delete_namespace(memory.nsid)
