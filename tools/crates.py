#!/usr/bin/env python3
"""The crates that can be published: their metadata, and their packages.

    tools/crates.py                check: fails for metadata that is missing, or that crates.io would refuse
    tools/crates.py names          their names, each after those that it depends on
    tools/crates.py package [...]  target/package/*.crate, built of nothing but each other (`--no-verify`: not built)
    tools/crates.py publishable    check, and that the repository has a public address

Every crate in `crates` is published unless its manifest says `publish = false`.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = "https://doc.rust-lang.org/cargo/reference/manifest.html"
# Of https://crates.io/category_slugs, those that are used here: crates.io drops one that it does not know.
CATEGORIES = {
    "authentication", "caching", "command-line-interface", "command-line-utilities", "concurrency", "cryptography", "data-structures",
    "database-implementations", "development-tools::profiling", "emulators", "encoding", "filesystem", "hardware-support",
    "memory-management", "network-programming", "os::linux-apis", "os::unix-apis", "parser-implementations", "simulation", "virtualization", "visualization",
}


def members():
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--no-deps"]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)["packages"]


def is_published(package):
    return package["publish"] is None


def faults(package, published, version):
    """What a published crate's manifest lacks, a sentence each."""
    for field in ("description", "license", "repository", "readme", "rust_version", "keywords", "categories"):
        if not package[field]:
            yield f"no {field.replace('_', '-')}"
    if package["version"] != version:
        yield f"version {package['version']} is not the workspace's {version}"
    for keyword in package["keywords"]:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_+-]{0,19}", keyword):
            yield f"keyword {keyword!r}: crates.io takes 20 letters, digits, - and _"
    if len(package["keywords"]) > 5 or len(package["categories"]) > 5:
        yield "crates.io takes 5 keywords and 5 categories"
    for category in set(package["categories"]) - CATEGORIES:
        yield f"category {category!r} is not in the list of tools/crates.py"
    if not ((package["metadata"] or {}).get("docs") or {}).get("rs"):
        yield "no [package.metadata.docs.rs]"
    if not (pathlib.Path(package["manifest_path"]).parent / "LICENSE").is_file():
        yield "no LICENSE: link the one at the top"
    yield from needs(package, published, version)


def needs(package, published, version):
    """Faults of its dependencies on crates of this workspace."""
    for dependency in (one for one in package["dependencies"] if one.get("path")):
        name, wanted = dependency["name"], dependency["req"]
        if dependency["kind"] == "dev":
            # One without a version is left out of the package, as a crate that is not published and the crate itself must be.
            if (name not in published or name == package["name"]) and wanted != "*":
                yield f"test dependency {name} has a version: give its path alone"
        elif name not in published:
            yield f"depends on {name}, which is not published"
        elif wanted != f"^{version}":
            yield f"depends on {name} {wanted}: the workspace is {version}"


def waits_for(package):
    """What must be published before a crate: what its package names with a version."""
    return {one["name"] for one in package["dependencies"] if one["req"] != "*"}


def in_order(packages):
    """Published crates, each after those that it depends on."""
    done, rest = [], {package["name"]: package for package in packages if is_published(package)}
    while rest:
        ready = [name for name, package in rest.items() if not waits_for(package) & (rest.keys() - {name})]
        done += ready
        rest = {name: package for name, package in rest.items() if name not in ready}
    return done


def check(packages):
    published = {package["name"]: package for package in packages if is_published(package)}
    version = published["byway"]["version"]
    return [f"{name}: {fault}" for name, package in published.items() for fault in faults(package, published, version)]


def package(packages, options):
    """Runs `cargo package` over all that is published, without its remarks on tests, which packages do not hold."""
    command = ["cargo", "package", "--locked", *options, *(word for name in in_order(packages) for word in ("-p", name))]
    run = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    for line in run.stderr:
        if not re.match(r"warning: ignoring (test|example|bench)|\s+(Updating|Compiling|Unpacking) ", line):
            print(line, end="", file=sys.stderr)
    return run.wait()


def main():
    packages = members()
    action = sys.argv[1] if len(sys.argv) > 1 else "check"
    if action == "names":
        print("\n".join(in_order(packages)))
        return 0
    if action == "package":
        return package(packages, sys.argv[2:])
    if action not in ("check", "publishable"):
        print(__doc__, file=sys.stderr)
        return 2
    bad = check(packages)
    if action == "publishable" and any(".example/" in (one["repository"] or "") for one in packages):
        bad.append("Cargo.toml: the repository has no public address yet")
    print("\n".join(bad + [PAGE] if bad else []), end="\n" if bad else "", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
