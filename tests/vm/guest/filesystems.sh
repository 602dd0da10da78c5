# ext4 and XFS on our device: a tree of files with its checksums, checked by each one's own checker, mounted again, and once
# more in another guest.
# devices: byway
# image: --size 1280M --ns nvm:384M --ns nvm:512M
# boots: 2
# seconds: 600

modprobe nvme
modprobe ext4
modprobe xfs
name=$(controller "$(serial)")
ext4=/dev/$(namespace "$name" 1)
xfs=/dev/$(namespace "$name" 2)

# Some 1,500 files of 1 to 70 KB, long and sparse ones, links, names that were moved and removed.
tree() {
    local n
    random big 1M
    for n in $(seq 0 9); do
        mkdir -p "$1/$n/below"
        split --bytes=$((1000 + n * 7919)) --suffix-length=3 big "$1/$n/below/"
    done
    random "$1/long" 24M
    truncate -s 100M "$1/sparse"
    dd if=big of="$1/sparse" bs=64K seek=900 conv=notrunc status=none
    ln "$1/long" "$1/linked"
    ln -s long "$1/named"
    mv "$1/3" "$1/moved"
    rm -r "$1/4"
    fallocate --punch-hole --offset 1M --length 1M "$1/long"
    truncate -s 23M "$1/long"
}

sums() {
    (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum && readlink named)
}

# is_sound KIND DEVICE
is_sound() {
    case $1 in
        ext4) e2fsck -fn "$2" ;;
        xfs) xfs_repair -n "$2" ;;
    esac
}

# kept KIND DEVICE: mounts what was written, and compares.
kept() {
    mkdir -p "/mnt/$1"
    mount -t "$1" "$2" "/mnt/$1"
    sums "/mnt/$1" > now
    umount "/mnt/$1"
    cmp "/share/sums-$1" now
    [ "$(wc -l < now)" -gt 1000 ]
}

# made KIND DEVICE
made() {
    mkdir -p "/mnt/$1"
    "mkfs.$1" "$([ "$1" = ext4 ] && echo -F || echo -f)" -q "$2"
    mount -t "$1" -o discard "$2" "/mnt/$1"
    tree "/mnt/$1"
    sync
    fstrim -v "/mnt/$1"
    sums "/mnt/$1" > "/share/sums-$1"
    umount "/mnt/$1"
}

for kind in ext4 xfs; do
    if [ "$boot" = 1 ]; then check "$kind is made, and a tree in it" made $kind "${!kind}"; fi
    check "$kind is sound" is_sound $kind "${!kind}"
    check "$kind has what was stored" kept $kind "${!kind}"
done
