"""Commands passed through: Identify, and a write and a read by their opcodes: raw.py [URI]"""

import sys

import byway
from byway import Command

IDENTIFY, WRITE, READ = 0x06, 0x01, 0x02

with byway.open(sys.argv[1] if len(sys.argv) > 1 else "embedded-ram:64M") as device:
    controller = device.admin(IDENTIFY, cdw10=1, into=4096).data
    print("model", controller[24:64].decode().rstrip())

    space = device.nvm
    with device.queue() as queue:
        queue.submit(Command.raw(WRITE, nsid=space.nsid, cdw10=7, data=b"w" * space.lba_bytes))
        queue.drain()[0].check()
        queue.submit(Command.raw(READ, nsid=space.nsid, cdw10=7, into=space.lba_bytes))
        print("block 7 begins with", bytes(queue.drain()[0].check().data[:4]))

        queue.submit(Command.raw(0x7F, nsid=space.nsid))
        error = queue.drain()[0].error
        print(f"{error} (status {error.status:#x}, said by the {error.origin})")
