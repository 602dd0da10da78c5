#!/bin/sh
# What puts cost on the link behind a kernel's driver, stock and patched, in guests of both kernels: bytes by the device's own
# ledger, the descriptor that it was given, and times as the guest's program has them. Needs what tests/vm needs.
set -eu
cd "$(dirname "$0")/.."
tests/vm/run.sh --release inline
{
    printf '{"cpu":"%s","cpus":%s,"load":%s}\n' "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | sed -n 1p)" \
        "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)"
    tr -d '\r' < target/test-logs/vm-inline-6.12.log | sed -n 's/^traffic-row //p'
    tr -d '\r' < target/test-logs/vm-inline-7.2.log | sed -n 's/^traffic-row //p'
} > benches/results/traffic.json
