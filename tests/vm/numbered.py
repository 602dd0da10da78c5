"""Numbered blocks: writes them, and checks that every acknowledged write is kept, whatever happened to the device.

    numbered.py write DEVICE JOURNAL SECONDS [THREADS]
    numbered.py check DEVICE JOURNAL

`write` has each thread (16) write blocks of its own at random places, each with a number that is one higher than the last
of that place, and note in JOURNAL what was acknowledged: one line a block, its place and its number, written through. It
ends after so many seconds, at a SIGTERM, or when the device fails. `check` reads every block back: it holds the last
number that was acknowledged, or the one behind it, which may have been on its way.
"""

import os
import random
import signal
import struct
import sys
import threading
import time

BLOCK_BYTES = 4096
BLOCKS = 8192
PATTERN = struct.Struct("<QQ")


def content(place, number):
    """A block: its place and its number, over and over. What was never written is zeroes."""
    if number == 0:
        return bytes(BLOCK_BYTES)
    return PATTERN.pack(place, number) * (BLOCK_BYTES // PATTERN.size)


def read_journal(path):
    """The last acknowledged number of each place. A line that was cut off was not acknowledged to anybody."""
    numbers = {}
    if not os.path.exists(path):
        return numbers
    with open(path) as journal:
        for line in journal:
            words = line.split()
            if len(words) == 2 and line.endswith("\n"):
                numbers[int(words[0])] = int(words[1])
    return numbers


class Writers:
    """Threads that write until they are stopped or the device fails."""

    def __init__(self, device, journal):
        self.numbers = read_journal(journal)
        self.device = os.open(device, os.O_RDWR | os.O_DIRECT)
        self.journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.stopped = threading.Event()
        self.failure = None
        self.acknowledged = 0

    def run(self, thread, threads):
        """Writes places of one thread: no two write the same."""
        draw = random.Random(thread)
        while not self.stopped.is_set():
            place = draw.randrange(BLOCKS // threads) * threads + thread
            number = self.numbers.get(place, 0) + 1
            try:
                written = os.pwrite(self.device, content(place, number), place * BLOCK_BYTES)
            except OSError as error:
                self.failure = error
                return
            if written != BLOCK_BYTES:
                self.failure = f"a write of {written} bytes"
                return
            os.write(self.journal, f"{place} {number}\n".encode())
            self.numbers[place] = number
            self.acknowledged += 1


def write(device, journal, seconds, threads):
    writers = Writers(device, journal)
    signal.signal(signal.SIGTERM, lambda *_: writers.stopped.set())
    running = [threading.Thread(target=writers.run, args=(n, threads)) for n in range(threads)]
    for thread in running:
        thread.start()
    end = time.monotonic() + seconds
    while any(thread.is_alive() for thread in running):
        if time.monotonic() >= end:
            writers.stopped.set()
        time.sleep(0.05)
    print(f"{writers.acknowledged} acknowledged; {writers.failure or 'no failure'}")


def check(device, journal):
    numbers = read_journal(journal)
    wrong = 0
    with open(device, "rb", buffering=0) as blocks:
        for place in range(BLOCKS):
            found = os.pread(blocks.fileno(), BLOCK_BYTES, place * BLOCK_BYTES)
            number = numbers.get(place, 0)
            if found not in (content(place, number), content(place, number + 1)):
                wrong += 1
                print(f"place {place}: number {number} was acknowledged; found {PATTERN.unpack_from(found)}")
    print(f"{len(numbers)} places were written, {wrong} are wrong")
    return 1 if wrong or not numbers else 0


def main(words):
    if words[0] == "write":
        write(words[1], words[2], float(words[3]), int(words[4]) if len(words) > 4 else 16)
        return 0
    return check(words[1], words[2])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
