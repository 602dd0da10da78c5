#!/usr/bin/env python3
"""Dependencies between the workspace's crates point down: a crate depends on crates of its own folder, or of a layer below.

    tools/layers.py                check: fails with a sentence for each dependency that points up or sideways

Dependencies of tests (`[dev-dependencies]`) do not count. docs/ARCHITECTURE.md says what each layer is.
"""

import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
# From the bottom up. Folders of one layer do not know each other.
LAYERS = [
    ["crates/sys"],
    ["crates/wire"],
    ["crates/device", "crates/host"],
    ["crates/serve"],
    ["crates/byway"],
    ["crates/tdm"],
    ["crates/console"],
    ["crates/figure", "crates/records", "crates/measure"],
    ["crates/perf"],
    ["crates/cli", "crates/lab", "bindings"],
    ["tests/kit"],
    ["benches", "tests"],
    ["fuzz"],
]
LEVELS = {folder: level for level, folders in enumerate(LAYERS) for folder in folders}


def folder_of(crate):
    """The folder in LAYERS that a crate's path lies in."""
    return next((folder for folder in LEVELS if f"{crate}/".startswith(f"{folder}/")), None)


def needs(manifest):
    """Names of the packages that a crate is built from, on any target."""
    tables = [manifest, *manifest.get("target", {}).values()]
    for name in (name for table in tables for kind in ("dependencies", "build-dependencies") for name in table.get(kind, {})):
        yield name


def main():
    members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    manifests = {crate: tomllib.loads((ROOT / crate / "Cargo.toml").read_text()) for crate in [*members, "fuzz"]}
    crates = {manifest["package"]["name"]: crate for crate, manifest in manifests.items()}
    bad = [f"{crate}: no layer of tools/layers.py has its folder" for crate in manifests if folder_of(crate) is None]
    for crate, manifest in manifests.items() if not bad else ():
        mine = folder_of(crate)
        for below in sorted(crates[name] for name in needs(manifest) if name in crates):
            theirs = folder_of(below)
            if mine != theirs and LEVELS[theirs] >= LEVELS[mine]:
                bad.append(f"{crate} depends on {below}: {mine} is not above {theirs} in tools/layers.py")
    print("\n".join(bad), end="\n" if bad else "", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
