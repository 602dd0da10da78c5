"""What a command costs over no device, 4 KiB reads at depth 1 and 32: perf.py [COMMANDS] [URI]"""

import sys
import time

import byway
from byway import Command

commands = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000

with byway.open(sys.argv[2] if len(sys.argv) > 2 else "null-backend:1G") as device, device.queue() as queue:
    blocks = 4096 // device.nvm.lba_bytes
    for depth in (1, 32):
        reads = [Command.read(n * blocks, into=device.buffer(4096)) for n in range(depth)]
        begun = time.perf_counter_ns()
        for _ in range(commands // depth):
            queue.submit_all(reads)
            queue.wait(depth)
        each = (time.perf_counter_ns() - begun) / (commands // depth * depth)
        print(f"depth {depth}: {each:.0f} ns a command")
