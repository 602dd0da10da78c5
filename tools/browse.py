#!/usr/bin/env python3
"""Opens the built site in headless Chromium: tools/browse.py target/site

Fails for a search that does not find its page, for a page that writes to the console, and for one that is wider than its window at
400 or 1400 pixels.
"""

import html
import pathlib
import re
import subprocess
import sys
import tempfile

# Words that someone would look for, and the page that has to be among the first three found.
SEARCHES = {
    "piggyback": "explanation/transfer-methods.html",
    "run lock": "explanation/concurrency.html",
    "flush media durability": "explanation/durability.html",
    "absorbed": "explanation/dax-mappings.html",
    "qemu": "tutorials/serve-to-qemu.html",
    "exit code": "reference/errors.html",
}
WIDTHS = (400, 1400)
# Appended to a copy of a page, which a frame shows, as windows have 500 pixels at least: what the page would need.
PROBE = """<script>addEventListener('load', () => parent.postMessage(document.documentElement.scrollWidth, '*'));</script></body>"""
FRAME = """<body><script>addEventListener('message', (event) => { document.title = `NEEDS ${event.data}`; });</script>
<iframe src="%s" style="width: %dpx; height: 900px; border: 0"></iframe>"""
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom",
)


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        try:
            if subprocess.run([name, "--version"], capture_output=True, check=False).returncode == 0:
                return name
        except FileNotFoundError:
            continue
    sys.exit("no chromium")


def opened(program, url, profile, width=1400):
    """The page once its scripts have run, and what it wrote to the console."""
    command = [program, *FLAGS, f"--window-size={width},1000", f"--user-data-dir={profile}", url]
    output = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return output.stdout, [line for line in output.stderr.splitlines() if "CONSOLE" in line]


def searches_find_their_pages(program, site, profile):
    """A line for each search without its page, or with words on the console."""
    for words, wanted in SEARCHES.items():
        url = f"file://{site}/index.html?search={words.replace(' ', '+')}"
        page, console = opened(program, url, profile)
        results = page.partition('id="mdbook-searchresults"')[2].partition("</ul>")[0]
        found = [html.unescape(link).partition("?")[0] for link in re.findall(r'href="([^"]+)"', results)]
        if wanted not in found[:3] or console:
            yield f"search for {words!r}: wanted {wanted}, found {found[:3]}; console: {console}"


def needs(program, page, profile, width):
    """How many pixels a page needs in a frame of `width`."""
    probe, frame = page.with_name(f"probe-{page.name}"), page.with_name(f"frame-{page.name}")
    probe.write_text(page.read_text().replace("</body>", PROBE))
    frame.write_text(FRAME % (probe.name, width))
    dom, _ = opened(program, f"file://{frame}", profile, width + 100)
    probe.unlink()
    frame.unlink()
    found = re.search(r"<title>NEEDS (\d+)</title>", dom)
    return int(found[1]) if found else None


def widths(program, site, profile):
    """A line for each page that has to be moved sideways."""
    for page in [site / "index.html", *sorted(site.glob("tutorials/*.html")), site / "guide/serving.html", site / "performance.html"]:
        for width in WIDTHS:
            needed = needs(program, page, profile, width)
            if needed is None or needed > width:
                yield f"{page.relative_to(site)} needs {needed} pixels of {width}"


def main():
    site = pathlib.Path(sys.argv[1]).resolve()
    program = browser()
    with tempfile.TemporaryDirectory() as profile:
        wrong = [*searches_find_their_pages(program, site, profile), *widths(program, site, profile)]
    print("\n".join(wrong) or f"{len(SEARCHES)} searches find their pages; no page needs more than a window of {WIDTHS} pixels")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
