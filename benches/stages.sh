#!/bin/sh
# Instructions of each stage of a put, exactly. Needs valgrind and addr2line (packages valgrind, binutils).
# Arguments go to the program: a part of a case's name, --lines.
set -eu
cd "$(dirname "$0")/.."
cargo build --quiet --profile bench -p byway-benches
target/release/stages "$@" --json benches/results/stages.json
