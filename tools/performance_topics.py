"""What each page on performance shows: one function a topic, from rows of benches/results to figures and tables.

A topic yields (figure, file of results, table or None). A figure is as `crates/figure/examples/draw.rs` reads it.
"""

import dataclasses
import pathlib
import tomllib
import typing

TARGETS = tomllib.loads((pathlib.Path(__file__).resolve().parent.parent / "benches" / "targets.toml").read_text())["target"]


@dataclasses.dataclass
class Topic:
    """A page: its file's name, its title, and what makes its figures."""

    name: str
    title: str
    make: typing.Callable


def dots(name, title, caption, groups, value, series, **more):
    return {"kind": "dots", "id": name, "title": title, "caption": caption, "groups": groups, "value": value, "series": series, **more}


def bars(name, title, caption, groups, value, series, **more):
    return {"kind": "bars", "id": name, "title": title, "caption": caption, "groups": groups, "value": value, "series": series, **more}


def axis(name, unit, scale):
    return {"name": name, "unit": unit, "scale": scale}


def series(name, values, role="measured"):
    return {"name": name, "role": role, "values": values}


def table(headings, rows):
    lines = ["| " + " | ".join(headings) + " |", "|---" + "|---:" * (len(headings) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def rate(value):
    """Operations a second, short."""
    for factor, unit in ((1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g}"


def bound(file, of):
    """The target that a row of a file is held against, in the file's unit; `None` where it has none."""
    found = next((each for each in TARGETS if each["file"] == file and each["of"] == of), None)
    return found and found.get("at_least", found.get("at_most")) / found.get("scale", 1)


def against(text, value, least):
    """A result's text; in bold, and said so, where it misses the least that was aimed at."""
    return text if least is None or value >= least else f"**{text}** (missed)"


def cell(rows, wanted, show):
    """The first row with these fields as `show` has it; an empty cell where there is none."""
    row = first(rows, wanted)
    return "" if row is None else show(row)


def first(rows, wanted):
    return next((row for row in rows if all(row.get(field) == value for field, value in wanted.items())), None)


def one_command(rows_of):
    rows = [row for row in rows_of("latency.json")[1:] if not row["case"].endswith("-ledger")]
    names = {
        "nvm-write-512-inline": "block write, 512 B, inline",
        "nvm-write-512-prp": "block write, 512 B, prp",
        "kv-get-32-open": "get 32 B, page open",
        "kv-get-32-flash": "get 32 B, on flash",
        "kv-get-32-run": "get 32 B, index in a run",
        "kv-get-1024-flash": "get 1 KiB, on flash",
        "kv-list-key": "one key of a list",
        "kv-list-key-run": "one key of a list, in a run",
    }
    name = lambda row: names.get(row["case"], row["case"].replace("kv-put-32-", "put 32 B, "))  # noqa: E731
    value = lambda row: [row["ns_median"], row["ns_best"], row["ns_worst_tenth"]]  # noqa: E731
    spec = dots(
        "one-command",
        "Time of one command",
        "One thread, one command at a time, from the call to its completion; device in memory, clock and ledger off.",
        [name(row) for row in rows],
        axis("time of a call", "ns", "linear"),
        [series("byway", [value(row) for row in rows])],
        spread=f"best and worst tenth of {rows[0]['rounds']} rounds",
        source={"command": "target/release/latency --json benches/results/latency.json"},
    )
    cells = [[name(row), *(f"{number:.0f} ns" for number in value(row))] for row in rows]
    yield spec, "latency.json", table(["call", "median", "best", "worst tenth from"], cells)


def no_device(rows_of):
    rows = rows_of("nil.json")[1:]
    depths = [1, 16, 128]
    queues = {"static": "the queue's own type", "any": "a device opened by URI"}
    value = lambda queue, depth: first(rows, {"queue": queue, "depth": depth})  # noqa: E731
    all_series = [
        series(name, [[row["median_ns"], row["best_ns"], row["median_ns"]] for row in (value(queue, depth) for depth in depths)])
        for queue, name in queues.items()
    ]
    all_series.append(series("target", [bound("nil.json", {"queue": "static", "depth": depth}) for depth in depths], "target"))
    spec = bars(
        "no-device",
        "A read of no device",
        "A 4 KiB read is made, submitted and taken back, in a loop with nothing else in it; what the library itself costs.",
        [f"{depth} in flight" for depth in depths],
        {"name": "time of a read", "unit": "ns"},
        all_series,
        spread=f"best of {rows[0]['slices']} slices",
        source={"command": "chrt -f 20 target/release/nil --json benches/results/nil.json"},
    )
    cells = [[name, *(f"{value(queue, depth)['median_ns']:.1f} ns" for depth in depths)] for queue, name in queues.items()]
    yield spec, "nil.json", table(["Rust", *(f"{depth} in flight" for depth in depths)], cells)


def threads(rows_of):
    rows = rows_of("perf-threads-release.json")[1:]
    ops = {"get": "get", "put": "put", "randread": "block read", "randwrite": "block write"}
    file = "perf-threads-release.json"
    target = lambda op, depth: bound(file, {"op": op, "threads": 2, "depth": depth})  # noqa: E731
    row = lambda op, threads, depth: first(rows, {"op": op, "threads": threads, "depth": depth})  # noqa: E731

    def ratio(op, depth):
        one, two = row(op, 1, depth), row(op, 2, depth)
        return [two["median"] / one["median"], min(two["rounds"]) / one["median"], max(two["rounds"]) / one["median"]]

    for depth, name in ((1, "threads"), (32, "threads-32")):
        spec = bars(
            name,
            f"Two threads on two queues against one, {depth} in flight",
            "Operations a second of two threads divided by those of one. Twice is the most that two processors can give.",
            list(ops.values()),
            {"name": "two threads against one", "unit": ""},
            [series("byway", [ratio(op, depth) for op in ops]), series("target", [target(op, depth) for op in ops], "target")],
            spread="least and most of 5 rounds of two threads, by the median of one",
        )
        cells = [
            [text, *(f"{row(op, count, depth)['median']:.2f} M" for count in (1, 2)), 
             against(f"{ratio(op, depth)[0]:.2f}", ratio(op, depth)[0], target(op, depth)), f"{target(op, depth)}"]
            for op, text in ops.items()
        ]
        yield spec, file, table(["", "one thread, 1/s", "two threads, 1/s", "ratio", "target"], cells)


STORES = ["byway", "fjall", "lmdb", "rocksdb"]
OPS = {
    "put": "put",
    "put_batch32": "put, 32 together",
    "get": "get",
    "get_qd32": "get, 32 in flight",
    "list_get": "list with values",
    "scan": "scan of 100",
    "mixgraph": "mixgraph",
} | {f"ycsb_{letter}": f"YCSB {letter.upper()}" for letter in "abcdef"}


def stores(rows_of):
    file = "kv-peers-release.json"
    rows = rows_of(file)[1:]
    for size, label in ((32, "32 bytes"), (128, "128 bytes"), (1024, "1 KiB")):
        ops = [op for op in OPS if first(rows, {"engine": "byway", "op": op, "value_size": size})]
        row = lambda engine, op: first(rows, {"engine": engine, "op": op, "value_size": size})  # noqa: E731, B023
        present = [engine for engine in STORES if any(row(engine, op) for op in ops)]
        values = lambda engine: [row(engine, op) and row(engine, op)["ops_per_s"] for op in ops]  # noqa: E731, B023
        spec = dots(
            f"stores-{size}",
            f"Key-value stores, values of {label}",
            "Operations a second by the wall, one thread, in one process by turns, at the same guarantee; logarithmic axis. Lists and scans "
            "count pairs and scans.",
            [OPS[op] for op in ops],
            axis("operations", "1/s", "log10"),
            [series(engine, values(engine)) for engine in present],
        )
        ratio = lambda engine, op: cell(  # noqa: E731
            rows, {"engine": engine, "op": op, "value_size": size}, lambda found: f"{found['cpu_us_per_op'] / row('byway', op)['cpu_us_per_op']:.2f}"  # noqa: B023
        )
        cells = [
            [OPS[op], *(cell(rows, {"engine": engine, "op": op, "value_size": size}, lambda found: rate(found["ops_per_s"])) for engine in present),  # noqa: B023
             *(ratio(engine, op) for engine in present[1:])]
            for op in ops
        ]
        headings = ["operations a second", *present, *(f"processor time of {engine}, times byway's" for engine in present[1:])]
        yield spec, file, table(headings, cells)
    rows = [row for row in rows if row["value_size"] == 1024 and row["op"] in ("put", "get")]
    groups = [f"{op} {name}" for op in ("get", "put") for name in ("50 %", "99 %", "99.9 %")]
    fields = ["p50_us", "p99_us", "p999_us"]
    value = lambda engine, op, field: (first(rows, {"engine": engine, "op": op}) or {}).get(field) or None  # noqa: E731
    yield dots(
        "stores-latency",
        "Latency percentiles, values of 1 KiB",
        "So many of all calls take at most this time; logarithmic axis.",
        groups,
        axis("latency", "µs", "log10"),
        [series(engine, [value(engine, op, field) for op in ("get", "put") for field in fields]) for engine in STORES],
    ), file, None


def fio(rows_of):
    rows = [row for row in rows_of("fio.json")[1:] if row.get("peer") == "fio"]
    engines = ["io_uring", "libaio", "posix_aio", "psync"]
    on = {"shm": "tmpfs file", "zram0": "zram device"}
    for load, name in (("randread", "reads"), ("randwrite", "writes")):
        groups = [(engine, place) for engine in engines for place in on if first(rows, {"interface": engine, "on": place, "load": load})]
        row = lambda engine, place, depth: first(rows, {"interface": engine, "on": place, "load": load, "depth": depth})  # noqa: E731, B023
        value = lambda found: found and [found["ratio"], found["ratio_low"], found["ratio"]]  # noqa: E731
        depths = [1, 8, 32, 128]
        spec = dots(
            f"fio-{name}",
            f"Beside fio's engines, 4 KiB {name}",
            "Commands a second of Byway as an engine of fio, divided by those of fio's own engine of the same interface, past the page cache; "
            "1.0 is the same.",
            [f"{engine}, {on[place]}" for engine, place in groups],
            axis("times fio's own engine", "", "linear"),
            [series(f"{depth} in flight", [value(row(*group, depth)) for group in groups]) for depth in depths]
            + [series("target", [1.0 for _ in groups], "target")],
            spread="95 % lower bound of 15 pairs by turns",
            source={"command": "make bench-interfaces DEVICE=/dev/zram0", "commit": "4ad8937; libaio 142a1f0"},
        )
        cells = [
            [f"`{engine}`, {on[place]}", *(cell(rows, {"interface": engine, "on": place, "load": load, "depth": depth},  # noqa: B023
                                                lambda found: f"{found['ratio']:.2f} ({found['ratio_low']:.2f})") for depth in depths)]
            for engine, place in groups
        ]
        yield spec, "fio.json", table([f"{name}: ratio (lower bound)", *(f"{depth} in flight" for depth in depths)], cells)


def tcp(rows_of):
    rows = rows_of("tcp.json")[1:]
    command = {"command": "make bench-tcp: target/release/over_tcp --json benches/results/tcp.json"}
    cases = {"read-4k": "read of 4 KiB", "read-512": "read of 512 bytes", "put-64": "put of 64 bytes"}
    ways = {"in this process": "{}-local", "bare socket": "ping-pong {}", "byway": "{}"}
    p50 = lambda case: first(rows, {"case": case, "depth": 1})  # noqa: E731
    value = lambda row: row and [row["ns_p50"] / 1e3, row["ns_p50"] / 1e3, row["ns_p99"] / 1e3]  # noqa: E731
    spec = dots(
        "tcp-latency",
        "NVMe/TCP, one command at a time",
        "Initiator and target on a processor each, over the loopback interface, beside a bare socket with the same bytes and the same device in this "
        "process. The whisker reaches the 99th percentile.",
        list(cases.values()),
        axis("latency, median", "µs", "log10"),
        [series(way, [value(p50(name.format(case))) for case in cases]) for way, name in ways.items()],
        spread="median to 99th percentile, 21 rounds",
        source=command,
    )
    micro = lambda row: "" if row is None else f"{row['ns_p50'] / 1e3:.1f} µs"  # noqa: E731
    over = lambda case: f"{(p50(case)['ns_p50'] - p50('ping-pong ' + case)['ns_p50']) / 1e3:+.1f} µs"  # noqa: E731
    cells = [[text, *(micro(p50(name.format(case))) for name in ways.values()), over(case)] for case, text in cases.items()]
    yield spec, "tcp.json", table(["one at a time", *ways, "over a bare socket"], cells)
    cases = {
        "reads-4k": "reads of 4 KiB",
        "reads-4k-digests": "reads of 4 KiB, digests",
        "reads-512": "reads of 512 bytes",
        "puts-64": "puts of 64 bytes",
        "reads-4k-null": "reads of 4 KiB, null media",
        "reads-512-null": "reads of 512 bytes, null media",
    }
    target = lambda case: bound("tcp.json", {"case": case})  # noqa: E731
    row = lambda case: first(rows, {"case": case})  # noqa: E731
    value = lambda found: [found["per_second_median"], found["per_second_median"], found["per_second_best"]]  # noqa: E731
    spec = bars(
        "tcp-throughput",
        "NVMe/TCP, 32 commands at a time on one queue",
        "As above, 32 in flight.",
        list(cases.values()),
        {"name": "commands", "unit": "1/s"},
        [series("byway", [value(row(case)) for case in cases]), series("target", [target(case) for case in cases], "target")],
        spread="median to best of 21 rounds",
        source=command,
    )
    median = lambda case: row(case)["per_second_median"]  # noqa: E731
    cells = [
        [text, against(rate(median(case)), median(case), target(case)), rate(target(case)) if target(case) else ""]
        for case, text in cases.items()
    ]
    yield spec, "tcp.json", table(["32 at a time", "commands a second", "target"], cells)


SETTINGS = {"no log": "no log", "never synced": "no log", "file system": "file system", "absorbed": "absorbed", "DAX-resident": "DAX-resident"}


def mappings(rows_of):
    names = {
        "valkey-64-c50": "Valkey, 64 B, 50 clients",
        "valkey-1024-c50": "Valkey, 1 KiB, 50 clients",
        "valkey-64-c1": "Valkey, 64 B, 1 client",
        "valkey-1024-c1": "Valkey, 1 KiB, 1 client",
        "redis-64-c50": "Redis, 64 B, 50 clients",
        "redis-1024-c50": "Redis, 1 KiB, 50 clients",
        "rocksdb": "RocksDB fillseq, sync",
        "sqlite": "SQLite inserts, FULL",
    }
    yield programs("tdm.json", "mappings", "Programs under transparent mappings", names, rows_of, {}, "5 rounds")
    names = {name: text for name, text in names.items() if name in ("valkey-64-c50", "valkey-1024-c50")}
    for wait, text in ((1000, "1 ms"), (3000, "3 ms")):
        title = f"Valkey above a disk whose syncs take {text} longer"
        yield programs("tdm-disks.json", f"mappings-{wait}", title, names, rows_of, {"sync_us": wait}, "3 rounds")
    names = {"calls-64": "write and fdatasync, 64 B", "calls-1024": "write and fdatasync, 1 KiB"}
    yield programs("tdm-calls.json", "mappings-calls", "A write and its sync", names, rows_of, {}, "9 rounds")


def programs(file, name, title, names, rows_of, wanted, rounds):
    rows = rows_of(file)[1:]

    def row(case, setting):
        found = (first(rows, {"case": case, "setting": own, **wanted}) for own, text in SETTINGS.items() if text == setting)
        return next((row for row in found if row), None)

    settings = [text for text in ("no log", "file system", "absorbed", "DAX-resident") if any(row(case, text) for case in names)]
    value = lambda found: found and [found["median"], found["worst"], found["best"]]  # noqa: E731
    spec = dots(
        name,
        title,
        "Operations a second with each write synced: with no log at all (no sync), on ext4, with files absorbed into emulated device memory, and "
        "DAX-resident there; logarithmic axis.",
        list(names.values()),
        axis("operations", "1/s", "log10"),
        [series(text, [value(row(case, text)) for case in names]) for text in settings],
        spread=f"least and most of {rounds}",
        source={"command": "make bench-tdm"},
    )

    def shown(case, text):
        found = row(case, text)
        if found is None:
            return ""
        times = f" ({found['beside_file_system']:.3g} times ext4)" if found.get("beside_file_system") else ""
        return rate(found["median"]) + times

    cells = [[label, *(shown(case, text) for text in settings)] for case, label in names.items()]
    return spec, file, table(["operations a second", *settings], cells)


def endurance(rows_of):
    file = "endurance-upkeep.json"
    runs = runs_of(rows_of(file))
    values = {16384: "16 KiB", 4096: "4 KiB", 1024: "1 KiB"}
    kinds = {"before decision 77": "before", "now": "neighbours"}

    def find(value, mark):
        return next(
            (rows for run, rows in runs if f"--value {value} " in run["command"] and mark in run["commit"]), None
        )

    summary = lambda value, mark: (find(value, mark) or [{}])[-1]  # noqa: E731
    spec = bars(
        "endurance",
        "Full key-value namespaces: rate kept",
        "A namespace 95 % full, overwritten at random: its rate by processor time, divided by that of the empty one.",
        [f"values of {text}" for text in values.values()],
        {"name": "rate kept, by processor time", "unit": ""},
        [series("byway", [summary(value, "neighbours").get("kept_by_cpu") for value in values])]
        + [series("before decision 77", [summary(value, "before").get("kept_by_cpu") for value in values], "earlier")]
        + [series("target", [bound(file, {"fill_percent": 95}) for _ in values], "target")],
        source={"command": "byway-lab endurance --kv --size 512M --value LEN --overwrites 5 --upkeep off --json (1 KiB: 256M, 3)",
                "commit": "of decision 77"},
    )
    cells = []
    for value, text in values.items():
        for label, mark in kinds.items():
            row = summary(value, mark)
            if row:
                cells.append([f"{text}, {label}", f"{row['kept_by_cpu']:.2f}", f"{row['kept']:.2f}", f"{row['write_amplification']:.2f}",
                              f"{100 * row['wear_variation']:.1f} %"])
    headings = ["values of", "rate kept, processor time", "by the wall", "write amplification", "wear, standard deviation"]
    yield spec, file, table(headings, cells)
    series_of = []
    for value, text in values.items():
        passes = [row for row in find(value, "neighbours") or [] if "pass" in row]
        points = [[place, row["p999_us"]] for place, row in enumerate(passes, 1)]
        series_of.append({"name": f"values of {text}", "role": "measured", "points": points})
    spec = {
        "kind": "lines",
        "id": "endurance-tail",
        "title": "The slowest puts, pass by pass",
        "caption": "Three passes that fill the namespace, then passes that overwrite it at random: 99.9 % of puts take at most this time. The machine was "
        "shared with other builds, which shows in passes of 4 ms.",
        "x": axis("pass", "", "linear"),
        "y": axis("99.9th percentile of a put", "µs", "log10"),
        "series": series_of,
        "source": spec["source"],
    }
    yield spec, file, None


def runs_of(rows):
    """Runs of a file that holds several, each a line about the run and its rows."""
    runs = []
    for row in rows:
        if "command" in row:
            runs.append((row, []))
        else:
            runs[-1][1].append(row)
    return runs


def guests(rows_of):
    rows = rows_of("guests-both.json")[1:]
    groups = [(idle, load, depth) for idle in ("sleep", "poll") for load in ("randread", "randwrite") for depth in (1, 32)]
    words = {"randread": "read", "randwrite": "write"}
    row = lambda group: first(rows, dict(zip(("idle", "load", "depth"), group)))  # noqa: E731
    spec = bars(
        "guests",
        "A guest's driver over our device and over QEMU's",
        "fio in a guest without KVM, 4 KiB at random by io_uring, medians of five by turns. The server sleeps or polls while nothing comes.",
        [f"{words[load]}, {depth} in flight, {idle}" for idle, load, depth in groups],
        {"name": "commands", "unit": "1/s"},
        [series("byway", [row(group)["ours_iops"] for group in groups]), series("qemu", [row(group)["qemu_iops"] for group in groups])],
        source={"command": "make bench-guests"},
    )
    cells = [
        [f"{words[load]}, {depth} in flight, server that {idle}s", str(row(group)["ours_iops"]), str(row(group)["qemu_iops"]), f"{row(group)['ratio']:.2f}"]
        for group in groups
        for idle, load, depth in [group]
    ]
    yield spec, "guests-both.json", table(["4 KiB at random", "byway, 1/s", "QEMU's nvme, 1/s", "ratio"], cells)


def memory(rows_of):
    rows = rows_of("memory.json")[1:]
    fields = {"gets_per_s": "gets, one by one", "many_per_s": "gets, 32 together", "absent_per_s": "gets of absent keys", "loaded_per_s": "puts while loading"}
    spec = {
        "kind": "lines",
        "id": "memory",
        "title": "More keys than memory",
        "caption": "An image opened with memtable=4M&cache=16M under a cgroup of 64 MiB, page cache included; both axes are logarithmic.",
        "x": axis("keys", "", "log10"),
        "y": axis("operations", "1/s", "log10"),
        "series": [{"name": text, "role": "measured", "points": [[row["keys"], row[field]] for row in rows]} for field, text in fields.items()],
        "source": {"command": "target/release/memory --keys 1000000,3000000,10000000,30000000,100000000 --json benches/results/memory.json"},
    }
    size = lambda mib: f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib} MiB"  # noqa: E731
    cells = [
        [f"{row['keys'] // 10**6} M", size(row["image_mib"]), f"{row['anon_kib'] / 1024:.1f} MiB", f"{row['open_ms']:.0f} ms", rate(row["gets_per_s"])]
        for row in rows
    ]
    yield spec, "memory.json", table(["keys", "image", "anonymous memory", "opened in", "gets a second"], cells)


TOPICS = [
    Topic("one-command", "One command", one_command),
    Topic("no-device", "No device", no_device),
    Topic("threads", "Threads", threads),
    Topic("stores", "Key-value stores", stores),
    Topic("fio", "Beside fio's engines", fio),
    Topic("tcp", "NVMe/TCP", tcp),
    Topic("mappings", "Transparent DAX mappings", mappings),
    Topic("endurance", "Full devices", endurance),
    Topic("guests", "Guests", guests),
    Topic("memory", "More keys than memory", memory),
]
