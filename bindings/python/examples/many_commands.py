"""Many reads at once, by tags and by callbacks."""

import byway
from byway import Command

with byway.open("ram:64M") as device:
    with device.queue(depth=32) as queue:
        queue.submit_all(Command.write(n, n.to_bytes(2, "little") * 256) for n in range(32))
        queue.drain()

        for n in range(32):
            queue.submit(Command.read(n), tag=n, timeout=5.0)
        while queue.outstanding:
            for done in queue.wait(min=1):
                assert done.check().data[:2] == done.tag.to_bytes(2, "little")

        left = 100

        def next_one(done):
            global left
            done.check()
            left -= 1
            if left > 0:
                queue.submit(Command.read(left), callback=next_one)

        queue.submit(Command.read(0), callback=next_one)
        queue.drain()
        print("132 reads")
