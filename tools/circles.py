#!/usr/bin/env python3
"""Circles of modules in each crate: modules that use each other, directly or through others.

    tools/circles.py               check: fails for a circle of more modules than LIMIT, or than tools/circles-allowed.txt grants
    tools/circles.py list [CRATE]  each circle, its modules and the uses that close it
    tools/circles.py shrink        lower the allow-list to what stands; it never grows

A module is a file. It uses another where it names an item of it by `crate::`, `super::` or `self::`; an item that a module
only re-exports counts for the module that defines it. Uses between parent and child, and uses in tests, do not count.
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "tools" / "circles-allowed.txt"
LIMIT = 3

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
TEST = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:pub(?:\([a-z ]+\))?\s+)?(?:mod\s+\w+\s*\{|use\b|fn\b|impl\b|struct\b)")
USE = re.compile(r"(?P<public>pub(?:\([^)]*\))?\s+)?\buse\s+(?P<tree>[^;]+);")
PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")


class Module:
    def __init__(self, path, parts):
        self.path, self.parts, self.exports, self.uses = path, parts, {}, []


def without_tests(text):
    """The text without comments and without what is compiled for tests alone."""
    text = COMMENT.sub("", text)
    while match := TEST.search(text):
        end = match.end()
        if match.group().endswith("use"):
            end = text.index(";", end) + 1
        else:
            depth = 1 if match.group().endswith("{") else 0
            while end < len(text):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
                if depth == 0 and text[end - 1] in "};":
                    break
        text = text[:match.start()] + text[end:]
    return text


def leaves(tree, before=()):
    """The paths of a use tree: each as its parts and the name it gets."""
    tree = tree.strip()
    if "{" in tree:
        head, inner = tree.split("{", 1)
        before = before + tuple(part for part in head.strip().split("::") if part)
        depth, item = 0, ""
        for char in inner.rsplit("}", 1)[0] + ",":
            if char == "," and depth == 0:
                if item.strip():
                    yield from leaves(item, before)
                item = ""
            else:
                depth += {"{": 1, "}": -1}.get(char, 0)
                item += char
        return
    path, _, alias = tree.partition(" as ")
    parts = before + tuple(part.strip() for part in path.split("::") if part.strip())
    if parts and parts[-1] == "self" and len(parts) > 1:
        parts = parts[:-1]
    if parts:
        yield parts, alias.strip() or parts[-1]


def absolute(module, parts):
    """The path from the crate's root, or nothing for another crate's item."""
    at = module.parts
    if parts[0] == "crate":
        return parts[1:]
    if parts[0] == "self":
        return at + parts[1:]
    if parts[0] == "super":
        while parts and parts[0] == "super":
            at, parts = at[:-1], parts[1:]
        return at + parts
    return at + parts if parts[0] in CHILDREN.get(at, ()) else None


CHILDREN = {}


def read(crate):
    """The modules of a crate by their parts."""
    modules, source = {}, crate / "src"
    for path in sorted(source.rglob("*.rs")):
        parts = path.relative_to(source).with_suffix("").parts
        if parts[0] in ("bin", "fuzz") or "tests" in parts or parts[-1].endswith(("_test", "_tests")):
            continue
        parts = parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts
        modules[parts] = Module(path, parts)
    CHILDREN.clear()
    for parts in modules:
        if parts:
            CHILDREN.setdefault(parts[:-1], set()).add(parts[-1])
    for module in modules.values():
        read_uses(module)
    return modules


def read_uses(module):
    text = without_tests(module.path.read_text())
    for match in USE.finditer(text):
        for parts, name in leaves(match["tree"]):
            path = absolute(module, parts)
            if path is None:
                continue
            module.exports[name] = path
            if not match["public"]:
                module.uses.append(path)
    for match in PATH.finditer(USE.sub("", text)):
        path = absolute(module, tuple(match.group().split("::")))
        if path:
            module.uses.append(path)


def defining(modules, path, depth=0):
    """The module that defines an item: re-exports are followed."""
    at = ()
    for place, name in enumerate(path):
        if at + (name,) in modules:
            at += (name,)
            continue
        target = modules[at].exports.get(name)
        if target and target != path and depth < 8:
            return defining(modules, target + path[place + 1:], depth + 1)
        break
    return at if at in modules else None


def edges(modules):
    """Uses between modules that are neither parent nor child of each other."""
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    for module in modules.values():
        for path in module.uses:
            target = defining(modules, path)
            is_related = target is not None and (
                target == module.parts[:len(target)] or module.parts == target[:len(module.parts)])
            if target is not None and not is_related:
                found[module.parts][target].add(path[-1])
    return found


def circles(found):
    """Strongly connected modules, more than one (Tarjan)."""
    index, low, stack, result = {}, {}, [], []

    def visit(at):
        index[at] = low[at] = len(index)
        stack.append(at)
        for to in found.get(at, ()):
            if to not in index:
                visit(to)
                low[at] = min(low[at], low[to])
            elif to in stack:
                low[at] = min(low[at], index[to])
        if low[at] == index[at]:
            place = stack.index(at)
            circle = stack[place:]
            del stack[place:]
            if len(circle) > 1:
                result.append(sorted(circle))

    for at in sorted(found):
        if at not in index:
            visit(at)
    return sorted(result, key=len, reverse=True)


def crates():
    listed = subprocess.run(["git", "ls-files", "--", "crates/**/Cargo.toml", "bindings/**/Cargo.toml"],
                            cwd=ROOT, capture_output=True, text=True, check=True)
    for name in sorted(listed.stdout.split()):
        crate = pathlib.Path(name).parent
        found = edges(read(ROOT / crate))
        yield str(crate), found, circles(found)


def largest():
    return {crate: len(found[0]) for crate, _, found in crates() if found and len(found[0]) > LIMIT}


def allowed():
    if not ALLOWED.exists():
        return {}
    rows = (line.split() for line in ALLOWED.read_text().splitlines() if line and not line.startswith("#"))
    return {name: int(number) for number, name in rows}


def write_allowed(counts):
    rows = "".join(f"{number} {name}\n" for name, number in sorted(counts.items()))
    ALLOWED.write_text(f"# The largest circle of modules a crate may still have (tools/circles.py). Only ever lowered.\n{rows}")


def check():
    grants, found = allowed(), largest()
    bad = {crate: size for crate, size in found.items() if size > grants.get(crate, LIMIT)}
    for crate, size in sorted(bad.items()):
        print(f"{crate}: a circle of {size} modules, {grants.get(crate, LIMIT)} allowed: tools/circles.py list {crate}")
    slack = [crate for crate, grant in grants.items() if found.get(crate, LIMIT) < grant]
    if slack and not bad:
        print("the allow-list grants more than stands: tools/circles.py shrink:", ", ".join(sorted(slack)))
    return 1 if bad or slack else 0


def show(only):
    for crate, found, all_circles in crates():
        if only and not crate.endswith(only):
            continue
        for circle in all_circles:
            print(f"{crate}: {len(circle)} modules")
            for at in circle:
                uses = [f"{'/'.join(to) or 'lib'} ({', '.join(sorted(names))})"
                        for to, names in sorted(found[at].items()) if to in circle]
                print(f"    {'/'.join(at) or 'lib'} -> {'; '.join(uses)}")


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["list"]:
        show(arguments[1] if len(arguments) > 1 else "")
        return 0
    if arguments == ["shrink"]:
        grants, found = allowed(), largest()
        write_allowed(found if not grants else {crate: min(size, grants[crate]) for crate, size in found.items() if crate in grants})
        return 0
    if arguments:
        print(__doc__)
        return 0 if arguments[0] in ("-h", "--help") else 2
    return check()


sys.exit(main())
