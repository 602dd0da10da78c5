#!/usr/bin/env python3
"""Pages on performance, made from benches/results: a table, a figure, machine, commit, date and command for each topic.

    tools/performance.py write     draws figures (by the example `draw` of crates/figure) and writes docs/performance and the targets
    tools/performance.py check     fails with a sentence for each page or figure that is not what the results make

What is made stands between two comments in a page; everything else there is written by hand. Targets are in benches/targets.toml, and
their results are computed from the raw results, so that no figure is typed twice.
"""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from performance_compute import TOPICS as COMPUTE  # noqa: E402
from performance_topics import TOPICS  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benches" / "results"
PAGES = ROOT / "docs" / "performance"
OVERVIEW = ROOT / "docs" / "performance.md"
IMAGES = ROOT / "docs" / "images" / "performance"
INDEX = IMAGES / "index.json"
DRAWN = ROOT / "target" / "performance"
BEGIN = "<!-- made by tools/performance.py from benches/results; text outside these comments is written by hand -->"
END = "<!-- end of what is made -->"


def rows_of(name):
    """The lines of a file of results: first the run, then one row each."""
    return [json.loads(line) for line in (RESULTS / name).read_text().splitlines() if line.strip()]


def matching(rows, wanted):
    """The one row with these fields."""
    found = [row for row in rows if all(row.get(field) == value for field, value in wanted.items())]
    if not found:
        raise SystemExit(f"tools/performance.py: no row has {wanted}")
    return found[0]


def field_of(row, field):
    """A field, with dots for what lies within."""
    for part in field.split("."):
        row = row[int(part) if isinstance(row, list) else part]
    return row


def result_of(target):
    """A target's figure, computed from the raw results."""
    rows = rows_of(target["file"])
    if "run" in target:
        # A file may hold several runs, each behind its line.
        rows = rows[rows.index(matching(rows, target["run"])):]
    field = target["field"]
    one = lambda wanted: field_of(matching(rows, wanted), field)  # noqa: E731
    several = lambda wanted: [one(each) for each in (wanted if isinstance(wanted, list) else [wanted])]  # noqa: E731
    value = min(several(target["of"]))
    if "over" in target:
        value /= one(target["over"])
    if "minus" in target:
        value -= one(target["minus"])
    return value * target.get("scale", 1)


def shown(value, target):
    return f"{value:.{target.get('decimals', 2)}f}{target.get('unit', '')}"


def run_of(name):
    """The line about the run, and its facts in words."""
    run = rows_of(name)[0]
    machine = run.get("cpu") or run.get("machine") or "not recorded"
    if isinstance(machine, str) and "cpus" in run and "processors" not in machine:
        machine += f", {run['cpus']} processor" + ("s" if run["cpus"] > 1 else "")
    if "load" in run:
        machine += f", load average {run['load']}"
    return {"machine": machine, "commit": run.get("commit"), "date": run.get("date"), "command": run.get("command")}


def targets_table():
    """The table of targets, misses in bold."""
    lines = ["| figure | result | target | | raw results |", "|---|---:|---:|---|---|"]
    for target in tomllib.loads((ROOT / "benches" / "targets.toml").read_text())["target"]:
        value = result_of(target)
        least = "at_least" in target
        bound = target["at_least" if least else "at_most"]
        met = value >= bound if least else value <= bound
        text = shown(value, target)
        commit = run_of(target["file"])["commit"]
        raw = f"[`{target['file']}`](../benches/results/{target['file']})" + (f" ({commit})" if commit and len(commit) < 20 else "")
        lines.append(
            f"| [{target['figure']}](performance/{target['page']}.md) | {text if met else f'**{text}**'} | "
            f"{'≥' if least else '≤'} {shown(bound, target)} | {'met' if met else '**missed**'} | {raw} |"
        )
    return "\n".join(lines)


def origin(spec):
    source = spec["source"]
    facts = [f"{name}: {source[name]}" for name in ("machine", "commit", "date") if source.get(name)]
    facts += [f"{name}: not recorded" for name in ("commit", "date") if not source.get(name)]
    if source.get("spread"):
        facts.append(f"spread: {source['spread']}")
    command = f"`{source['command'].replace('|', chr(92) + '|')}`" if source.get("command") else "not recorded"
    return f"Command: {command}. {'; '.join(facts)}."


def topic_block(topic):
    """What is made of one topic's page, with the figures in it."""
    parts, specs = [], []
    for spec, file, table in topic.make(rows_of):
        known = run_of(file)
        spec["source"] = {name: spec.get("source", {}).get(name) or known.get(name) for name in ("machine", "commit", "date", "command")} | (
            {"spread": spec["spread"]} if "spread" in spec else {}
        )
        spec.pop("spread", None)
        specs.append(spec)
        image = f"../images/performance/{spec['id']}"
        parts.append(f"## {spec['title']}\n\n![{spec['title']}]({image}.svg)\n\n{spec['caption']}")
        parts.append(f"{origin(spec)} Raw results: [`{file}`](../../benches/results/{file}); [numbers of the figure]({image}.csv).")
        if table:
            parts.append(table)
    return "\n\n".join(parts), specs


def with_block(page, text, title=None):
    """The page's text with what is made between its comments."""
    old = page.read_text() if page.exists() else f"# {title}\n\n{BEGIN}\n{END}\n"
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.S)
    if not pattern.search(old):
        raise SystemExit(f"{page.relative_to(ROOT)} has no place for what tools/performance.py makes")
    return pattern.sub(lambda _: f"{BEGIN}\n\n{text}\n\n{END}", old)


def digest(data):
    return hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()[:16]


def made():
    """Every page with the text that it should have, and every figure."""
    pages, specs = {OVERVIEW: with_block(OVERVIEW, targets_table())}, []
    for topic in [*TOPICS, *COMPUTE]:
        text, figures = topic_block(topic)
        page = PAGES / f"{topic.name}.md"
        pages[page] = with_block(page, text, topic.title)
        specs += figures
    return pages, {spec["id"]: json.dumps(spec, ensure_ascii=False, sort_keys=True) for spec in specs}


def write():
    pages, specs = made()
    PAGES.mkdir(exist_ok=True)
    for page, text in pages.items():
        page.write_text(text)
    draw = ["cargo", "run", "-q", "-p", "byway-figure", "--example", "draw", "--", str(DRAWN)]
    subprocess.run(draw, input="\n".join(specs.values()) + "\n", text=True, check=True, cwd=ROOT)
    IMAGES.mkdir(parents=True, exist_ok=True)
    for old in [*IMAGES.glob("*.svg"), *IMAGES.glob("*.csv")]:
        old.unlink()
    index = {}
    for name, spec in specs.items():
        for ending in ("svg", "csv"):
            (IMAGES / f"{name}.{ending}").write_bytes((DRAWN / f"{name}.{ending}").read_bytes())
        index[name] = {"from": digest(spec), "svg": digest((IMAGES / f"{name}.svg").read_bytes())}
    INDEX.write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")
    return 0


def check():
    pages, specs = made()
    bad = [str(page.relative_to(ROOT)) for page, text in pages.items() if not page.exists() or page.read_text() != text]
    index = json.loads(INDEX.read_text()) if INDEX.exists() else {}
    for name, spec in specs.items():
        image = IMAGES / f"{name}.svg"
        is_drawn = {"from": digest(spec), "svg": digest(image.read_bytes()) if image.exists() else ""}
        if index.get(name) != is_drawn:
            bad.append(str(image.relative_to(ROOT)))
    for stale in bad:
        print(f"{stale} is not what benches/results make: run make performance", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    actions = {"write": write, "check": check}
    if len(sys.argv) != 2 or sys.argv[1] not in actions:
        raise SystemExit(__doc__)
    sys.exit(actions[sys.argv[1]]())
