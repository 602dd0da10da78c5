#!/usr/bin/env bash
# Every test there is. Ends with one line of counts; fails on a failure, and on a skip that tests/skips does not list.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/need.sh
. tools/fuzz.sh
. tools/python.sh
. tools/programs.sh

# The kind of machine decides which skips are allowed: tests/skips/KIND.txt.
kind=${BYWAY_MACHINE:-$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)}
logs=target/test-logs
mkdir -p "$logs"
rm -f "$logs"/*
# A test that cannot run here appends a line "NAME: REASON" to this file and returns.
export BYWAY_SKIPS=$PWD/$logs/skips.txt
: > "$BYWAY_SKIPS"
passed=0
failed=0
# Each program of tests has a limit of time.
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${host}_RUNNER=$PWD/tools/limit.sh"

need_compilers && need g++ c++ && need python3 python3 && need git git || exit 2
need unicode-data /usr/share/unicode/UnicodeData.txt || true
need chromium chromium || true
# What TLS is spoken by comes with it.
need openssl openssl || true
have_programs

# ahead NAME FUNCTION: runs it beside the stages. In a group of its own, so that it ends with this run however this ends.
ahead() {
    set -m
    "$2" > "$logs/$1.log" 2>&1 < /dev/null &
    beside+=("-$!")
    set +m
    trap 'kill -- "${beside[@]}" 2>/dev/null' EXIT
}

# What is fetched rather than computed comes while others compile: Python's tools, then the tree that guests boot from.
fetch() {
    python_environment && python_duckdb
    touch "$logs/fetched"
    tests/vm/build.sh --can && nice tests/vm/build.sh
}

# What later stages need is built while tests wait for states. Those stages wait for it, and build what is left.
build_ahead() {
    renice -n 19 -p "$BASHPID"
    fuzz_build
    wait_for_python && python_install
    loom_tests --no-run
}

# Models of what threads share, in every interleaving.
loom_tests() {
    env RUSTFLAGS="--cfg loom" cargo test -p byway-queue -p byway-tdm-engine -p byway-executor --release --lib --no-fail-fast \
        --target-dir target/loom "$@"
}

# Python's tools come by what is fetched ahead.
wait_for_python() {
    until [ -e "$logs/fetched" ]; do sleep 1; done
    python_environment
}

# fails NAME [LINES]: shows the end of its log, and keeps the lines that name what failed: they are the run's last too, as a page of
# a build machine may show no more than those.
fails() {
    local log=$logs/$1.log names
    names=$(grep -E '^(lint: .* failed|test .* FAILED|error|FAILED |ERROR )|panicked at|^\S+ .* failed ' "$log" | sort -u | head -n 20)
    sed "s/^/$1: /" <<< "${names:-ended with an error}" >> "$logs/failures.txt"
    tail -n "${2:-40}" "$log"
    echo "$1 failed; all of it: $log"
}

# stage NAME: says what is run, and how far into the run it begins.
stage() {
    printf '== %-28s from %2d:%02d\n' "$1" $((SECONDS / 60)) $((SECONDS % 60))
}

# check NAME COMMAND...: one thing that passes or fails.
check() {
    local name=$1
    shift
    stage "$name"
    if "$@" > "$logs/$name.log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        fails "$name"
        return 1
    fi
}

# cargo_tests NAME COMMAND...: a run of cargo test, whose own counts are added.
cargo_tests() {
    local name=$1 code
    shift
    stage "$name"
    "$@" > "$logs/$name.log" 2>&1
    code=$?
    local ok bad
    ok=$(awk '/^test result:/ {n += $4} END {print n + 0}' "$logs/$name.log")
    bad=$(awk '/^test result:/ {n += $6} END {print n + 0}' "$logs/$name.log")
    # A run that ended before it could count is one failure.
    if [ "$code" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
    passed=$((passed + ok))
    failed=$((failed + bad))
    awk '/^test .* \.\.\. ignored/ {print $2 ": ignored"}' "$logs/$name.log" >> "$BYWAY_SKIPS"
    if [ "$code" != 0 ]; then
        grep -E -A 2 '^(error|test .* FAILED|test .* running for over|---- )|panicked at' "$logs/$name.log" | head -n 80
        fails "$name" 30
    fi
}

# Coverage-guided runs of a few seconds a target, from the committed corpus and at a fixed seed; one on each processor.
fuzz() {
    local target
    check fuzz-build fuzz_build || return
    stage fuzz-runs
    export -f fuzz_check fuzz_run
    export fuzz_host
    fuzz_targets | xargs -P "$(nproc)" -I{} bash -c "fuzz_check {} > $logs/run-{}.log 2>&1; echo \$? > $logs/run-{}.code"
    for target in $(fuzz_targets); do
        check "fuzz-$target" fuzz_verdict "$target"
    done
}

# fuzz_verdict TARGET: what its run said, and its verdict.
fuzz_verdict() {
    cat "$logs/run-$1.log"
    return "$(cat "$logs/run-$1.code" || echo 1)"
}

# Random queries on random files by the device's SQL and by DuckDB, at a fixed seed. Files of differences are left beside the log.
compare_with_duckdb() (
    cd "$logs" && "$OLDPWD/$PYTHON" "$OLDPWD/tests/duckdb/compare.py" "$OLDPWD/target/debug/examples/query" 300 1
)

# The Python module: installed, and tested from outside. pytest's counts are added.
python_module() {
    local why log=$logs/python-tests.log ok bad ignored=()
    if ! why=$(python_environment); then
        echo "python_module: $why" >> "$BYWAY_SKIPS"
        return
    fi
    if why=$(python_duckdb); then
        check duckdb compare_with_duckdb
    else
        echo "duckdb: $why" >> "$BYWAY_SKIPS"
        ignored=(--ignore bindings/python/tests/test_duckdb.py)
    fi
    check python-install python_install || return
    stage python-tests
    "$PYTHON" -m pytest bindings/python -rs "${ignored[@]}" > "$log" 2>&1
    local code=$?
    ok=$(tail -n 1 "$log" | grep -oE '[0-9]+ passed' | grep -oE '[0-9]+' || echo 0)
    bad=$(tail -n 1 "$log" | grep -oE '[0-9]+ (failed|error)' | grep -oE '[0-9]+' | awk '{n += $1} END {print n + 0}')
    if [ "$code" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
    passed=$((passed + ok))
    failed=$((failed + bad))
    sed -n 's/^SKIPPED \[[0-9]*\] [^ ]*: /python: /p' "$log" >> "$BYWAY_SKIPS"
    [ "$code" = 0 ] || fails python-tests 60
}

# The documentation site: its links, and its search in a browser.
site() {
    if ! tools/docs.sh --mdbook > "$logs/mdbook.log" 2>&1; then
        echo "site: mdbook cannot be built" >> "$BYWAY_SKIPS"
        return
    fi
    check site tools/docs.sh
}

# What runs in guests, which mostly wait for one another: beside the stages that follow. The last line of its log is its exit code.
guests_ahead() {
    tests/vm/build.sh --can > /dev/null 2>&1 || return 0
    tests/vm/run.sh --quick
    echo "$?"
}

# What ran in guests: its own table and counts, which are added.
guests() {
    local why log=$logs/vm.log ok bad code
    if ! why=$(tests/vm/build.sh --can 2>&1); then
        echo "guests: $why ($(tests/vm/run.sh --list --quick | tr '\n' ' ' | sed 's/ $//'))" >> "$BYWAY_SKIPS"
        return
    fi
    stage vm
    wait "$guests"
    code=$(tail -n 1 "$log")
    sed -i '$d' "$log"
    ok=$(sed -nE '$s/^([0-9]+) passed, [0-9]+ failed$/\1/p' "$log")
    bad=$(sed -nE '$s/^[0-9]+ passed, ([0-9]+) failed$/\1/p' "$log")
    if [ "$code" != 0 ] && [ "${bad:-0}" = 0 ]; then bad=1; fi
    passed=$((passed + ${ok:-0}))
    failed=$((failed + ${bad:-0}))
    if [ "$code" != 0 ]; then
        fails vm 80
    else
        sed -n '/^test  *kernel/,$p' "$log" | head -n -2
    fi
}

# bash takes one script at a time: further names would be that script's arguments.
parse_scripts() {
    local script
    git ls-files '*.sh' .ci/run | while read -r script; do
        bash -n "$script" || exit 1
    done
}

# Skips that no committed list allows are failures.
check_skips() {
    local allowed=tests/skips/$kind.txt line
    sort -u "$BYWAY_SKIPS" | while read -r line; do
        if [ -f "$allowed" ] && grep -qxF "${line%%: *}" <(sed 's/ *#.*//' "$allowed"); then
            echo "skipped, as tests/skips/$kind.txt allows: $line"
        else
            echo "skipped, and not allowed: $line"
        fi
    done | tee "$logs/skips.txt"
    failed=$((failed + $(grep -c 'not allowed' "$logs/skips.txt")))
}

beside=()
ahead fetched fetch
fetching=$!
check lint tools/lint.sh
check packaging tools/dist/check.sh
ahead build-ahead build_ahead
building=$!
cargo_tests tests cargo test --workspace --no-fail-fast
# Without features: another build of the public crate than that of the workspace.
cargo_tests features cargo test -p byway-features --features alone --test left_out
cargo_tests loom loom_tests
fuzz
wait "$fetching" "$building"
ahead vm guests_ahead
guests=$!
python_module
site
guests
check scripts parse_scripts
check_skips

[ ! -f "$logs/failures.txt" ] || { echo "failed:"; cat "$logs/failures.txt"; }
echo "took $((SECONDS / 60)) min $((SECONDS % 60)) s"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
