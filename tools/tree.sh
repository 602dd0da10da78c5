# Sourced by scripts that try things on bare Debian systems: minimal ones (apt and what every Debian has), in folders, entered by chroot.
# As root; need.sh comes before it.

# bare_system FILE: a bare system as an archive, fetched if it is not there.
bare_system() {
    [ -f "$1" ] || { need mmdebstrap mmdebstrap && mmdebstrap --quiet --format=tar --variant=minbase bookworm "$1.new" "$(mirror)" && mv "$1.new" "$1"; }
}

# unpack_system FILE TREE: such a system in a new folder, with this machine's resolv.conf.
unpack_system() {
    rm -rf "$2"
    mkdir -p "$2"
    tar -xf "$1" -C "$2"
    cp /etc/resolv.conf "$2/etc/resolv.conf"
}

# What commands in a system get: processes and /dev/shm of their own, and the devices of this machine.
MOUNTS='
    mount --make-rprivate /
    mount --bind "$tree" "$tree"
    mount -t proc proc "$tree/proc"
    mount --rbind /dev "$tree/dev"
    mkdir -p "$tree/sys" && mount --rbind /sys "$tree/sys"
    mkdir -p "$tree/dev/shm" && mount -t tmpfs -o mode=1777 tmpfs "$tree/dev/shm"
    mount -t tmpfs -o mode=755 tmpfs "$tree/run"
'

# in_system TREE COMMAND [FOLDER...]: a shell command there, as root, with folders of this machine. The tree becomes the root of the mount
# namespace, as in a container: a program in a mere chroot may not make namespaces of its own.
in_system() {
    unshare --mount --pid --fork --kill-child -- sh -ec '
        tree=$1 command=$2
        shift 2
        '"$MOUNTS"'
        for folder; do mkdir -p "$tree$folder" && mount --bind "$folder" "$tree$folder"; done
        mkdir -p "$tree/run/before"
        pivot_root "$tree" "$tree/run/before"
        cd /
        umount -l /run/before
        exec env -i PATH="${BARE_PATH:-}/usr/sbin:/usr/bin:/sbin:/bin" HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 sh -ec "$command"
    ' sh "$@"
}

# program_in_system TREE PROGRAM [WORD...]: a program there, as root, where there need be no shell.
program_in_system() {
    unshare --mount --pid --fork --kill-child -- sh -ec '
        tree=$1
        shift
        '"$MOUNTS"'
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LC_ALL=C.UTF-8 chroot "$tree" "$@"
    ' sh "$@"
}
