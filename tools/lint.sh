#!/usr/bin/env bash
# Formatting, lints, circles of modules, layers and metadata of crates, links of pages, dependencies, spelling and words: what a change is refused for before any test runs.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/need.sh

TYPOS=target/lint/bin/typos

# The spelling checker, in an environment of its own. Fails with one sentence.
have_typos() {
    [ -x "$TYPOS" ] && return 0
    need python3-venv /usr/share/doc/python3-venv >/dev/null 2>&1 || true
    python3 -m venv target/lint 2>/dev/null && target/lint/bin/pip install -q 'typos>=1.52,<2' >/dev/null 2>&1 && return 0
    echo "typos is not to be had: no venv, or pip cannot reach its index"
    return 1
}

# Every feature of the public crate, and none, compiles alone. Only that crate is compiled again.
features() {
    local feature
    for feature in "" embedded kernel vfio tcp serve; do
        cargo clippy --package byway --lib --no-default-features --features "$feature" --quiet -- -D warnings || return
    done
}

# No file has what git writes where two changes do not agree.
merged() {
    ! git grep --line-number -E '^(<<<<<<<|>>>>>>>) '
}

failed=0
# lint NAME COMMAND...: runs all of them, so that one run names everything there is to fix.
lint() {
    local name=$1
    shift
    "$@" || { echo "lint: $name failed" >&2; failed=1; }
}

lint merged merged
lint format cargo fmt --all --check
lint clippy cargo clippy --workspace --all-targets --quiet -- -D warnings
lint features features
lint words python3 tools/words.py
lint circles python3 tools/circles.py
lint layers python3 tools/layers.py
lint crates python3 tools/crates.py
lint promises python3 tools/promises.py
lint performance python3 tools/performance.py check
lint pages python3 tools/pages.py check
lint dependencies python3 tools/deny.py
if why=$(have_typos); then
    lint spelling "$TYPOS" --format brief
else
    echo "lint: spelling is not checked: $why" >&2
    echo "spelling: $why" >> "${BYWAY_SKIPS:-/dev/null}"
fi
exit "$failed"
