#!/usr/bin/env python3
"""Checks that each test named in SECURITY.md and tests/README.md exists: `a_test_of_that_name`, `…` for parts left out.

Also that each source file that these pages, CONTRIBUTING.md and the memory limits name is there, by the end of its path, and
that each test which tests/skips allows to be skipped exists under that name: a skip under another name fails the whole run.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ("SECURITY.md", "tests/README.md")
PAGES_OF_FILES = (*PAGES, "CONTRIBUTING.md", "docs/reference/memory-limits.md")
# Fewer underscores are modules and files, which links and readers find.
UNDERSCORES_MIN = 3


def names():
    """Every function of a test, fuzz target or program that a page may name."""
    found = set()
    listed = subprocess.run(["git", "ls-files", "*.rs", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_file():
            found.update(re.findall(r"\b(?:fn|def) (\w+)", path.read_text(errors="replace")))
            # Tests that a macro makes for several backends: `name: expression`, `name,` or `macro!(name, …` on a line.
            found.update(re.findall(r"^\s*(?:\w+!\()?(\w{10,})[,:(]", path.read_text(errors="replace"), re.M))
    return found


def missing_files():
    """A line for each `path/name.rs` that no source file ends with. Names in capitals stand for any."""
    listed = subprocess.run(["git", "ls-files", "*.rs"], cwd=ROOT, capture_output=True, text=True, check=True)
    known = [f"/{name}" for name in listed.stdout.splitlines()]
    for page in PAGES_OF_FILES:
        for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
            for name in re.findall(r"`([a-z0-9_/]+\.rs)`", line):
                if not any(path.endswith(f"/{name}") for path in known):
                    yield f"{page}:{number}: no file {name}"


def unknown_skips(known):
    """A line for each entry of tests/skips that no test and no script is called. `module::tests::name`: a test of that module."""
    for page in sorted((ROOT / "tests/skips").glob("*.txt")):
        for number, line in enumerate(page.read_text().splitlines(), 1):
            entry = line.split("#")[0].strip()
            if not entry:
                continue
            *modules, name = entry.split("::")
            if modules and not any(f"fn {name}(" in source for source in module_sources(modules[0])):
                yield f"{page.relative_to(ROOT)}:{number}: no {name} in a module {modules[0]}"
            elif name not in known and not named_in_sources(name):
                yield f"{page.relative_to(ROOT)}:{number}: no test {entry}"


def named_in_sources(name):
    """Whether a script or a source file reports a skip under this name."""
    found = subprocess.run(["git", "grep", "-qwF", name, "--", "*.sh", "*.rs"], cwd=ROOT)
    return found.returncode == 0


def module_sources(module):
    """The text of each source file that is a module of this name."""
    listed = subprocess.run(
        ["git", "ls-files", f"*/{module}.rs", f"*/{module}/*.rs"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [(ROOT / name).read_text(errors="replace") for name in listed.stdout.splitlines()]


def main():
    known = names()
    missing = [*missing_files(), *unknown_skips(known)]
    for page in PAGES:
        for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
            for name in re.findall(r"`([\w:…]+)`", line):
                name = name.split("::")[-1]
                if name.count("_") < UNDERSCORES_MIN:
                    continue
                pattern = re.compile("".join(".*" if part == "…" else re.escape(part) for part in re.split("(…)", name)))
                if not any(pattern.fullmatch(one) for one in known):
                    missing.append(f"{page}:{number}: no test {name}")
    print("\n".join(missing))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
