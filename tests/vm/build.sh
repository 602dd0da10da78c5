#!/usr/bin/env bash
# Builds what the guests of tests/vm are made of, once, from Debian packages:
#   build.sh [--kernel-build] [--can]
# a tree with QEMU and the tools that tests use, which is also the guests' root; and for each kernel an ELF image and an
# initramfs. --kernel-build adds a second tree, with a compiler and the kernels' headers and sources. --can builds
# nothing, and says in a sentence why it could not.
#
# All of it goes to ${BYWAY_VM_CACHE:-~/.cache/byway/vm}, from the mirror of Debian that this machine's apt uses, or
# BYWAY_VM_MIRROR. It is built anew when this script or what it includes has changed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${BYWAY_VM_CACHE:-$HOME/.cache/byway/vm}
. "$here/../../tools/need.sh"

release=trixie
backports=$release-backports
# Where each kernel comes from. The versions are the prefixes that are looked for: the newest package that has one.
kernels=(6.12:$release 7.2:$backports)
tools=(
    nvme-cli fio ndctl daxctl cxl kmod pciutils iproute2 rdma-core strace busybox-static e2fsprogs xfsprogs
    ktls-utils keyutils python3-minimal
)
compiler=(gcc make libc6-dev bc bison flex libelf-dev libssl-dev xz-utils patch)
host_tools=(debootstrap cpio kmod:modinfo xz-utils:xz zstd util-linux:unshare)

main() {
    local stage=guests
    [ "${1:-}" = --kernel-build ] && stage=kernel-build
    if [ "${1:-}" = --can ]; then can; return; fi
    mkdir -p "$cache"
    exec 9>>"$cache/building"
    flock 9
    is_built guests || build guests
    [ "$stage" = guests ] || is_built kernel-build || build kernel-build
}

# Whether the harness is there or can be built; one sentence where not.
can() {
    is_built guests && return
    local why
    why=$(can_build) || { echo "$why"; return 1; }
}

can_build() {
    [ "$(uname -m)" = x86_64 ] || { echo "guests are x86_64 machines, and so must be the machine that builds them"; return 1; }
    [ "$(id -u)" = 0 ] || { echo "the harness is built by root, once: sudo tests/vm/build.sh"; return 1; }
    unshare --mount --pid --fork true 2>/dev/null || { echo "this machine does not let root mount anything"; return 1; }
    local tool
    for tool in "${host_tools[@]}"; do
        need "${tool%:*}" "${tool#*:}" || return 1
    done 2>&1
    [ -n "$(mirror)" ] || { echo "apt knows no mirror of Debian here: name one by BYWAY_VM_MIRROR"; return 1; }
    answers "$(mirror)" || { echo "$(mirror) does not answer"; return 1; }
}

# Whether a mirror can be reached, by the way that apt reaches it.
answers() {
    local there code=0
    there=$(mktemp -d)
    /usr/lib/apt/apt-helper download-file "$1/dists/$release/InRelease" "$there/InRelease" > /dev/null 2>&1 || code=1
    rm -rf "$there"
    return "$code"
}

# The stamp that identifies a build: a digest of its inputs.
recipe() {
    cat "$here/build.sh" "$here/init.sh" "$here/modules.txt" | sha256sum | cut -d' ' -f1
}

is_built() {
    [ "$(cat "$cache/$1/stamp" 2>/dev/null)" = "$(recipe)" ]
}

# Builds a stage beside the old one and then replaces it: an interrupted build leaves the old one or none. The build
# runs in mount and PID namespaces that end with it.
build() {
    local why
    why=$(can_build) || { echo "$why" >&2; exit 1; }
    rm -rf "$cache/new"
    mkdir -p "$cache/new"
    echo "building $1 in $cache; what is said: $cache/build.log" >&2
    if ! CACHE=$cache unshare --mount --pid --fork --kill-child --mount-proc --propagation private \
        "$here/build.sh" --inside "$1" > "$cache/build.log" 2>&1 9>&-; then
        tail -n 20 "$cache/build.log" >&2
        echo "building $1 failed; all of it: $cache/build.log" >&2
        rm -rf "$cache/new"
        exit 1
    fi
    recipe > "$cache/new/stamp"
    rm -rf "${cache:?}/$1"
    mv "$cache/new" "$cache/$1"
}

# Runs in mounts and processes of its own.
inside() {
    trap 'exit 130' INT TERM
    cache=$CACHE
    new=$cache/new
    root=$new/root
    case $1 in
        guests) guests ;;
        kernel-build) kernel_build ;;
    esac
}

guests() {
    step "a tree of $release" debootstrap --variant=minbase --keyring="$(keyring)" $release "$root" "$(mirror)"
    mount -t proc proc "$root/proc"
    step "its package lists" lists
    step "QEMU" install -t $backports qemu-system-x86
    step "tools" install "${tools[@]}"
    local kernel
    for kernel in "${kernels[@]}"; do
        step "kernel ${kernel%:*}" unpack_kernel "${kernel%:*}" "${kernel#*:}"
    done
    rm -rf "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb "$root"/usr/share/{doc,man,locale}
}

# A tree of its own, so that what guests boot from stays as it is.
kernel_build() {
    local kernel packages=("${compiler[@]}")
    step "a copy of the tree" cp -a "$cache/guests/root" "$root"
    step "package lists" in_root apt-get update -qq
    for kernel in "${kernels[@]}"; do
        packages+=("linux-headers-$(version_of "${kernel%:*}")/${kernel#*:}" "linux-source-${kernel%:*}/${kernel#*:}")
    done
    step "compiler, headers, sources" install -t $backports "${packages[@]}"
}

# step NAME COMMAND...: says how long it took.
step() {
    local name=$1 begun=$SECONDS
    shift
    echo "== $name"
    "$@"
    echo "== $name: $((SECONDS - begun)) s"
}

keyring() {
    ls /usr/share/keyrings/debian-archive-keyring.{pgp,gpg} 2>/dev/null | sed -n 1p
}

# The tree reaches the mirror as this machine does.
lists() {
    local suite
    for suite in $release $release-updates $backports; do
        echo "deb $(mirror) $suite main"
    done > "$root/etc/apt/sources.list"
    apt-config dump | grep -E '^Acquire::[^ ]*(Proxy|Check-|Retries|Timeout)[^ ]* ' > "$root/etc/apt/apt.conf.d/00host" || true
    cp /etc/resolv.conf /etc/hosts "$root/etc/"
    in_root apt-get update -qq
}

in_root() {
    DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$root" "$@" < /dev/null
}

install() {
    in_root apt-get install -y -qq --no-install-recommends -o DPkg::Options::=--force-unsafe-io "$@"
}

# The release of the newest kernel whose version begins with $1: 6.12.107+deb13-amd64.
release_of() {
    in_root apt-cache pkgnames | sed -nE "s/^linux-(image|binary)-($1\.[0-9.]+\+[^-]*-amd64)$/\2/p" | sort -uV | tail -n 1
}

# Unpacks a kernel's packages without installing them, and makes of them what QEMU boots.
unpack_kernel() {
    local label=$1 suite=$2 name package packages=()
    name=$(release_of "$label")
    [ -n "$name" ] || { echo "$suite has no kernel $label"; return 1; }
    # A kernel is one package, or one for each part.
    for package in "linux-binary-$name" "linux-modules-$name" "linux-base-$name"; do
        if in_root apt-cache show "$package" > /dev/null 2>&1; then packages+=("$package"); fi
    done
    [ ${#packages[@]} -gt 0 ] || packages=("linux-image-$name")
    in_root sh -c 'cd /tmp && apt-get -o APT::Sandbox::User=root download -qq "$@"' - "${packages[@]}"
    for package in "$root"/tmp/linux-*.deb; do
        dpkg -x "$package" "$new/kernel"
        rm "$package"
    done
    extract_vmlinux "$(find "$new/kernel" -name 'vmlinuz*' -type f)" "$new/vmlinux-$label"
    initramfs "$name" "$label"
    echo "$label $name" >> "$new/kernels"
    rm -rf "$new/kernel" "$new/initramfs"
}

version_of() {
    sed -n "s/^$1 //p" "$cache/guests/kernels"
}

# The kernel proper, which QEMU starts at once: what it would unpack itself, it would unpack slowly.
extract_vmlinux() {
    local offset
    for offset in $(LC_ALL=C grep -obUaP '\x28\xb5\x2f\xfd' "$1" | cut -d: -f1); do
        # Rubbish follows the kernel.
        tail -c +$((offset + 1)) "$1" | zstd -dcq > "$2" 2>/dev/null || true
        if [ "$(head -c 4 "$2" | tail -c 3)" = ELF ]; then return; fi
    done
    echo "no kernel in $1"
    return 1
}

initramfs() {
    local name=$1 label=$2 tree=$new/initramfs command
    mkdir -p "$tree"/{bin,proc,sys,dev}
    cp "$root/usr/bin/busybox" "$tree/bin/"
    for command in sh mount mkdir modprobe chroot poweroff ip; do
        ln -s busybox "$tree/bin/$command"
    done
    /usr/bin/install -m 755 "$here/init.sh" "$tree/init"
    modules "$name" "$tree"
    (cd "$tree" && find . | cpio --quiet -o -H newc -R 0:0) > "$new/initrd-$label.cpio"
}

# The modules of modules.txt and all that they depend on, unpacked. One with a question mark is left out where there is none.
modules() {
    local name=$1 tree=$2 path wanted word module
    local from to=$tree/lib/modules/$name
    local -A paths=() seen=()
    from=$(find "$new/kernel" -type d -path "*/lib/modules/$name")
    while read -r path; do
        module=$(basename "${path%%.ko*}")
        paths[${module//-/_}]=$path
    done < <(find "$from" -name '*.ko*')
    mkdir -p "$to"
    find "$new/kernel" \( -name modules.builtin -o -name modules.builtin.modinfo -o -name modules.order \) -exec cp {} "$to/" \;
    read -r -a wanted <<< "$(sed 's/#.*//' "$here/modules.txt" | tr '\n-' ' _')"
    while [ ${#wanted[@]} -gt 0 ]; do
        word=${wanted[0]}
        module=${word%\?}
        wanted=("${wanted[@]:1}")
        [ -z "${seen[$module]:-}" ] || continue
        seen[$module]=1
        path=${paths[$module]:-}
        if [ -z "$path" ]; then
            [ "$word" = "$module" ] || continue
            sed 's/-/_/g' "$to/modules.builtin" | grep -q "/$module\.ko" && continue
            echo "kernel $name has no module $module"
            return 1
        fi
        unpack_module "$path" "$to/kernel/$module.ko"
        read -r -a more <<< "$(modinfo -F depends "$to/kernel/$module.ko" | tr ',-' ' _')"
        wanted+=("${more[@]}")
    done
    depmod -b "$tree" "$name"
}

unpack_module() {
    mkdir -p "$(dirname "$2")"
    case $1 in
        *.xz) xz -dc "$1" > "$2" ;;
        *.zst) zstd -dcq "$1" > "$2" ;;
        *) cp "$1" "$2" ;;
    esac
}

if [ "${1:-}" = --inside ]; then inside "$2"; else main "$@"; fi
