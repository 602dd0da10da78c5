#!/usr/bin/env bash
# The whole trip on one machine: an image, real records by every transfer method, the papers' workloads, a report.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/need.sh

records=/usr/share/unicode/UnicodeData.txt
out=${1:-target/demo}
began=$SECONDS

step() { printf '\n== %s\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }

need_compilers || exit 2
need unicode-data "$records" || records=

step "Build"
# What figures name as the commit that was measured.
BYWAY_COMMIT=$(git describe --always --dirty --abbrev=8 2>/dev/null || true)
export BYWAY_COMMIT
cargo build --release -p byway-cli -p byway-lab
PATH=$PWD/target/release:$PATH
mkdir -p "$out"
rm -f "$out/demo.img"

step "One image, one put, one get, in three processes"
show byway create "$out/demo.img" --size 1G --profile cosmos
show byway kv put "embedded:$out/demo.img?transfer=inline" 0041 "LATIN CAPITAL LETTER A"
show byway kv get "embedded:$out/demo.img" 0041

if [ -n "$records" ]; then
    step "Real records, written by one process and compared by another"
    show byway kv import "embedded:$out/demo.img?transfer=adaptive" "$records" --cost
    show byway kv import "embedded:$out/demo.img" "$records" --compare
fi

step "Every transfer method, the papers' workloads, and the report"
if [ -n "$records" ]; then
    show byway-lab report "$out" --records "$records"
else
    echo "without unicode-data the report has no real records"
    show byway-lab report "$out"
fi

printf '\n%s seconds; open %s/report.html\n' "$((SECONDS - began))" "$out"
