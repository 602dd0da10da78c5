#!/usr/bin/env bash
# bare.sh [COMMAND...]: commands of the README on a bare Debian system with a Rust toolchain, git and make, in a clone of the last commit.
# Without commands: make demo, then make test, whose tests run every block of the README and the tutorials. An hour on two cores.
# As root; the system is in target/bare, and is removed when all passed. BYWAY_BARE_CA names certificates that it trusts too.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/need.sh
. tools/tree.sh

[ "$(id -u)" = 0 ] || { echo "bare.sh: root alone may make a system to try commands on" >&2; exit 1; }
commands=("$@")
[ $# -gt 0 ] || commands=("make demo" "make test")
rustup=${RUSTUP_HOME:-$HOME/.rustup} cargo=${CARGO_HOME:-$HOME/.cargo}
[ -d "$rustup" ] && [ -d "$cargo" ] || { echo "bare.sh: no Rust toolchain of rustup in $rustup and $cargo" >&2; exit 1; }
TREE=$PWD/target/bare/tree
mkdir -p target/bare
bare_system target/bare/system.tar
unpack_system target/bare/system.tar "$TREE"
if [ -n "${BYWAY_BARE_CA:-}" ]; then
    mkdir -p "$TREE/usr/local/share/ca-certificates"
    cp "$BYWAY_BARE_CA"/*.crt "$TREE/usr/local/share/ca-certificates/"
fi
export BARE_PATH=$cargo/bin:
# What the README asks for, and no more. The folder of cargo is this machine's: what was fetched is not fetched again.
run() {
    in_system "$TREE" "export RUSTUP_HOME='$rustup' CARGO_HOME='$cargo'; cd /root; $1" "$rustup" "$cargo"
}
run "apt-get -qq -o APT::Sandbox::User=root update && apt-get -qq -o APT::Sandbox::User=root --no-install-recommends -y install git make ca-certificates > /dev/null"
git clone -q --no-hardlinks . "$TREE/root/byway"
for command in "${commands[@]}"; do
    began=$SECONDS
    echo "\$ $command"
    run "cd byway && $command"
    echo "took $(((SECONDS - began) / 60)) min $(((SECONDS - began) % 60)) s"
done
rm -rf "$TREE"
