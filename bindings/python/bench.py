"""What the installed module costs: its import, and commands over no device. Of a release build: `pip install ./bindings/python`."""

import statistics
import subprocess
import sys
import time

IMPORT_MS_WANTED = 60
STARTS = 11


def import_ms(module):
    """Milliseconds that a fresh interpreter takes to import it, as it says itself: the median of several."""

    def once():
        timed = subprocess.run([sys.executable, "-X", "importtime", "-c", f"import {module}"], capture_output=True, text=True)
        lines = [line.split("|") for line in timed.stderr.splitlines()]
        return next(int(total) / 1000 for _, total, name in lines if name.strip() == module)

    return statistics.median(once() for _ in range(STARTS))


def command_ns(depth, commands=200_000):
    """Nanoseconds of a 4 KiB read over no device, as many at a time."""
    import byway

    with byway.open("null-backend:1G") as device, device.queue() as queue:
        reads = [byway.Command.read(n, into=device.buffer(4096)) for n in range(depth)]
        begun = time.perf_counter_ns()
        for _ in range(commands // depth):
            queue.submit_all(reads)
            queue.wait(depth)
        return (time.perf_counter_ns() - begun) / (commands // depth * depth)


def call_ns(calls=100_000):
    """Nanoseconds of a put and of a get of 32 bytes, on a device in memory."""
    import byway

    with byway.open("embedded-ram:256M") as device:
        kv, keys, value = device.kv, [b"%06d" % n for n in range(1000)], b"v" * 32

        def each(call):
            begun = time.perf_counter_ns()
            for n in range(calls):
                call(keys[n % 1000])
            return (time.perf_counter_ns() - begun) / calls

        return each(lambda key: kv.put(key, value)), each(kv.get)


if __name__ == "__main__":
    took = import_ms("byway")
    print(f"import byway: {took:.1f} ms (wanted: at most {IMPORT_MS_WANTED})")
    for depth in (1, 32):
        print(f"a read over no device, {depth} at a time: {command_ns(depth):.0f} ns")
    print("a put, a get of 32 bytes in memory: {:.0f} ns, {:.0f} ns".format(*call_ns()))
    sys.exit(took > IMPORT_MS_WANTED)
