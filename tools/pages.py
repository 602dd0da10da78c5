#!/usr/bin/env python3
"""The documentation site: links of all pages, the list of decisions, and mdBook's preprocessor.

    tools/pages.py check        every link and anchor of every tracked page; every page of docs in SUMMARY.md, once
    tools/pages.py decisions    prints the list of decisions that SUMMARY.md and decisions/README.md must have
    tools/pages.py files DIR    copies what pages link to outside docs into the built site, and checks its links
    tools/pages.py supports X, and without arguments: mdBook's protocol of preprocessors

Links lead to files, as the git host wants them. The site has no files outside docs, so linked pages there (CHANGELOG.md, READMEs)
become chapters of it, and linked sources are copied into it: it shows the commit that it was built from, and needs no network.
"""

import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = pathlib.Path("docs")
# Where the site keeps what stands outside docs.
OUTSIDE = pathlib.Path("repository")
# Number of its chapter: behind all others. The site shows none.
LAST = 1000
# Pages that quote or are made by other programs.
SKIPPED = ("fuzz/corpus/", "integrations/linux-nvme-inline/patches/")

FENCE = re.compile(r"^(`{3,})[^`\n]*\n.*?^\1`*[ \t]*$", re.M | re.S)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S)
LINK = re.compile(r"(\]\()([^()\s]+)(\))|^(\[[^\]\n]+\]:[ \t]*)(\S+)()", re.M)
HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*$", re.M)


def tracked(pattern):
    """Names of tracked files and of new ones that are not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", pattern]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in listed if (ROOT / name).exists() and not name.startswith(SKIPPED)]


def without_code(text):
    """The text with code blanked out, at the same offsets: what looks like a link there is none."""
    def blank(found):
        return re.sub(r"[^\n]", " ", found[0])
    return CODE.sub(blank, FENCE.sub(blank, text))


def links(text):
    """(start, end, target) of each link of a page that leads to a file or heading, not to the network."""
    for found in LINK.finditer(without_code(text)):
        group = 2 if found[2] else 5
        if not re.match(r"[a-z+]+:|//", found[group]):
            yield found.start(group), found.end(group), found[group]


def anchors(text):
    """The anchors of a page's headings: lower case, hyphens for spaces, without punctuation; numbered where repeated."""
    seen, found = {}, set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    for heading in HEADING.findall(FENCE.sub("", text)):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = seen.get(anchor, 0)
        seen[anchor] = number + 1
        found.add(f"{anchor}-{number}" if number else anchor)
    return found


def resolve(page, target):
    """(path from the root, anchor) that a link of a page means."""
    path, _, anchor = target.partition("#")
    path = urllib.parse.unquote(path)
    path = os.path.normpath(pathlib.Path(page).parent / path) if path else str(page)
    return pathlib.Path(path), anchor


def wrong_links():
    """A line for each link that leads nowhere."""
    for page in tracked("*.md"):
        text = (ROOT / page).read_text()
        for start, _, target in links(text):
            path, anchor = resolve(page, target)
            line = text.count("\n", 0, start) + 1
            if not (ROOT / path).exists() or path.parts[:1] == ("..",):
                yield f"{page}:{line}: no such file: {target}"
            elif anchor and path.suffix == ".md" and anchor not in anchors((ROOT / path).read_text()):
                yield f"{page}:{line}: no such heading: {target}"


def title(page):
    found = HEADING.search((ROOT / page).read_text())
    return found[1] if found else ""


def decisions():
    """The lines of SUMMARY.md for all decisions, by number."""
    pages = sorted(path.name for path in (ROOT / DOCS / "decisions").glob("*.md"))
    return [f"  - [{title(DOCS / 'decisions' / name)}](decisions/{name})" for name in pages if name != "README.md"]


def decisions_in_their_folder():
    """The same for the page of decisions, which lies beside them."""
    return [line.strip().replace("](decisions/", "](") for line in decisions()]


def wrong_summary():
    """A line for each page that SUMMARY.md lacks or has twice, and for a list of decisions that is not that of the pages."""
    summary = (ROOT / DOCS / "SUMMARY.md").read_text()
    listed = [target for _, _, target in links(summary)]
    for page in tracked("docs/*.md"):
        name = str(pathlib.Path(page).relative_to(DOCS))
        if name != "SUMMARY.md" and listed.count(name) != 1:
            yield f"docs/SUMMARY.md: {name} stands there {listed.count(name)} times, not once"
    if [line for line in summary.splitlines() if "](decisions/0" in line] != decisions():
        yield "docs/SUMMARY.md: its decisions are not those of docs/decisions: tools/pages.py decisions prints the list"
    index = (ROOT / DOCS / "decisions" / "README.md").read_text()
    if [line for line in index.splitlines() if line.startswith("- [")] != decisions_in_their_folder():
        yield "docs/decisions/README.md: its list is not that of the pages: tools/pages.py decisions prints it"


def check():
    wrong = [*wrong_links(), *wrong_summary()]
    print("".join(f"{line}\n" for line in wrong), end="")
    return 1 if wrong else 0


def place(path):
    """Where the site has a page or file of the repository: (name from the site's source folder, whether it is a copy)."""
    if path.parts[:1] == DOCS.parts:
        inside = path.relative_to(DOCS)
        return (inside / "README.md" if (ROOT / path).is_dir() else inside), False
    if path.suffix == ".md" or (ROOT / path).is_dir() and (ROOT / path / "README.md").exists():
        return OUTSIDE / (path if path.suffix == ".md" else path / "README.md"), False
    # Browsers show text, and offer to save what they do not know.
    return OUTSIDE / (path / "index.html" if (ROOT / path).is_dir() else f"{path}.txt"), True


def link_between(here, there):
    """A link of the site from a folder to a page: mdBook makes index pages of READMEs, and leaves links to them."""
    return os.path.relpath(there.with_name("index.md") if there.name == "README.md" else there, here)


def for_site(page, text, found):
    """The page's text with links as the site has them; adds each path outside docs that it links to."""
    here, parts, at = place(pathlib.Path(page))[0].parent, [], 0
    for start, end, target in links(text):
        path, anchor = resolve(page, target)
        there, _ = place(path)
        if there.parts[0] == OUTSIDE.name:
            found.add(path)
        link = link_between(here, there) + (f"#{anchor}" if anchor else "")
        parts += [text[at:start], link if target.partition("#")[0] else target]
        at = end
    return "".join(parts) + text[at:]


def chapter(path):
    """A chapter of mdBook for a page outside docs."""
    name = str(place(path)[0])
    source = path if path.suffix == ".md" else path / "README.md"
    return {"Chapter": {
        "name": str(source), "content": (ROOT / source).read_text(), "number": None, "sub_items": [],
        "path": name, "source_path": name, "parent_names": [],
    }}, source


def sources(pages):
    """The chapter that has all of those."""
    chapters = sorted((page["Chapter"] for page in pages), key=lambda each: each["name"])
    rows = "".join(f"* [{each['name']}]({link_between(OUTSIDE, pathlib.Path(each['path']))})\n" for each in chapters)
    path = str(OUTSIDE / "pages.md")
    return {"Chapter": {
        "name": "Pages beside the sources", "content": f"# Pages beside the sources\n\n{rows}", "number": [LAST], "path": path,
        "source_path": path, "sub_items": [{"Chapter": {**each, "number": [LAST, at]}} for at, each in enumerate(chapters, 1)], "parent_names": [],
    }}


def walk(items):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from walk(item["Chapter"]["sub_items"])


def preprocess():
    """mdBook's preprocessor: links as the site has them, and chapters for linked pages outside docs."""
    _, book = json.load(sys.stdin)
    items = book["items"] if "items" in book else book["sections"]
    found = set()
    for each in walk(items):
        if each.get("source_path"):
            each["content"] = for_site(DOCS / each["source_path"], each["content"], found)
    pages, taken = [], set()
    while rest := sorted(path for path in found if path not in taken):
        for path in rest:
            taken.add(path)
            if not place(path)[1]:
                added, source = chapter(path)
                if not any(known["Chapter"]["path"] == added["Chapter"]["path"] for known in pages):
                    added["Chapter"]["content"] = for_site(source, added["Chapter"]["content"], found)
                    pages.append(added)
    if pages:
        items.append(sources(pages))
    json.dump(book, sys.stdout)
    return 0


def linked_files():
    """Every file and folder that a page of the site links to and that the site has as a copy."""
    queue, seen, found = [DOCS / name for name in ["SUMMARY.md"]], set(), set()
    queue += [pathlib.Path(page) for page in tracked("docs/*.md")]
    while queue:
        page = queue.pop()
        if page in seen:
            continue
        seen.add(page)
        outside = set()
        for_site(page, (ROOT / page).read_text(), outside)
        for path in outside:
            if place(path)[1]:
                found.add(path)
            else:
                queue.append(path if path.suffix == ".md" else path / "README.md")
    return found


def described(name):
    """What the first comment of a source says of it: its first line, or nothing."""
    lines = (ROOT / name).read_text(errors="replace").splitlines() or [""]
    found = re.match(r'(?://! |"""|/\* )(.*)', lines[0]) if name.endswith((".rs", ".py", ".c")) else None
    return re.sub(r'("""| \*/)$', "", found[1]) if found else ""


def listed(name):
    """A row of the page of a linked folder."""
    said = html.escape(described(name))
    return f'<li><a href="{os.path.basename(name)}.txt">{os.path.basename(name)}</a>{": " if said else ""}{said}\n'


def copy_files(site):
    """Copies linked sources, and lists linked folders."""
    for path in sorted(linked_files()):
        to = site / place(path)[0]
        to.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / path).is_dir():
            names = [name for name in tracked(f"{path}/*") if pathlib.Path(name).parent == path]
            for name in names:
                (site / OUTSIDE / f"{name}.txt").write_bytes((ROOT / name).read_bytes())
            rows = "".join(map(listed, names))
            to.write_text(f"<!doctype html><meta charset=utf-8><title>{path}</title><h1>{path}</h1><ul>{rows}</ul>\n")
        else:
            shutil.copyfile(ROOT / path, to)


class Page(html.parser.HTMLParser):
    """The links and anchors of a page of HTML."""

    def __init__(self, text):
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.update(value for name in ("id", "name") if (value := attrs.get(name)))
        target = attrs.get("href" if tag in ("a", "link") else "src")
        if target and not re.match(r"[a-z+]+:|//", target):
            self.links.append(target)


def built(site):
    """Fails for a link of the built site that leads nowhere."""
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    wrong = 0
    for path, page in sorted(pages.items()):
        # It stands for addresses of any depth.
        for target in page.links if path.name != "404.html" else []:
            name, _, anchor = target.partition("#")
            name = urllib.parse.unquote(name.partition("?")[0])
            to = pathlib.Path(os.path.normpath(path.parent / name)) if name else path
            to = to / "index.html" if to.is_dir() else to
            missing = not to.exists() or (anchor and to in pages and urllib.parse.unquote(anchor) not in pages[to].ids)
            if missing:
                wrong += 1
                print(f"{path.relative_to(site)}: {target} leads nowhere")
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values())} links, {wrong} wrong")
    return 1 if wrong else 0


def main(arguments):
    if not arguments:
        return preprocess()
    if arguments[0] == "supports":
        return 0
    if arguments == ["check"]:
        return check()
    if arguments == ["decisions"]:
        print("\n".join(decisions() + decisions_in_their_folder()))
        return 0
    if arguments[0] == "files" and len(arguments) == 2:
        copy_files(pathlib.Path(arguments[1]))
        return built(pathlib.Path(arguments[1]))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
