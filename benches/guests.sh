#!/usr/bin/env bash
# Our device over vfio-user beside QEMU's own in one guest (tests/vm/guest/speed.sh), kept as a bench's results are:
#   benches/guests.sh > benches/results/guests.json
set -euo pipefail
cd "$(dirname "$0")/.."
logs=target/test-logs

machine() {
    local cpu load
    cpu=$(sed -n 's/^model name[ \t]*: //p' /proc/cpuinfo | sed -n 1p)
    load=$(cut -d' ' -f1 /proc/loadavg)
    echo '{"cpu":"'"$cpu"'","cpus":'"$(nproc)"',"load":'"$load"'}'
}

rm -f "$logs"/vm-speed-*.json
machine
tests/vm/run.sh --release speed >&2
cat "$logs"/vm-speed-*.json
