#!/usr/bin/env python3
"""Dependencies against deny.toml: licences, bans, duplicate versions and sources, from `cargo metadata`.

    tools/deny.py     fails for a dependency that the file does not allow, and for a line of the file that nothing needs

Reads the part of cargo-deny's format that deny.toml uses, so that no tool has to be compiled for `make lint`.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def metadata():
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def is_allowed(expression, allowed):
    """Whether an SPDX expression can be met: any side of OR, every side of AND. `/` is the older spelling of OR."""
    expression = expression.replace("/", " OR ").strip()
    while match := re.search(r"\(([^()]*)\)", expression):
        met = "MET" if is_allowed(match.group(1), allowed) else "UNMET"
        expression = expression[:match.start()] + met + expression[match.end():]
    if " OR " in expression:
        return any(is_allowed(side, allowed) for side in expression.split(" OR "))
    return all(side.strip() in allowed | {"MET"} for side in expression.split(" AND "))


def names(package, rule):
    """Whether a rule such as `syn@2` names a package: by name, and by the beginning of its version."""
    name, _, version = rule.partition("@")
    return package["name"] == name and (package["version"] + ".").startswith(version + "." if version else "")


def licences(packages, rules):
    allowed = set(rules["allow"])
    exceptions = {rule["crate"]: set(rule["allow"]) for rule in rules.get("exceptions", [])}
    for package in packages:
        licence = package["license"]
        if not licence:
            yield f"{package['name']} states no licence"
        elif not is_allowed(licence, allowed | exceptions.pop(package["name"], set())):
            yield f"{package['name']}: the licence {licence} is not allowed"
    yield from (f"the exception for {name} is needed by nothing" for name in exceptions)


def bans(packages, rules):
    for rule in rules["deny"]:
        for package in packages:
            if names(package, rule["crate"]):
                yield f"{package['name']} {package['version']} is banned: {rule['reason']}"


def duplicates(packages, rules):
    skips = [rule["crate"] for rule in rules["skip"]]
    needed = set()
    versions = collections.defaultdict(list)
    for package in packages:
        skip = next((skip for skip in skips if names(package, skip)), None)
        needed.add(skip)
        if skip is None:
            versions[package["name"]].append(package["version"])
    for name, found in versions.items():
        if len(found) > 1:
            yield f"{name} has several versions: {', '.join(sorted(found))}"
    yield from (f"{skip} is skipped, and no dependency has it" for skip in skips if skip not in needed)


def sources(packages):
    for package in packages:
        if package["source"] and not package["source"].startswith("registry+"):
            yield f"{package['name']} comes from {package['source']}"


def wildcards(packages):
    for package in packages:
        if package["source"] is None:
            for needed in package["dependencies"]:
                if needed["req"] == "*" and not needed.get("path"):
                    yield f"{package['name']} takes any version of {needed['name']}"


def main():
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    packages = metadata()["packages"]
    found = [
        *licences(packages, rules["licenses"]),
        *bans(packages, rules["bans"]),
        *duplicates(packages, rules["bans"]),
        *sources(packages),
        *wildcards(packages),
    ]
    for line in found:
        print(f"deny.toml: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
