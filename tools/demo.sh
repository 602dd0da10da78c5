#!/usr/bin/env bash
# The whole trip on one machine: an image, real records by every transfer method, a query both ways, the papers' workloads, a report.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/need.sh

records=/usr/share/unicode/UnicodeData.txt
out=${1:-target/demo}
began=$SECONDS

step() { printf '\n== %s\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }
# link_bytes FILE: what `byway sql --cost` says in it of all that crossed the link.
link_bytes() { awk '/^in all/ { print $3 }' "$1"; }

need_compilers || exit 2
need unicode-data "$records" || records=

step "Build"
# What figures name as the commit that was measured.
BYWAY_COMMIT=$(git describe --always --dirty --abbrev=8 2>/dev/null || true)
export BYWAY_COMMIT
cargo build --release -p byway-cli -p byway-lab
PATH=$PWD/target/release:$PATH
mkdir -p "$out"
rm -f "$out/demo.img" "$out/mesh.img"

step "One image, one put, one get, in three processes"
show byway create "$out/demo.img" --size 1G --profile cosmos
show byway kv put "embedded:$out/demo.img?transfer=inline" 0041 "LATIN CAPITAL LETTER A"
show byway kv get "embedded:$out/demo.img" 0041

if [ -n "$records" ]; then
    step "Real records, written by one process and compared by another"
    show byway kv import "embedded:$out/demo.img?transfer=adaptive" "$records" --cost
    show byway kv import "embedded:$out/demo.img" "$records" --compare
fi

step "One query over 96 MiB, by the device and by this process"
# The query that Los Alamos National Laboratory publishes with its simulation of colliding gases: 8 points of 4,194,304 rows.
laghos="SELECT min(vertex_id) AS VID, min(x) as X, min(y) as Y, min(z) as Z, avg(e) AS E FROM s3object \
WHERE x > 1.5 AND x < 1.6 AND y > 1.5 AND y < 1.6 AND z > 1.5 AND z < 1.6 GROUP BY vertex_id ORDER BY E"
show byway-lab data laghos "$out/mesh.parquet"
mesh=0:$(stat -c %s "$out/mesh.parquet")
show byway create "$out/mesh.img" --size 1G --profile cosmos --ns nvm:128M
show byway nvm write "$out/mesh.img" --file "$out/mesh.parquet"
# ask NAME OPTIONS [MORE...]: the query on the device opened with OPTIONS; what it cost goes to NAME.cost in the folder.
ask() {
    local name=$1 options=$2
    shift 2
    printf "$ byway sql 'embedded:%s?%s' --blocks %s \"\$laghos\" %s\n" "$out/mesh.img" "$options" "$mesh" "$*"
    byway sql "embedded:$out/mesh.img?$options" --blocks "$mesh" "$laghos" "$@" > "$out/$name.csv" 2> "$out/$name.cost" && return
    cat "$out/$name.cost" >&2
    return 1
}
printf '$ laghos="%s"\n' "$laghos"
ask inline transfer=inline --cost
cat "$out/inline.csv"
ask prp transfer=prp --cost
ask host transfer=prp --cost --in-host
cmp "$out/inline.csv" "$out/host.csv"
printf '\n%-62s %17s\n' "the same ${#laghos} bytes of text and $(wc -l < "$out/host.csv") lines of result" 'bytes on the link'
printf '%-62s %17d\n' \
    "the device executes it, its text inline" "$(link_bytes "$out/inline.cost")" \
    "the device executes it, its text by PRP" "$(link_bytes "$out/prp.cost")" \
    "this process executes it, and reads the columns' pages" "$(link_bytes "$out/host.cost")"

step "Every transfer method, the papers' workloads, and the report"
if [ -n "$records" ]; then
    show byway-lab report "$out" --records "$records"
else
    echo "without unicode-data the report has no real records"
    show byway-lab report "$out"
fi

printf '\n%s seconds; open %s/report.html\n' "$((SECONDS - began))" "$out"
