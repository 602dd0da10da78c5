#!/usr/bin/env bash
# wheels.sh [MACHINE]...: wheels in target/dist with the module and the command, for x86_64 and aarch64 unless some are named. For
# the other kind of machine they are built by a cross compiler.
#
# The command is the program itself, as a script of the wheel: no Python starts before it. Names, versions and texts are maturin's.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/dist/common.sh

WORK=$PWD/target/dist/work/wheels
PYTHON=$PWD/target/dist-python/bin

# Maturin for what a wheel says of itself, wheel to pack it, auditwheel to check it.
have_python() {
    "$PYTHON/auditwheel" --version >/dev/null 2>&1 && return 0
    need python3-venv /usr/share/doc/python3-venv || true
    python3 -m venv target/dist-python
    "$PYTHON/pip" install -q 'maturin>=1.8,<2' 'wheel>=0.45,<1' 'auditwheel>=6,<7'
}

# build MACHINE: command, library of byway tdm and module.
build() {
    local target=$1-unknown-linux-gnu
    if [ "$target" = "$HOST" ]; then
        build_host
        return
    fi
    need_target "$target"
    need "gcc-$1-linux-gnu" "$1-linux-gnu-gcc"
    need libc6-dev-arm64-cross "/usr/$1-linux-gnu/include/stdio.h"
    env "CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<< "$target")_LINKER=$1-linux-gnu-gcc" \
        cargo build --release --locked --target "$target" -p byway-cli -p byway-tdm-interpose -p byway-python
}

# glibc_of MACHINE FILE...: the oldest C library that has every symbol they need, as 2_34.
glibc_of() {
    "$1-linux-gnu-objdump" -T "${@:2}" | sed -n 's/.*(GLIBC_\([0-9.]*\)).*/\1/p' | sort -uV | tail -n 1 | tr . _
}

# wheel MACHINE: builds and packs it.
wheel() {
    local machine=$1 target=$1-unknown-linux-gnu folder tree tag
    folder=$(release_folder "$target")
    build "$machine"
    rm -rf "$WORK/$machine"
    mkdir -p "$WORK/$machine"
    (cd bindings/python && PATH=$PYTHON:$PATH maturin pep517 write-dist-info --metadata-directory "$WORK/$machine" >/dev/null 2>&1)
    tree=$WORK/$machine
    cp -r bindings/python/python/byway "$tree/"
    find "$tree" -name __pycache__ -exec rm -rf {} +
    "$machine-linux-gnu-strip" --strip-unneeded -o "$tree/byway/_byway.abi3.so" "$folder/lib_byway.so"
    mkdir -p "$tree/byway-$VERSION.data/scripts"
    "$machine-linux-gnu-strip" --strip-unneeded -o "$tree/byway-$VERSION.data/scripts/byway" "$folder/byway"
    # Where `byway tdm run` looks for it: ../lib/byway of the command.
    mkdir -p "$tree/byway-$VERSION.data/data/lib/byway"
    "$machine-linux-gnu-strip" --strip-unneeded -o "$tree/byway-$VERSION.data/data/lib/byway/libbyway_tdm.so" "$folder/libbyway_tdm.so"
    tag=cp311-abi3-manylinux_$(glibc_of "$machine" "$tree/byway/_byway.abi3.so" "$tree"/*.data/scripts/byway "$tree"/*.data/data/lib/byway/*.so)_$machine
    sed -i "s/^Tag: .*/Tag: $tag/" "$tree/byway-$VERSION.dist-info/WHEEL"
    mkdir -p "$tree/byway-$VERSION.dist-info/licenses"
    cp LICENSE "$tree/byway-$VERSION.dist-info/licenses/"
    crates_of "$target" byway-cli byway-python > "$tree/byway-$VERSION.dist-info/licenses/crates.txt"
    find "$tree" -type f ! -path '*/scripts/*' -exec chmod 644 {} +
    find "$tree" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
    rm -f "target/dist/byway-$VERSION"-*"_$machine.whl"
    "$PYTHON/python" -m wheel pack "$tree" --dest-dir target/dist
}

have_python
mkdir -p target/dist
machines=("$@")
[ $# -gt 0 ] || machines=(x86_64 aarch64)
for machine in "${machines[@]}"; do
    wheel "$machine"
done
