# Sourced by the scripts here: what all packages are built of.

. tools/need.sh

HOST=x86_64-unknown-linux-gnu
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# Packages of one commit are the same whenever they are made.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)}

# As the Makefile says it, so that both build the same.
export BYWAY_COMMIT=${BYWAY_COMMIT-$(git describe --always --dirty --abbrev=8 2>/dev/null)}

# No folder of this machine stands in what is shipped.
export RUSTFLAGS="--remap-path-prefix=$PWD=/usr/src/byway --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=/usr/src/crates"

# Where cargo puts what it builds for a target.
release_folder() {
    echo "${CARGO_TARGET_DIR:-target}/$1/release"
}

# need_target TARGET: have Rust's standard library for it, or add it by rustup.
need_target() {
    [ -d "$(rustc --print target-libdir --target "$1")" ] && return 0
    have rustup && rustup target add "$1" >&2 && return 0
    echo "Rust's standard library for $1 is missing: rustup target add $1" >&2
    return 1
}

# crates_of TARGET CRATE...: crates that are linked in, with version and licence, a line each.
crates_of() {
    local target=$1
    shift
    cargo tree --locked --target "$target" --edges normal --prefix none --format '{p} {l}' $(printf -- '-p %s ' "$@") |
        sed -e 's, (/[^)]*),,' -e 's, (proc-macro),,' -e 's, (\*)$,,' | grep -v '^byway' | sort -u
}

# The commands and libraries for this machine's kind, all at once: what they share is compiled once.
HOST_CRATES="-p byway-cli -p byway-c -p byway-tdm-interpose -p byway-lab -p byway-python"
build_host() {
    cargo build --release --locked --target "$HOST" $HOST_CRATES
}
