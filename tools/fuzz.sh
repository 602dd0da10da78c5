#!/usr/bin/env bash
# Fuzz runs, under libFuzzer, with an address sanitizer where a nightly compiler is there. The flags are those of
# cargo-fuzz, so cargo-fuzz itself is not needed.
#
#   tools/fuzz.sh [TARGET...]    explores with every target, or those named, at a seed that differs each time
#
#   BYWAY_FUZZ_SECONDS   at most so long a target: 60
#   BYWAY_FUZZ_SEED      the seed of every target: drawn
#   BYWAY_FUZZ_RUNS      at most so many executions a target: no bound
#
# Inputs that take new ways are kept in target/fuzz/explored/TARGET, and the next exploration goes on from them. An
# input that breaks a promise is kept in target/fuzz/found/TARGET and does not end the run: the target goes on at
# another seed until its time is over. Ends with counts, and fails where something was found.
#
# `make test` takes its functions from here, and runs each target at a fixed seed (fuzz_check).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fuzz_host=$(rustc -vV | sed -n 's/^host: //p')

# fuzz_build: the program of every target, into target/fuzz.
fuzz_build() {
    local toolchain=() flags
    flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
    flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
    flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions"
    if cargo +nightly --version >/dev/null 2>&1; then
        toolchain=(+nightly)
        flags+=" -Zsanitizer=address"
    fi
    RUSTFLAGS=$flags cargo "${toolchain[@]}" build --release --manifest-path fuzz/Cargo.toml \
        --target "$fuzz_host" --target-dir target/fuzz
}

# fuzz_targets: the name of each, which is also that of its corpus.
fuzz_targets() {
    ls fuzz/corpus
}

# fuzz_run TARGET SEED SECONDS RUNS NEW [HANG]: from the committed corpus and the folder NEW, into which new inputs go. An input
# that takes HANG seconds is a find.
fuzz_run() {
    local target=$1 seed=$2 seconds=$3 runs=$4 new=$5 hang=${6:-10}
    local found=target/fuzz/found/$target
    mkdir -p "$found" "$new" "fuzz/corpus/$target"
    BYWAY_FUZZ_TARGET=$target "target/fuzz/$fuzz_host/release/byway-fuzz" -seed="$seed" -max_total_time="$seconds" -runs="$runs" -timeout="$hang" \
        -rss_limit_mb=2048 -print_final_stats=1 "-artifact_prefix=$found/" "$new" "fuzz/corpus/$target"
}

# fuzz_check TARGET: the same executions each time, so that a commit gets one verdict: at seed 1, 20,000 of them at
# most and for 10 s at most. What an exploration kept is not read: it is on one machine only. A machine that has much
# else to do makes no hang of an input.
fuzz_check() {
    local new=target/fuzz/new/$1
    rm -rf "$new"
    fuzz_run "$1" "${BYWAY_FUZZ_SEED:-1}" "${BYWAY_FUZZ_SECONDS:-10}" "${BYWAY_FUZZ_RUNS:-20000}" "$new" 60
}

# fuzz_explore TARGET: says on one line how many executions there were and what was found; fails on a find.
fuzz_explore() {
    local target=$1 log=target/fuzz/logs/$1.log executions=0 finds=0 seed left
    local end=$((SECONDS + ${BYWAY_FUZZ_SECONDS:-60}))
    mkdir -p target/fuzz/logs
    while left=$((end - SECONDS)); [ "$left" -gt 0 ]; do
        seed=${BYWAY_FUZZ_SEED:-$((RANDOM << 15 | RANDOM))}
        echo "seed $seed" > "$log"
        if ! fuzz_run "$target" "$seed" "$left" "${BYWAY_FUZZ_RUNS:--1}" "target/fuzz/explored/$target" >> "$log" 2>&1
        then
            finds=$((finds + 1))
            cp "$log" "target/fuzz/logs/$target.find-$finds.log"
            grep -hE 'panicked at|^==.*ERROR|Test unit written' -A1 "$log" | head -n 6
        fi
        executions=$((executions + $(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)))
        # A seed that is given, or a bound on executions, asks for one run.
        [ -z "${BYWAY_FUZZ_SEED:-}${BYWAY_FUZZ_RUNS:-}" ] || break
    done
    echo "$target: $executions executions, $finds finds"
    fuzz_executions=$((fuzz_executions + executions))
    fuzz_finds=$((fuzz_finds + finds))
}

# Sourced by tools/test.sh for its functions.
[ "${BASH_SOURCE[0]}" = "$0" ] || return 0

fuzz_build || exit 1
fuzz_executions=0
fuzz_finds=0
mapfile -t all < <(fuzz_targets)
[ $# -gt 0 ] || set -- "${all[@]}"
for target; do fuzz_explore "$target"; done
echo "$fuzz_executions executions, $fuzz_finds finds; inputs in target/fuzz/found, logs in target/fuzz/logs"
[ "$fuzz_finds" = 0 ]
