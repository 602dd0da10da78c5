"""Keeps a queue full: each completion submits the next command, from inside its callback: async.py [URI]"""

import sys

import byway
from byway import Command

DEPTH, TOTAL, BLOCKS = 32, 1000, 8

with byway.open(sys.argv[1] if len(sys.argv) > 1 else "embedded-ram:64M") as device:
    ranges = device.nvm.blocks // BLOCKS
    submitted = finished = 0

    with device.queue(depth=DEPTH) as queue:

        def submit(buffer):
            global submitted
            slba = submitted % ranges * BLOCKS
            submitted += 1
            queue.submit(Command.read(slba, into=buffer), callback=done)

        def done(completion):
            global finished
            finished += 1
            completion.check()
            if submitted < TOTAL:
                submit(completion.buffer)

        for _ in range(DEPTH):
            submit(device.buffer(BLOCKS * device.nvm.lba_bytes))
        queue.drain()
    print(finished, "reads")
