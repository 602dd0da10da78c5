#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Builds the stock nvme driver of Debian's linux-source, with the patch, as a module for a kernel:
#   build.sh RELEASE FOLDER [TREE]
# RELEASE is the kernel's, as 7.2.12+deb13-amd64. FOLDER gets nvme.ko and what it was built from. TREE has a compiler and
# the packages linux-headers-RELEASE and linux-source-VERSION installed; / if not given. Another tree is entered by root,
# in mounts of its own.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

main() {
    [ $# -ge 2 ] || { sed -n '4,7s/^# //p' "$0" >&2; exit 2; }
    local release=$1 folder tree=${3:-/} version patch
    mkdir -p "$2"
    folder=$(cd "$2" && pwd)
    version=$(cut -d. -f1,2 <<< "$release")
    patch=$here/patches/$version.patch
    [ -f "$patch" ] || { echo "there is no patch for Linux $version, but for $(patches)" >&2; exit 1; }
    unpack "${tree%/}/usr/src/linux-source-$version.tar.xz" "$folder"
    # Nothing is applied that does not fit to the line.
    patch --quiet --fuzz=0 --directory="$folder/source" --strip=1 < "$patch"
    cp "$here/Kbuild" "$folder/source/drivers/nvme/host/"
    compile "$release" "$folder/source/drivers/nvme/host" "$tree"
    cp "$folder/source/drivers/nvme/host/nvme.ko" "$folder/nvme.ko"
}

patches() {
    (cd "$here/patches" && ls) | sed 's/\.patch$//' | tr '\n' ' '
}

# Of the driver, what the module is made of.
unpack() {
    local archive=$1 folder=$2 name
    [ -f "$archive" ] || { echo "$archive is not there: it is of package $(basename "$archive" .tar.xz)" >&2; exit 1; }
    name=$(basename "$archive" .tar.xz)
    rm -rf "$folder/source"
    mkdir -p "$folder/source"
    tar -C "$folder/source" --strip-components=1 -xf "$archive" \
        "$name/drivers/nvme/host/"{pci.c,nvme.h,trace.h,fabrics.h}
}

compile() {
    local release=$1 source=$2 tree=$3
    if [ "$tree" = / ]; then
        make -C "/usr/src/linux-headers-$release" M="$source" modules
        return
    fi
    unshare --mount --propagation private bash -euc '
        mount --bind "$2" "$3/mnt"
        mount -t proc proc "$3/proc"
        chroot "$3" make -C "/usr/src/linux-headers-$1" M=/mnt modules
    ' - "$release" "$source" "$tree"
}

main "$@"
