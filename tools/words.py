#!/usr/bin/env python3
"""Private words and riddling subjects, counted per file, against an allow-list that only shrinks.

    tools/words.py                 check: fails for a file with more such words than tools/words-allowed.txt grants
    tools/words.py list [PATH...]  each word found, with its count and the field's word for it
    tools/words.py lines PATH...   the lines that hold them
    tools/words.py shrink          lower the allow-list to what stands; it never grows

Words are looked for inside identifiers too: `fuzz_told` and `BoardFile` count. docs/glossary.md says what each term
means here.
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "tools" / "words-allowed.txt"

# Private word or phrase -> what to write. A phrase may cross identifiers' parts, not lines.
WORDS = {
    # Subjects that name no actor.
    "whoever": "the actor: submitter, lock holder, daemon, poller, client, controller",
    "nobody": "the actor, or 'no process', 'no thread'",
    "somebody": "the actor",
    "told": "reported, notified, logged; error context",
    "tell": "report, notify, log",
    "tells": "reports, notifies, logs",
    "as ever": "as before, unchanged",
    "in vain": "timed out, without effect",
    # Resident files.
    "at home": "DAX-resident",
    "come home": "promoted",
    "comes home": "is promoted",
    "came home": "was promoted",
    "brought home": "promoted",
    "brought below": "demoted (written back)",
    "bring below": "demote (write back)",
    "housed": "resident",
    # Delegated queues.
    "on leave": "delegated to a thread",
    "checked out": "delegated",
    "checked in": "reclaimed",
    "lane": "delegated queue pair; path queue; copy worker",
    "lanes": "delegated queue pairs; path queues; copy workers",
    # Locks and waiting.
    "stands still": "is stopped",
    "stand still": "is stopped",
    "stood still": "was stopped",
    "lets go": "releases",
    "let go": "release",
    "patience": "timeout",
    "doze": "park",
    "dozes": "parks",
    "nap": "park",
    "linger": "spin, poll",
    "glance": "poll",
    "hush": "clear",
    "bell": "notifier (eventfd)",
    "reign": "daemon epoch",
    # The network.
    "keeper": "reconnect thread",
    "seat": "queue registration, slot",
    "seats": "queue registrations, slots",
    "desk": "poller",
    "premises": "target state",
    "strangers": "half-open connections",
    "askers": "discovery clients",
    "astray": "in flight on a lost path",
    "whereabouts": "slot state",
    # Mappings' policy and daemon.
    "board": "shared file table",
    "boards": "shared file tables",
    "judge": "evaluator",
    "wish": "desired transition",
    "estate": "tenant",
    "streak": "hysteresis counter",
    "merit": "measured benefit",
    # The device.
    "fading": "read disturb and retention",
    "mend": "repair",
    "mended": "repaired",
    "apart": "bounce buffer; separate",
    "toll": "latency model",
    "calm": "cancellation guard",
    "far memory": "message DMA",
    "swell": "growth bound",
    "mends": "repairs",
    "kept back": "withheld, masked; reserve",
    "keeps back": "withholds, masks",
    "put off": "deferred",
    "doubt": "stale state; unverified",
    # Prediction and limits.
    "outlook": "hint; cost estimate",
    "outlooks": "hints",
    "prospect": "cost estimate",
    "ceiling": "cap",
    "leave word": "set the pending bit",
    "crew": "thread pool",
    "entrance": "acceptor",
}

# Text of others, machine-made files, and what quotes the words in order to forbid them.
SKIPPED = (
    "Cargo.lock", "LICENSE", "benches/results/", "docs/reference/commands.md", "fuzz/corpus/",
    "integrations/linux-nvme-inline/patches/", "tests/golden/", "tools/words-allowed.txt", "tools/words.py",
)
ENDINGS = {".rs", ".md", ".sh", ".py", ".pyi", ".c", ".h", ".toml", ".txt", ".mk"}

PHRASES = {tuple(word.split()): word for word in WORDS}
LONGEST = max(len(phrase) for phrase in PHRASES)
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def files(paths):
    """The tracked text files, or those of `paths`."""
    listed = subprocess.run(["git", "ls-files", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        path = ROOT / name
        is_text = path.suffix in ENDINGS or path.name in ("Makefile", "Kbuild")
        if is_text and path.is_file() and not name.startswith(SKIPPED):
            yield name, path.read_text(errors="replace")


def found_in(line):
    """The private words of one line, each as often as it stands there."""
    parts = [part.lower() for part in PART.findall(line)]
    for at in range(len(parts)):
        for length in range(LONGEST, 0, -1):
            word = PHRASES.get(tuple(parts[at:at + length]))
            if word:
                yield word
                break


def count(text):
    return collections.Counter(word for line in text.splitlines() for word in found_in(line))


def allowed():
    if not ALLOWED.exists():
        return {}
    rows = (line.split() for line in ALLOWED.read_text().splitlines() if line and not line.startswith("#"))
    return {name: int(number) for number, name in rows}


def write_allowed(counts):
    rows = "".join(f"{number} {name}\n" for name, number in sorted(counts.items()) if number)
    ALLOWED.write_text(f"# Private words that a file may still hold (tools/words.py). Only ever lowered.\n{rows}")


def check():
    """One line for each file that holds more than it may, or less: then the list is to be lowered."""
    grants, bad, slack = allowed(), 0, []
    for name, text in files([]):
        counts = count(text)
        number, grant = counts.total(), grants.pop(name, 0)
        if number > grant:
            bad += 1
            most = ", ".join(f"{word} {times}" for word, times in counts.most_common(5))
            print(f"{name}: {number} private words, {grant} allowed ({most}): tools/words.py lines {name}")
        elif number < grant:
            slack.append(name)
    slack += grants
    if slack:
        print(f"the allow-list grants more than stands in {len(slack)} files ({slack[0]}): run tools/words.py shrink")
    return 1 if bad or slack else 0


def shrink():
    grants = allowed()
    counts = {name: count(text).total() for name, text in files([])}
    write_allowed({name: min(number, counts.get(name, 0)) for name, number in grants.items()})
    return 0


def list_words(paths):
    total, places = collections.Counter(), collections.Counter()
    for name, text in files(paths):
        counts = count(text)
        total.update(counts)
        places.update(counts.keys())
        if paths and counts:
            print(f"{counts.total():5} {name}")
    for word, number in total.most_common():
        print(f"{number:5} {word} (in {places[word]} files): {WORDS[word]}")
    print(f"{total.total():5} in all")
    return 0


def lines(paths):
    for name, text in files(paths):
        for number, line in enumerate(text.splitlines(), 1):
            words = sorted(set(found_in(line)))
            if words:
                print(f"{name}:{number}: [{', '.join(words)}] {line.strip()}")
    return 0


def main(arguments):
    verb, paths = (arguments[0] if arguments else "check"), arguments[1:]
    if verb == "check" and not paths:
        return check()
    if verb == "shrink" and not paths:
        return shrink()
    if verb == "list":
        return list_words(paths)
    if verb == "lines" and paths:
        return lines(paths)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:
        sys.exit(0)
