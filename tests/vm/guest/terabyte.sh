# A namespace of 1 TiB with few writes: at its beginning, at its end and at random between; the image
# stays small.
# devices: byway
# image: --size 1100G --ns nvm:1T
# seconds: 600

modprobe nvme
name=$(controller "$(serial)")
block=/dev/$(namespace "$name" 1)
generic=${block/nvme/ng}
check "its size is a tebibyte" test "$(blockdev --getsize64 "$block")" = 1099511627776
room() {
    host image-bytes | head -n 1
}
before=$(room)

check "at its beginning" fio_verified "$block" --rw=randwrite --bs=4k --iodepth=32 --size=4M
check "at its end" fio_verified "$block" --rw=randwrite --bs=4k --iodepth=32 --offset=$((1099511627776 - 4194304)) --size=4M
check "its last block" fio_verified "$block" --rw=write --bs=512 --offset=$((1099511627776 - 512)) --size=512
for uri in "$block?direct=1" "$generic"; do
    check "at random over all of it, by ${uri##*/}" byway perf "$uri" --rw randwrite --bs 4K --depth 32 --count 2000 --verify
done

outside() {
    byway nvm write "$generic" --offset 1024G --file /share/lib.sh && return 1
    if dd if=/dev/zero of="$block" bs=4096 seek=268435456 count=1 oflag=direct; then return 1; fi
}
check "behind its end there is nothing" outside

is_sparse() {
    local after
    after=$(room)
    echo "the image took $before bytes, and takes $after"
    # 4,000 scattered blocks and 8 MiB: with their mapping less than a thousandth of the announced size.
    [ "$after" -lt $((1 << 30)) ]
}
check "the image is sparse" is_sparse
cat /tmp/said
figure "$(($(room) >> 20)) MiB of room"

mkfs() {
    modprobe xfs
    mkfs.xfs -q -f -K "$block"
    mkdir -p /mnt/x
    mount -t xfs "$block" /mnt/x
    random /mnt/x/file 4M
    sha256sum /mnt/x/file > sum
    umount /mnt/x
    mount -t xfs "$block" /mnt/x
    sha256sum -c sum
    umount /mnt/x
    xfs_repair -n "$block"
}
check "a file system of that size" mkfs
