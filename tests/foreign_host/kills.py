#!/usr/bin/env python3
"""Serves an image over and over, moves data, ends the server by a kill or in order, and compares SMART with what was moved.

    kills.py BYWAY IMAGE ROUNDS

The image is new, with a namespace of keys and one of 512-byte blocks.
"""

import json
import random
import signal
import subprocess
import sys

import data
from admin import number
from checks import Target, same

UNIT = 512_000
ENDS = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]


class Moved:
    """Commands of hosts and their bytes, since the image was made."""

    def __init__(self):
        self.reads = self.writes = self.read_bytes = self.written_bytes = 0

    def smart(self):
        """Host read and write commands, data units read and written."""
        units = [-(-count // UNIT) for count in (self.read_bytes, self.written_bytes)]
        return [self.reads, self.writes, *units]

    def read(self, count):
        self.reads += 1
        self.read_bytes += count

    def write(self, count):
        self.writes += 1
        self.written_bytes += count


def serve(byway, image):
    """A server, and the target that it is."""
    args = [byway, "serve", image, "--tcp", "127.0.0.1:0", "--discovery", "127.0.0.1:0", "--json"]
    server = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    listening = json.loads(server.stdout.readline())
    places = [listening[name].rsplit(":", 1) for name in ("tcp", "discovery")]
    address, discovery = [(host, int(port)) for host, port in places]
    return server, Target(address, listening["nqn"], discovery)


def move(target, io, moved):
    """One command, and what it moved."""
    blocks, value = random.choice([1, 8, 64, 512]), random.choice([1, 100, 5000])
    kind = random.randrange(4)
    if kind == 0:
        data.write(target, io, 0, bytes(512 * blocks))
        moved.write(512 * blocks)
    elif kind == 1:
        data.read(target, io, 0, blocks)
        moved.read(512 * blocks)
    elif kind == 2:
        same(data.store(target, io, b"key", bytes(value)), 0)
        moved.write(value)
    else:
        status, whole, _ = data.retrieve(target, io, b"key", 8192)
        moved.read(0 if status else whole)


def play(byway, image, moved, end):
    """One life of a server."""
    server, target = serve(byway, image)
    try:
        with target.host() as (admin, io):
            log = admin.log(0x02, 512)
            same([number(log, at, 8) for at in (64, 80, 32, 48)], moved.smart(), "SMART")
            for _ in range(random.randrange(200)):
                move(target, io, moved)
    finally:
        server.send_signal(end)
        server.wait()


def main(byway, image, rounds):
    moved = Moved()
    for at in range(int(rounds)):
        play(byway, image, moved, ENDS[at % len(ENDS)])
    print(f"ok {rounds} lives of a server, SMART {moved.smart()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
