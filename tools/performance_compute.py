"""The page on queries in the device, from rows of benches/results."""

from performance_topics import Topic, axis, bars, dots, first, series, table

LINKS = ["gen2x8", "gen3x4", "gen4x4", "gen5x4"]
QUERIES = {"laghos": "Laghos", "q1": "TPC-H Q1", "q6": "TPC-H Q6"}


def on_the_link(rows_of):
    """The Laghos query by the device and by DuckDB over the device's blocks: what crosses the link."""
    rows = rows_of("queries.json")[1:]
    ways = list(dict.fromkeys(row["way"] for row in rows if "link" in row))
    of = lambda way, link: first(rows, {"way": way, "link": link})  # noqa: E731
    spec = dots(
        "queries-link",
        "The Laghos query on the link",
        "4,194,304 rows, of which the query finds 8. The device executes it and sends them; or DuckDB executes it and reads five columns from the device's "
        "blocks. Modelled time of commands and data, without the scans; logarithmic axis.",
        LINKS,
        axis("modelled time", "µs", "log10"),
        [series(way, [of(way, link)["model_us"] for link in LINKS]) for way in ways],
        source={"command": "benches/queries.py laghos.parquet"},
    )
    cells = [
        [way, *(f"{of(way, 'gen4x4')[field]:,}" for field in ("commands", "payload_bytes", "wire_bytes")), *(f"{of(way, link)['model_us']:,}" for link in LINKS)]
        for way in ways
    ]
    yield spec, "queries.json", table(["by", "commands", "payload bytes", "wire bytes", *(f"µs, {link}" for link in LINKS)], cells)


def with_clock_off(rows_of):
    """The Laghos query on this machine: wall time, and processor time of host and device."""
    rows = rows_of("queries.json")[1:]
    timed = [row for row in rows if row.get("clock") == "off"]
    # A run with 0 rounds has none.
    if not timed:
        return
    fields = {"wall_ms": "wall time", "host_cpu_ms": "processor time of the host", "device_cpu_ms": "processor time of the device"}
    spread = lambda row, field: [row[field], min(row[f"{field}_rounds"]), max(row[f"{field}_rounds"])]  # noqa: E731
    spec = bars(
        "queries-times",
        "The Laghos query with the clock off",
        "The same query with no modelled link, one thread that scans on either side, by turns. DuckDB reads the blocks through a file system written in Python; "
        "the device copies them. Processor time is that of all threads of either side.",
        list(fields.values()),
        {"name": "time", "unit": "ms"},
        [series(row["way"], [spread(row, field) for field in fields]) for row in timed],
        spread="least and most of the rounds",
    )
    wire = lambda row: first(rows, {"way": row["way"], "link": "gen4x4"})["wire_bytes"]  # noqa: E731
    cells = [[row["way"], f"{wire(row):,}", *(f"{row[field]:.1f} ms" for field in fields)] for row in timed]
    yield spec, "queries.json", table(["by", "wire bytes", *fields.values()], cells)


def scans(rows_of):
    """The device's engine beside DuckDB on the same files."""
    rows = rows_of("sql.json")[1:]
    groups = [(query, threads) for query in QUERIES for threads in (1, 2)]
    row = lambda engine, group: first(rows, {"engine": engine, "query": group[0], "threads": group[1]})  # noqa: E731
    spread = lambda row: [row["wall_ms"], min(row["wall_ms_rounds"]), max(row["wall_ms_rounds"])]  # noqa: E731
    name = lambda group: f"{QUERIES[group[0]]}, {group[1]} thread" + "s" * (group[1] > 1)  # noqa: E731
    spec = bars(
        "queries-scan",
        "Scans beside DuckDB",
        "The same query on the same file in memory, by turns.",
        [name(group) for group in groups],
        {"name": "wall time", "unit": "ms"},
        [series(engine, [spread(row(engine, group)) for group in groups]) for engine in ("device", "duckdb")],
        spread="least and most of the rounds",
        source={"command": "chrt -f 20 benches/sql.py QUERY FOLDER 21"},
    )
    cells = [
        [name(group), f"{row('device', group)['wall_ms']:.1f} ms", f"{row('duckdb', group)['wall_ms']:.1f} ms", f"{row('device', group)['of_duckdb']:.2f}"]
        for group in groups
    ]
    yield spec, "sql.json", table(["query", "device", "DuckDB", "speed beside DuckDB"], cells)


def queries(rows_of):
    for part in (on_the_link, with_clock_off, scans):
        yield from part(rows_of)


TOPICS = [Topic("queries", "Queries in the device", queries)]
