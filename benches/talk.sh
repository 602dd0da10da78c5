#!/usr/bin/env bash
# The comparison of the talk on transparent mappings, on an ext4 in this machine's memory (zram), as root. Arguments are under_tdm's.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "benches/talk.sh: mounts a file system, so it needs root" >&2; exit 1; }
device=$(zramctl --find --size 4G 2>/dev/null || true)
[ -n "$device" ] || { echo "benches/talk.sh: no zram device is free" >&2; exit 1; }
mounted=$(mktemp -d)
trap 'umount "$mounted" 2>/dev/null; zramctl --reset "$device"; rmdir "$mounted"' EXIT
mkfs.ext4 -q "$device"
mount "$device" "$mounted"
target/release/under_tdm --talk --folder "$mounted" "$@"
