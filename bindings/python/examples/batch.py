"""Many commands by one call, completions as a list: batch.py [URI]"""

import sys

import byway
from byway import Command

COUNT = 16

with byway.open(sys.argv[1] if len(sys.argv) > 1 else "embedded-ram:64M") as device, device.queue() as queue:
    queue.submit_all(Command.write(n, bytes([n]) * device.nvm.lba_bytes) for n in range(COUNT))
    failed = [done for done in queue.drain() if not done.ok]

    first, *_ = queue.submit_all(Command.read(n) for n in range(COUNT))
    for done in queue.drain():
        assert done.check().data[0] == done.tag - first
    print(f"{COUNT} writes, {COUNT} reads, {len(failed)} failed")
