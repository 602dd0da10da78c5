#!/usr/bin/env bash
# Runs tests in guests, one guest at a time, and ends with a table and "N passed, N failed":
#   run.sh [--kernel 6.12|7.2] [--release] NAME...   these, on this kernel or on all that they are for
#   run.sh [--release] --quick | --all               the set of `make test`, of `make test-vm`
#   run.sh --list [--quick]                          their names
# Processors are run by KVM where guests come up under it, or as BYWAY_VM_ACCELERATOR says (kvm, tcg).
# A test is guest/NAME.sh; README.md says what its header may have. Logs: target/test-logs/vm-NAME-KERNEL.log.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. tests/vm/machine.sh
. tests/vm/host.sh
. tests/vm/accelerator.sh
guests=${BYWAY_VM_CACHE:-$HOME/.cache/byway/vm}/guests
logs=$PWD/target/test-logs
profile=debug
cargo=${CARGO:-cargo}
rows=()
passed=0
failed=0

main() {
    local wanted=() set=named only='' list='' test kernel
    while [ $# -gt 0 ]; do
        case $1 in
            --kernel) only=$2; shift ;;
            --release) profile=release ;;
            --quick | --all) set=${1#--} ;;
            --list) list=yes ;;
            -*) echo "unknown: $1" >&2; exit 2 ;;
            *) wanted+=("$1") ;;
        esac
        shift
    done
    [ "$set" = named ] && [ -z "$list" ] || mapfile -t wanted < <(names "$set")
    if [ -n "$list" ]; then printf '%s\n' "${wanted[@]}"; return; fi
    [ ${#wanted[@]} -gt 0 ] || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
    for test in "${wanted[@]}"; do
        [ -f "tests/vm/guest/$test.sh" ] || { echo "there is no test $test" >&2; exit 2; }
    done
    "$here/build.sh" || exit 2
    exec 8< "$guests/stamp"
    flock -s 8
    mkdir -p "$logs"
    build_programs || exit 2
    trap stop_host EXIT
    # A user who interrupts the run gets the table so far.
    trap 'table; exit 130' INT TERM
    for test in "${wanted[@]}"; do
        for kernel in $(kernels_for "$set"); do
            [ -z "$only" ] || [ "$only" = "$kernel" ] || continue
            find_accelerator
            run_test
        done
    done
    table
    [ "$failed" = 0 ]
}

# The names of a set, or of all tests.
names() {
    local path test
    for path in tests/vm/guest/*.sh; do
        test=$(basename "$path" .sh)
        [ "$1" = quick ] && [ -z "$(header quick)" ] || echo "$test"
    done
}

# A value of the test's header, or its default: "# devices: nvme".
header() {
    local said
    said=$(sed -n "/^[^#]/q; s/^# $1: *//p" "tests/vm/guest/$test.sh" 2>/dev/null)
    echo "${said:-${2:-}}"
}

kernels_for() {
    if [ "$1" = quick ]; then header quick; else header kernels "$(cut -d' ' -f1 "$guests/kernels" | tr '\n' ' ')"; fi
}

# What runs in guests is built here; trixie's C library is newer than whatever it was built with.
build_programs() {
    programs=$PWD/target/vm/programs-$profile
    local flags=() built
    [ "$profile" = release ] && flags=(--release)
    # As programs of the workspace's tests, so that what those have built is not built again: a build of the command alone enables
    # fewer features of its dependencies. `names` is a test of the command, which is built with it.
    built=$($cargo test -q "${flags[@]}" --workspace --test node --test region --test names --no-run --message-format=json) || return 1
    $cargo build -q "${flags[@]}" -p byway-tdm-interpose || return 1
    mkdir -p "$programs"
    program "target/$profile/byway" byway
    program "target/$profile/libbyway_tdm.so" libbyway_tdm.so
    program "$(test_of node "$built")" conformance
    program "$(test_of region "$built")" regions
}

# The program of a test, from what cargo said when it built it.
test_of() {
    sed -n 's/.*"kind":\["test"\].*"name":"'"$1"'".*"executable":"\([^"]*\)".*/\1/p' <<< "$2"
}

# Without what debuggers want: guests read slowly.
program() {
    [ "$programs/$2" -nt "$1" ] || strip -o "$programs/$2" "$1"
}

# Runs $test on $kernel, and keeps its verdict.
run_test() {
    local log=$logs/vm-$test-$kernel.log begun=$SECONDS verdict="no machine" machine boot
    prepare_work
    : > "$log"
    echo "== vm $test, kernel $kernel"
    for boot in $(seq "$(header boots 1)"); do
        "guest_script" > "$work/share/run.sh"
        module >> "$log" 2>&1 && describe_machine >> "$log" 2>&1 || break
        run_guest
        [ ! -s "$work/monitor.said" ] || sed 's/^/QEMU: /' "$work/monitor.said" >> "$log"
        verdict=$(verdict_of "$log")
        [ "$verdict" = passed ] || break
    done
    stop_host
    [ ! -e "$work/server.log" ] || sed 's/^/server: /' "$work/server.log" >> "$log"
    if [ "$verdict" = passed ] && ! after_guest >> "$log" 2>&1; then verdict='failed afterwards'; fi
    if [ -e "$work/share/figures.json" ]; then cp "$work/share/figures.json" "$logs/vm-$test-$kernel.json"; fi
    if [ "$verdict" = passed ]; then
        passed=$((passed + 1))
        rm -rf "$work"
    else
        failed=$((failed + 1))
        tail -n 40 "$log"
        echo "vm $test, kernel $kernel: $verdict; all of it: $log, its files: $work"
    fi
    rows+=("$test|$kernel|${accelerator%%,*}|$verdict|$((SECONDS - begun)) s|$(grep -c '^ok ' "$log")|$(figures "$log")")
    echo "   $verdict, $((SECONDS - begun)) s"
}

# The folder of $test on $kernel, with what its guest reads.
prepare_work() {
    work=$PWD/target/vm/$test-$kernel
    suite=''
    policy=''
    rm -rf "$work"
    mkdir -p "$work/share"
    cp tests/vm/guest/*.sh tests/vm/lib.sh tests/vm/*.py "$work/share/"
}

# The figures that a test reports.
figures() {
    tr -d '\r' < "$1" | sed -n 's/^FIGURE //p' | paste -sd ';' | sed 's/;/; /g'
}

# The module of the header, a folder of integrations/, for $kernel, in the guest's share.
module() {
    local name release made
    name=$(header module)
    [ -n "$name" ] || return 0
    release=$(sed -n "s/^$kernel //p" "$guests/kernels")
    made=$PWD/target/vm/$name-$release
    if [ -z "$(find "$made/nvme.ko" -newer "integrations/$name/build.sh" -newer "integrations/$name/patches/$kernel.patch" 2>/dev/null)" ]; then
        "$here/build.sh" --kernel-build && "integrations/$name/build.sh" "$release" "$made" "${guests%/*}/kernel-build/root" || return 1
    fi
    cp "$made/nvme.ko" "$work/share/"
}

# What the guest runs.
guest_script() {
    printf '%s\n' "test=$test kernel=$kernel boot=$boot profile=$profile set=$set" \
        ". /share/lib.sh" ". /share/$test.sh" verdict
}

# Starts the machine, does what its guest asks for, and waits for its end.
run_guest() {
    local limit deadline
    limit=$(header seconds 300)
    QEMU_MODULE_DIR=$guests/root/usr/lib/x86_64-linux-gnu/qemu "${machine[@]}" < /dev/null >> "$log" 2>&1 &
    guest=$!
    cat "$work/monitor.out" > "$work/monitor.said" &
    deadline=$((SECONDS + limit))
    while kill -0 "$guest" 2>/dev/null; do
        answer_guest
        if [ "$SECONDS" -ge "$deadline" ]; then
            echo "GUEST-LATE after $limit s" >> "$log"
            kill -KILL "$guest"
        fi
        sleep 0.1
    done
    wait "$guest" 2>/dev/null
    guest=''
}

# The last boot's verdict. A killed guest reports only the checks that failed before.
verdict_of() {
    local line
    if grep -qa '^FAILED' "$1"; then echo failed; return; fi
    line=$(tr -d '\r' < "$1" | grep -aE '^GUEST-(EXIT|LATE|KILLED)' | tail -n 1)
    case $line in
        'GUEST-EXIT 0' | GUEST-KILLED*) echo passed ;;
        GUEST-EXIT*) echo failed ;;
        GUEST-LATE*) echo "too late" ;;
        *) echo "ended without a verdict" ;;
    esac
}

table() {
    local row
    echo
    { echo "test|kernel|by|verdict|time|checks|figures"; printf '%s\n' "${rows[@]}"; } | column -t -s '|'
    echo
    echo "$passed passed, $failed failed"
}

main "$@"
