#!/bin/sh
# What a clock that is off costs: this build against one without a clock, by turns. Arguments: --pairs, --calls.
set -eu
cd "$(dirname "$0")/.."
cargo build --quiet --release -p byway-benches
RUSTFLAGS="--cfg byway_without_clock" cargo build --quiet --release -p byway-benches --bin clock_cost \
    --target-dir target/without-clock
target/release/clock_cost compare target/without-clock/release/clock_cost \
    --json benches/results/clock.json "$@"
