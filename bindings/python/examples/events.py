"""Completions in a program's own loop: events.py [URI]"""

import selectors
import sys

import byway
from byway import Command

DEPTH = 8

with byway.open(sys.argv[1] if len(sys.argv) > 1 else "embedded-ram:64M") as device, device.queue() as queue:
    queue.submit_all(Command.read(n) for n in range(DEPTH))
    queue.start()
    left = DEPTH
    with selectors.DefaultSelector() as loop:
        loop.register(queue, selectors.EVENT_READ)
        while left > 0:
            loop.select()
            # Until there are none: the descriptor stays readable while completions are left.
            while completions := queue.poll():
                left -= len([done.check() for done in completions])
    print(DEPTH, "reads")
