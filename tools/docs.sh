#!/usr/bin/env bash
# The documentation site, built from docs into target/site: its links are checked, and its search is tried in a browser.
#   docs.sh [--mdbook]    with --mdbook it builds mdBook alone
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/need.sh

MDBOOK_VERSION=0.5.4
MDBOOK=target/tools/bin/mdbook

# mdBook without its server and its watcher, and without optimisation: a third of the time to build, and two seconds more for a book.
have_mdbook() {
    [ "$("$MDBOOK" --version 2>/dev/null)" = "mdbook v$MDBOOK_VERSION" ] && return
    echo "building mdbook $MDBOOK_VERSION, once" >&2
    cargo install --quiet --locked --debug --force --no-default-features --features search --root target/tools \
        --target-dir target/tools/build "mdbook@$MDBOOK_VERSION"
    rm -rf target/tools/build
}

have_mdbook
[ "${1:-}" != --mdbook ] || exit 0
python3 -B tools/pages.py check
rm -rf target/site
MDBOOK_LOG=warn "$MDBOOK" build docs
python3 -B tools/pages.py files target/site
if need chromium chromium; then
    python3 -B tools/browse.py target/site
else
    echo "searches_find_their_pages: chromium is not installed" | tee -a "${BYWAY_SKIPS:-/dev/null}"
fi
echo "target/site/index.html"
