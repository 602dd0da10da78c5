#!/usr/bin/env bash
# alone.sh FOLDER: takes each crate that packaging/alone has a program for out of the packages in FOLDER (*.crate), into an empty
# project, and runs the program: what a user of that one crate gets.
set -euo pipefail
cd "$(dirname "$0")/../.."
PACKAGES=$(realpath "$1")
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/alone

# needs CRATE: our crates that its package names, itself among them, and theirs.
needs() {
    local name
    echo "$1"
    for name in $(tar -xOf "$PACKAGES/$1-$VERSION.crate" "$1-$VERSION/Cargo.toml" | sed -n 's/^\[dependencies\.\(byway-.*\)\]/\1/p'); do
        needs "$name"
    done
}

# project CRATE: an empty project with one dependency and one program. Of ours, what it needs comes from the packages.
project() {
    local name folder=$WORK/$1-alone
    mkdir -p "$folder/src"
    cp "packaging/alone/$1.rs" "$folder/src/main.rs"
    {
        printf '[package]\nname = "%s-alone"\nedition = "2024"\n\n[workspace]\n\n[dependencies]\n%s = "%s"\n' "$1" "$1" "$VERSION"
        # The codec's commands are of this crate.
        [ "$1" != byway-nvme-tcp ] || echo "byway-spec = \"$VERSION\""
        printf '\n[patch.crates-io]\n'
        for name in $(needs "$1" | sort -u); do
            tar -xf "$PACKAGES/$name-$VERSION.crate" -C "$WORK"
            echo "$name = { path = \"$WORK/$name-$VERSION\" }"
        done
    } > "$folder/Cargo.toml"
}

for program in packaging/alone/*.rs; do
    name=$(basename "$program" .rs)
    project "$name"
    printed=$(cargo run -q --manifest-path "$WORK/$name-alone/Cargo.toml")
    echo "$name: $printed"
done
