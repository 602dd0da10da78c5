"""Admin commands, and raw commands of any opcode."""

import byway
from byway import Command

IDENTIFY, READ = 0x06, 0x02

with byway.open("ram:64M") as device:
    controller = device.admin(IDENTIFY, cdw10=1, into=4096).data
    assert controller == device.identify(1)
    print("model", controller[24:64].decode().rstrip())

    with device.queue() as queue:
        queue.submit(Command.raw(READ, nsid=2, cdw10=7, cdw12=0, into=512))
        [done] = queue.wait()
        print("block 7 has", len(done.check().data), "bytes")

        queue.submit(Command.raw(0x7F, nsid=2))
        [done] = queue.wait()
        print(f"{done.error} (status {done.error.status:#x}, of the {done.error.origin})")
