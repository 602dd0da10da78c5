#!/usr/bin/env bash
# static.sh: the command that needs no library of the system (musl), with man pages and completions, as an archive in target/dist, to be
# unpacked below a prefix. Same input, same bytes.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/dist/common.sh

TARGET=x86_64-unknown-linux-musl
NAME=byway-$VERSION-x86_64-linux-static
WORK=target/dist/work/static
TREE=$WORK/$NAME

build() {
    need_target "$TARGET"
    # Zstandard's C code is compiled with musl's headers.
    need musl-tools musl-gcc
    cargo build --release --locked --target "$TARGET" -p byway-cli
}

# As `make install` lays it out.
fill_tree() {
    local share=$TREE/share
    install -d "$TREE/bin" "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
    strip --strip-unneeded -o "$TREE/bin/byway" "$(release_folder "$TARGET")/byway"
    "$TREE/bin/byway" gen man --dir "$share/man/man1"
    "$TREE/bin/byway" gen completions bash > "$share/bash-completion/completions/byway"
    "$TREE/bin/byway" gen completions zsh > "$share/zsh/site-functions/_byway"
    "$TREE/bin/byway" gen completions fish > "$share/fish/vendor_completions.d/byway.fish"
    install -Dm644 -t "$share/doc/byway" LICENSE
    { crates_of "$TARGET" byway-cli; echo "musl MIT"; } > "$share/doc/byway/crates.txt"
}

rm -rf "$WORK"
build
fill_tree
tar --sort=name --format=ustar --mode=u=rwX,go=rX --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$WORK" -c "$NAME" |
    gzip -9n > "target/dist/$NAME.tar.gz"
