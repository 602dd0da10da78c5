#!/usr/bin/env python3
"""The Laghos query by the device, and by DuckDB that reads the same file through the device's blocks: bytes on the link, times, processor time.

    benches/queries.py FILE [ROUNDS]    FILE is laghos.parquet (`byway-lab data laghos FILE`); with 0 rounds nothing is timed

Needs the module byway of a release build, and the packages duckdb and fsspec. Prints one JSON object a line, the machine first. With the clock off wall time and
processor time are medians, each way by turns: `device_cpu_ms` is that of the device's threads (`run=thread`, one that scans), `host_cpu_ms` that of all others.
With the clock modelled `model_us` is the time of commands and data on a link, without that of scans. All results must be equal, floats to the bit.
"""

import csv
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import byway
import duckdb
import fsspec

QUERY = (
    "SELECT min(vertex_id) AS VID, min(x) as X, min(y) as Y, min(z) as Z, avg(e) AS E FROM s3object WHERE x > 1.5 AND x < 1.6 "
    "AND y > 1.5 AND y < 1.6 AND z > 1.5 AND z < 1.6 GROUP BY vertex_id ORDER BY E"
)
LINKS = ["gen2x8", "gen3x4", "gen4x4", "gen5x4"]
METHODS = ["inline", "sgl", "prp"]
WRITE_BYTES = 1 << 20


class BlockFile:
    """A file in blocks of a device, as DuckDB reads files: the blocks that hold what is asked for, and no others."""

    def __init__(self, nvm, size):
        self.nvm, self.size = nvm, size
        # Several threads of DuckDB seek and read by one handle.
        self.place = threading.local()

    def read(self, length=-1):
        start = self.position()
        end = self.size if length < 0 else min(self.size, start + length)
        if end <= start:
            return b""
        first = start // self.nvm.lba_bytes
        blocks = self.nvm[first : -(-end // self.nvm.lba_bytes)]
        self.place.at = end
        return blocks[start - first * self.nvm.lba_bytes : end - first * self.nvm.lba_bytes]

    def seek(self, at, whence=0):
        self.place.at = at + (0, self.position(), self.size)[whence]
        return self.place.at

    def position(self):
        return getattr(self.place, "at", 0)

    def seekable(self):
        return True

    def readable(self):
        return True

    def close(self):
        pass


class Blocks(fsspec.AbstractFileSystem):
    """One file, `blocks://mesh`, that begins at a device's first block."""

    protocol = "blocks"
    cachable = False

    def __init__(self, nvm, size):
        super().__init__()
        self.nvm, self.length = nvm, size

    def info(self, path, **_):
        return {"name": path, "size": self.length, "type": "file"}

    def exists(self, path, **_):
        return True

    def modified(self, path):
        return datetime.datetime(2026, 1, 1)

    def glob(self, path, **_):
        return [path]

    def open(self, path, mode="rb", **_):
        return BlockFile(self.nvm, self.length)


class ByDevice:
    """The device executes the query, whose text goes by a transfer method."""

    def __init__(self, method):
        self.name, self.options = f"device, {method}", {"transfer": method}

    def start(self, nvm, size):
        self.nvm, self.size = nvm, size

    def ask(self):
        return self.nvm.query(0, self.size, QUERY)

    def rows(self, result):
        return [(int(row[0]), *map(float, row[1:])) for row in csv.reader(result.decode().splitlines()[1:])]

    def close(self):
        pass


class ByDuckDb:
    """DuckDB executes the query, and reads the columns from the device."""

    name, options = "duckdb, reads blocks", {"transfer": "prp"}

    def start(self, nvm, size):
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.register_filesystem(Blocks(nvm, size))
        # What it has read is read again by the next query.
        self.connection.execute("SET enable_external_file_cache = false")
        self.connection.execute("SET enable_object_cache = false")

    def ask(self):
        sql = QUERY.replace("FROM s3object", "FROM read_parquet('blocks://mesh')")
        return self.connection.execute(sql).fetchall()

    def rows(self, result):
        return result

    def close(self):
        self.connection.close()


WAYS = [*(ByDevice(method) for method in METHODS), ByDuckDb()]


def opened(image, way, **options):
    return byway.open(f"embedded:{image}", **way.options, **options)


def counted(image, size, way, link):
    """What one query moves, and the modelled time of that."""
    with opened(image, way, profile="gen4x4", link=link, clock="virtual", flash="off") as device:
        nvm = device.nvm
        nvm.read(0)
        way.start(nvm, size)
        # What only the first query costs is the opening of its queue.
        way.ask()
        before, begun = device.ledger(), device.now_ns()
        result = way.ask()
        cost, model_ns = device.ledger() - before, device.now_ns() - begun
        way.close()
    row = {"way": way.name, "link": link, "commands": cost.rows()["command_fetch"].count}
    # What the host reads of registers while it waits hangs on how long that is.
    registers = cost.rows().get("register")
    row["wire_bytes"] = cost.wire_bytes - (registers.down_bytes + registers.up_bytes if registers else 0)
    row["payload_bytes"] = cost.payload_bytes - (registers.payload_bytes if registers else 0)
    row |= {"model_us": round(model_ns / 1e3, 1), "text_bytes": len(QUERY)}
    if isinstance(result, bytes):
        row["result_bytes"] = len(result)
        row["beside_bytes"] = row["wire_bytes"] - len(QUERY) - len(result)
    return row, way.rows(result)


def processor_ms():
    """Processor time of the host's threads and of the device's, which have names of their own."""
    host = device = 0
    for task in pathlib.Path("/proc/self/task").iterdir():
        used = int((task / "schedstat").read_text().split()[0]) / 1e6
        if (task / "comm").read_text().startswith("byway-"):
            device += used
        else:
            host += used
    return host, device


def timed(way):
    """Wall time, and processor time of the host and of the device."""
    wall, (host, device) = time.monotonic_ns(), processor_ms()
    way.ask()
    wall, (host_end, device_end) = time.monotonic_ns() - wall, processor_ms()
    return wall / 1e6, host_end - host, device_end - device


def times(image, size, rounds):
    """Rows of wall and processor time; the ways take turns."""
    ways = [WAYS[0], WAYS[-1]]
    taken = {way.name: [] for way in ways}
    # The first round is not counted.
    for number in range(rounds + 1 if rounds else 0):
        for way in ways if number % 2 else reversed(ways):
            with opened(image, way, run="thread", compute=1) as device:
                way.start(device.nvm, size)
                way.ask()
                taken[way.name].append(timed(way))
                way.close()
    for name, rows in taken.items() if rounds else ():
        columns = [[round(each, 2) for each in column] for column in zip(*rows[1:])]
        fields = dict(zip(["wall_ms", "host_cpu_ms", "device_cpu_ms"], columns))
        medians = {field: statistics.median(values) for field, values in fields.items()}
        yield {"way": name, "clock": "off", **medians, **{f"{field}_rounds": values for field, values in fields.items()}}


def machine(rounds):
    cpu = next(line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True)
    return {
        "command": f"benches/queries.py laghos.parquet {rounds}", "cpu": cpu.split(": ", 1)[1], "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1), "duckdb": duckdb.__version__, "commit": commit.stdout.strip(),
        "date": datetime.date.today().isoformat(),
    }  # fmt: skip


def stored(file, image):
    """Makes an image whose blocks begin with a file; the file's size."""
    content = pathlib.Path(file).read_bytes()
    room = -(-len(content) // WRITE_BYTES) * WRITE_BYTES
    byway.create(image, room + (64 << 20), namespaces=[byway.NewNamespace("nvm", room)])
    with byway.open(f"embedded:{image}") as device:
        each = WRITE_BYTES // device.nvm.lba_bytes
        for place in range(0, room // WRITE_BYTES):
            part = content[place * WRITE_BYTES : (place + 1) * WRITE_BYTES].ljust(WRITE_BYTES, b"\0")
            device.nvm[place * each : (place + 1) * each] = part
    return len(content)


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    rounds = int((sys.argv + [""])[2] or 11)
    print(json.dumps(machine(rounds)))
    with tempfile.TemporaryDirectory() as folder:
        image = f"{folder}/mesh.img"
        size = stored(sys.argv[1], image)
        results = []
        for way in WAYS:
            for link in LINKS:
                row, result = counted(image, size, way, link)
                print(json.dumps(row | {"result_rows": len(result)}), flush=True)
                results.append(result)
        if any(result != results[0] for result in results):
            raise SystemExit("two ways gave two results")
        for row in times(image, size, rounds):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
