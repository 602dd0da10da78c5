#!/usr/bin/env bash
# dist.sh [crates|debs|oci|static|wheels]...: packages in target/dist, all of them unless some are named.
# Nothing is published. `tools/dist/test.sh reproducible` compares the packages of one commit, made twice.
set -euo pipefail
cd "$(dirname "$0")/.."

# Packages of the crates, each built of the others' packages.
crates() {
    tools/crates.py package
    mkdir -p target/dist/crates
    rm -f target/dist/crates/*
    cp "${CARGO_TARGET_DIR:-target}"/package/*.crate target/dist/crates/
}

parts=("$@")
[ $# -gt 0 ] || parts=(debs wheels static oci crates)
for part in "${parts[@]}"; do
    case $part in
        crates) crates ;;
        debs | oci | static | wheels) "tools/dist/$part.sh" ;;
        *) echo "dist.sh: no $part; there are crates, debs, oci, static and wheels" >&2; exit 2 ;;
    esac
done
(cd target/dist && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0r sha256sum | tee SHA256SUMS)
