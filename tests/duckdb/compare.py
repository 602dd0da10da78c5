#!/usr/bin/env python3
"""Random queries on random Parquet files, answered by the device's SQL and by DuckDB: the rows must be equal, floats to the bit.

    tests/duckdb/compare.py QUERY [QUERIES [SEED]]    QUERY is the built example `query` of byway-compute

Needs the packages duckdb and pyarrow. Where DuckDB gives an error (an overflow, a cast), so must the device. Files of differences are left in the working folder. Ends with counts.
"""

import datetime
import decimal
import io
import math
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

WORDS = ["", "a", "ab", "bolt", "Bolt", "nut", "100%", "a_b", "ü", "screw M6", "nutcracker"]
FLOATS = [0.0, -0.0, 1.5, -1.5, 0.1, 1e300, -1e-300, 3.0, 2.25, math.nan, math.inf, -math.inf]
DAY = datetime.date(1995, 1, 1)


def maybe(rng, value):
    """The value, or NULL for one in eight."""
    return None if rng.random() < 0.125 else value


def table(rng, has_nans):
    """A table of every type that the device reads."""
    floats = FLOATS if has_nans else [value for value in FLOATS if not math.isnan(value)]
    rows = rng.choice([0, 1, 7, 100, 3000])
    def column(make, kind):
        return pa.array([maybe(rng, make()) for _ in range(rows)], kind)
    return pa.table({
        "i": column(lambda: rng.randint(-5, 5), pa.int32()),
        "b": column(lambda: rng.choice([0, 1, -1, 7, 10**12, -(10**15)]), pa.int64()),
        "s": column(lambda: rng.randint(0, 200), pa.uint8()),
        "f": column(lambda: rng.choice(floats), pa.float64()),
        "g": column(lambda: rng.choice([0.0, 0.5, -0.25, 1.5, floats[-3]]), pa.float32()),
        "d": column(lambda: decimal.Decimal(rng.randint(-999, 999)).scaleb(-2), pa.decimal128(15, 2)),
        "t": column(lambda: rng.choice(WORDS), pa.string()),
        "y": column(lambda: DAY + datetime.timedelta(days=rng.randint(0, 400)), pa.date32()),
        "m": column(lambda: datetime.datetime(1995, 1, 1) + datetime.timedelta(seconds=rng.randint(0, 10**6)), pa.timestamp("us")),
        "k": column(lambda: rng.random() < 0.5, pa.bool_()),
    })


def write(rng, path):
    """Writes a table as a writer of some kind would."""
    # DuckDB 2.0 concludes from stated extremes that no value is greater, though they leave NaNs out, which are.
    has_statistics = rng.random() < 0.8
    pq.write_table(
        table(rng, not has_statistics), path,
        row_group_size=rng.choice([10, 1000, 100000]),
        compression=rng.choice(["none", "snappy", "zstd", "gzip", "lz4"]),
        use_dictionary=rng.random() < 0.5,
        data_page_size=rng.choice([64, 4096, 1 << 20]),
        data_page_version=rng.choice(["1.0", "2.0"]),
        write_statistics=has_statistics,
        write_page_index=rng.random() < 0.5,
    )


class Queries:
    """Queries of the subset that both take, and mean the same by."""

    def __init__(self, rng):
        self.rng = rng

    def pick(self, *choices):
        return self.rng.choice(choices)

    def number(self, depth=2):
        plain = ["i", "b", "f", "g", "d", "1", "-2", "0.5", "2.25", "100"]
        if depth == 0 or self.rng.random() < 0.5:
            return self.pick(*plain)
        left, right = self.number(depth - 1), self.number(depth - 1)
        return f"({left} {self.pick('+', '-', '*', '/')} {right})"

    def condition(self, depth=2):
        if depth and self.rng.random() < 0.4:
            op = self.pick("AND", "OR")
            return f"({self.condition(depth - 1)} {op} {self.condition(depth - 1)})"
        if self.rng.random() < 0.15:
            return f"NOT ({self.condition(0)})"
        return self.simple()

    def simple(self):
        compare = self.pick("=", "<>", "<", "<=", ">", ">=")
        day = DAY + datetime.timedelta(days=self.rng.randint(0, 400))
        word = self.rng.choice(WORDS)
        return self.pick(
            f"{self.number(1)} {compare} {self.number(1)}",
            f"{self.pick('i', 'b', 'f', 'd', 's')} {compare} {self.pick('0', '1', '-1.5', '3', '7', '0.10')}",
            f"{self.pick('i', 'f', 'd')} {self.pick('', 'NOT ')}BETWEEN -1.5 AND {self.pick('0', '2.25')}",
            f"i {self.pick('', 'NOT ')}IN (1, 2, {self.pick('3', 'NULL', '2.0')})",
            f"t {compare} '{word}'",
            f"t {self.pick('LIKE', 'NOT LIKE', 'ILIKE')} '{self.pick('%', 'b%', '%t', '_ut%', '%o_t%', '100%', 'ü')}'",
            f"t IN ('{word}', 'nut')",
            f"y {compare} DATE '{day}'",
            f"y {compare} DATE '{day}' - INTERVAL '{self.rng.randint(0, 99)}' DAY",
            f"m {compare} TIMESTAMP '{day} 12:00:00'",
            f"{self.pick('i', 'f', 't', 'y', 'k', 'm')} IS {self.pick('', 'NOT ')}NULL",
            "k",
        )

    def aggregate(self):
        return self.pick(
            "count(*)", f"count({self.pick('i', 'f', 't', 'k')})", f"sum({self.pick('i', 'b', 's', 'd', 'f')})",
            f"avg({self.pick('i', 's', 'd', 'f')})", f"{self.pick('min', 'max')}({self.pick('i', 'b', 'f', 'g', 'd', 't', 'y', 'm', 'k')})",
            f"sum(d * {self.pick('2', '(1 - d)', '0.5')})", f"max({self.number(1)})",
        )

    def query(self):
        where = f" WHERE {self.condition()}" if self.rng.random() < 0.8 else ""
        shape = self.rng.random()
        if shape < 0.4:
            items = ", ".join(self.pick(*"ibsfgdtymk", self.number()) for _ in range(self.rng.randint(1, 4)))
            return f"SELECT {items} FROM object{where}"
        aggregates = [self.aggregate() for _ in range(self.rng.randint(1, 4))]
        if shape < 0.6:
            # DuckDB rounds an average of decimals over all rows twice: to a double, and where it divides.
            aggregates = [each for each in aggregates if each != "avg(d)"] or ["count(*)"]
            return f"SELECT {', '.join(aggregates)} FROM object{where}"
        if "sum(d)" in aggregates:
            # And where it takes the average from the sum.
            aggregates = [each for each in aggregates if each != "avg(d)"]
        keys = self.rng.sample(["i", "s", "t", "y", "k", "f", "d", "b"], self.rng.randint(1, 2))
        return f"SELECT {', '.join(keys + aggregates)} FROM object{where} GROUP BY {', '.join(keys)}"


def plain(value):
    """A value by which rows are compared: floats by their bits, but for NaNs and zeroes, numbers of other types by value."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else ("float", repr(value + 0.0))
    if isinstance(value, bool) or value is None:
        return (str(value),)
    if isinstance(value, (int, decimal.Decimal)):
        return ("exact", str(decimal.Decimal(value).normalize()))
    if isinstance(value, datetime.datetime):
        return ("time", value.isoformat())
    return (type(value).__name__, str(value))


def rows_of(rows):
    return sorted(tuple(plain(value) for value in row) for row in rows)


class Device:
    """The device's SQL on one file."""

    def __init__(self, program, path):
        self.process = subprocess.Popen([program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, sql):
        self.process.stdin.write(sql.encode() + b"\n")
        self.process.stdin.flush()
        answer, _, rest = self.process.stdout.readline().decode().rstrip("\n").partition(" ")
        if answer != "ok":
            raise ValueError(rest or "the program ended")
        stream = io.BytesIO(self.process.stdout.read(int(rest)))
        columns = pa.ipc.open_stream(stream).read_all()
        return list(zip(*(column.to_pylist() for column in columns.columns))) if columns.num_rows else []

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    program, count, seed = sys.argv[1], int((sys.argv + ["", "2000"])[2] or 2000), int((sys.argv + ["", "", "", "1"])[3] or 1)
    rng = random.Random(seed)
    database = duckdb.connect()
    database.execute("SET threads = 1")
    equal = both_failed = different = 0
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "object.parquet")
        while equal + both_failed + different < count:
            write(rng, path)
            database.execute(f"CREATE OR REPLACE VIEW object AS SELECT * FROM '{path}'")
            device = Device(program, path)
            for _ in range(50):
                sql = Queries(rng).query()
                try:
                    theirs = rows_of(database.execute(sql).fetchall())
                except duckdb.Error as error:
                    theirs = f"error {str(error).splitlines()[0]}"
                try:
                    ours = rows_of(device.ask(sql))
                except ValueError as error:
                    ours = f"error {error}"
                if ours == theirs:
                    equal += 1
                elif isinstance(ours, str) and isinstance(theirs, str):
                    both_failed += 1
                else:
                    different += 1
                    shutil.copy(path, f"different-{different}.parquet")
                    print(f"different-{different}.parquet: {sql}\n  device: {str(ours)[:300]}\n  duckdb: {str(theirs)[:300]}")
            device.close()
    print(f"{equal} equal, {both_failed} refused by both, {different} different; seed {seed}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
