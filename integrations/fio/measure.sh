#!/usr/bin/env bash
# measure.sh ENGINE [PAIRS] [SECONDS]: nanoseconds of an I/O over no device, 4 KiB random reads at depth 1, by fio's null and by
# Byway's nil, by turns; medians, and their difference.
set -euo pipefail
engine=$(realpath "$1")
pairs=${2:-15}
seconds=${3:-1}

# One run: nanoseconds an I/O.
one() {
	fio --name=one --rw=randread --bs=4k --size=1g --iodepth=1 --gtod_reduce=1 --time_based --runtime="$seconds" \
		--thread=1 --output-format=terse --terse-version=3 "$@" | awk -F';' '/^3;/ {printf "%.2f\n", 1e9 / $8}'
}
median() { sort -n | awk '{at[NR] = $1} END {print NR % 2 ? at[(NR + 1) / 2] : (at[NR / 2] + at[NR / 2 + 1]) / 2}'; }

null= nil=
for _ in $(seq "$pairs"); do
	null+=$(one --ioengine=null)$'\n'
	nil+=$(one --ioengine="external:$engine" --uri=null-backend:1G)$'\n'
done
a=$(printf %s "$null" | median)
b=$(printf %s "$nil" | median)
echo "null $a ns, byway nil $b ns, $(awk "BEGIN {printf \"%+.1f\", $b - $a}") ns an I/O ($pairs pairs of $seconds s)"
