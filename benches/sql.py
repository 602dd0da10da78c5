#!/usr/bin/env python3
"""The device's SQL beside DuckDB on the same files, by turns: the Laghos query and TPC-H Q1 and Q6, with one and two threads.

    benches/sql.py QUERY FOLDER [ROUNDS]    QUERY is the built example `query` of byway-compute

FOLDER has laghos.parquet (`byway-lab data laghos`) and lineitem.parquet (`byway-lab data tpch-lineitem`, or tpchgen-cli). Needs the package duckdb.
Prints one JSON object a line, the machine first: processor time and wall time of a query, medians and every round, in ms; both engines have run each query
once before. Processor time of the device is the main thread's, so it stands beside one thread alone. `chrt -f 20` keeps other work off the processors.
"""

import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import duckdb

TPCH_Q1 = (
    "select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price, "
    "sum(l_extendedprice * (1 - l_discount)) as sum_disc_price, "
    "sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge, avg(l_quantity) as avg_qty, "
    "avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc, count(*) as count_order from object "
    "where l_shipdate <= date '1998-12-01' - interval '90' day group by l_returnflag, l_linestatus "
    "order by l_returnflag, l_linestatus"
)
TPCH_Q6 = (
    "select sum(l_extendedprice * l_discount) as revenue from object where l_shipdate >= date '1994-01-01' "
    "and l_shipdate < date '1994-01-01' + interval '1' year and l_discount between 0.06 - 0.01 and 0.06 + 0.01 "
    "and l_quantity < 24"
)
LAGHOS = (
    "select min(vertex_id) as VID, min(x) as X, min(y) as Y, min(z) as Z, avg(e) as E from object where x > 1.5 and x < 1.6 "
    "and y > 1.5 and y < 1.6 and z > 1.5 and z < 1.6 group by vertex_id order by E"
)
QUERIES = [("laghos", "laghos.parquet", LAGHOS), ("q1", "lineitem.parquet", TPCH_Q1), ("q6", "lineitem.parquet", TPCH_Q6)]

SLEEP_S = 0.03


class Device:
    """The device's engine in a process that answers one query after the other."""

    name = "device"

    def __init__(self, program, path, threads):
        self.threads = threads
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen([program, path, "-", str(threads)], **pipes)

    def run(self, sql):
        self.process.stdin.write(sql.encode() + b"\n")
        self.process.stdin.flush()
        state, rest = self.process.stdout.readline().decode().split(" ", 1)
        if state != "ok":
            raise SystemExit(f"the device: {rest}")
        self.process.stdout.read(int(rest))

    def processor_ms(self):
        """Processor time of the main thread."""
        return int(pathlib.Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) / 1e6

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class DuckDb:
    """DuckDB in this process."""

    name = "duckdb"

    def __init__(self, path, threads):
        self.path, self.threads = path, threads
        self.connection = duckdb.connect()
        self.connection.execute(f"SET threads = {threads}")

    def run(self, sql):
        self.connection.execute(sql.replace("from object", f"from '{self.path}'")).fetchall()

    def processor_ms(self):
        return time.process_time_ns() / 1e6

    def close(self):
        self.connection.close()


def timed(engine, sql):
    cpu, wall = engine.processor_ms(), time.monotonic_ns()
    engine.run(sql)
    return engine.processor_ms() - cpu, (time.monotonic_ns() - wall) / 1e6


def measure(engines, sql, rounds):
    """Times of each round of each engine, whose order turns. Between two runs all sleep, or real-time work would be held back."""
    for engine in engines:
        engine.run(sql)
    times = {engine: [] for engine in engines}
    for number in range(rounds):
        for engine in engines if number % 2 == 0 else reversed(engines):
            time.sleep(SLEEP_S)
            times[engine].append(timed(engine, sql))
    return times


def rows(query, times):
    """A row for each engine: medians, rounds, and for the device its speed as a multiple of DuckDB's and of one thread's."""
    made = {}
    for engine, rounds in times.items():
        cpu, wall = ([round(each, 2) for each in column] for column in zip(*rounds))
        row = {"query": query, "engine": engine.name, "threads": engine.threads, "wall_ms": statistics.median(wall)}
        row |= {"cpu_ms": statistics.median(cpu)} if engine.threads == 1 else {}
        row |= {"wall_ms_rounds": wall} | ({"cpu_ms_rounds": cpu} if engine.threads == 1 else {})
        made[engine.name, engine.threads] = row
    for threads, field in ((1, "cpu_ms"), (2, "wall_ms")):
        device = made["device", threads]
        device["of_duckdb"] = round(made["duckdb", threads][field] / device[field], 2)
    made["device", 2]["of_one_thread"] = round(made["device", 1]["wall_ms"] / made["device", 2]["wall_ms"], 2)
    return made.values()


def machine(rounds):
    cpu = next(line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True)
    return {
        "command": f"benches/sql.py QUERY FOLDER {rounds}", "cpu": cpu.split(": ", 1)[1], "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1), "duckdb": duckdb.__version__, "commit": commit.stdout.strip(),
        "date": datetime.date.today().isoformat(),
    }


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    program, folder, count = sys.argv[1], pathlib.Path(sys.argv[2]), int((sys.argv + ["", "", "15"])[3] or 15)
    print(json.dumps(machine(count)))
    for query, file, sql in QUERIES:
        path = folder / file
        engines = [make(threads) for threads in (1, 2) for make in (lambda n: Device(program, path, n), lambda n: DuckDb(path, n))]
        for row in rows(query, measure(engines, sql, count)):
            print(json.dumps(row), flush=True)
        for engine in engines:
            engine.close()


if __name__ == "__main__":
    main()
