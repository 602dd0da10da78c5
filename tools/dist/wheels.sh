#!/usr/bin/env bash
# wheels.sh: the wheel in target/dist with the module and the command, for x86-64.
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

# glibc_of FILE...: the oldest C library that has every symbol they need, as 2_34.
glibc_of() {
    objdump -T "$@" | sed -n 's/.*(GLIBC_\([0-9.]*\)).*/\1/p' | sort -uV | tail -n 1 | tr . _
}

# wheel TARGET: packs it.
wheel() {
    local target=$1 machine=${1%%-*} folder tree tag
    folder=$(release_folder "$target")
    build_host
    rm -rf "$WORK/$machine"
    mkdir -p "$WORK/$machine"
    (cd bindings/python && PATH=$PYTHON:$PATH maturin pep517 write-dist-info --metadata-directory "$WORK/$machine" >/dev/null 2>&1)
    tree=$WORK/$machine
    cp -r bindings/python/python/byway "$tree/"
    find "$tree" -name __pycache__ -exec rm -rf {} +
    strip --strip-unneeded -o "$tree/byway/_byway.abi3.so" "$folder/lib_byway.so"
    mkdir -p "$tree/byway-$VERSION.data/scripts"
    strip --strip-unneeded -o "$tree/byway-$VERSION.data/scripts/byway" "$folder/byway"
    # Where `byway tdm run` looks for it: ../lib/byway of the command.
    mkdir -p "$tree/byway-$VERSION.data/data/lib/byway"
    strip --strip-unneeded -o "$tree/byway-$VERSION.data/data/lib/byway/libbyway_tdm.so" "$folder/libbyway_tdm.so"
    tag=cp311-abi3-manylinux_$(glibc_of "$tree/byway/_byway.abi3.so" "$tree"/*.data/scripts/byway "$tree"/*.data/data/lib/byway/*.so)_$machine
    sed -i "s/^Tag: .*/Tag: $tag/" "$tree/byway-$VERSION.dist-info/WHEEL"
    mkdir -p "$tree/byway-$VERSION.dist-info/licenses"
    cp LICENSE "$tree/byway-$VERSION.dist-info/licenses/"
    crates_of "$target" byway-cli byway-python > "$tree/byway-$VERSION.dist-info/licenses/crates.txt"
    find "$tree" -type f ! -path '*/scripts/*' -exec chmod 644 {} +
    find "$tree" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
    "$PYTHON/python" -m wheel pack "$tree" --dest-dir target/dist
}

have_python
mkdir -p target/dist
wheel "$HOST"
