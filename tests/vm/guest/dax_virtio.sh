# A region of device memory in a file that is mapped past the page cache, where MAP_SYNC is refused: it is kept by pages.
# devices: virtio_pmem

modprobe virtio_pmem
modprobe nd_pmem
modprobe ext4
mkdir -p /mnt/dax

mounted() {
    local tries
    for tries in $(seq 300); do [ ! -b /dev/pmem0 ] || break; sleep 0.1; done
    mkfs.ext4 -F -q -b 4096 /dev/pmem0
    mount -o dax=always /dev/pmem0 /mnt/dax
}

regions() {
    env "$@" /programs/regions --nocapture --test-threads=1 suite:: partitions::
}

check "ext4 is mounted with DAX" mounted
check "a region there is kept by pages, and says why" says "page_sync, MAP_SYNC refused" regions BYWAY_TDM_FSDAX=/mnt/dax \
    BYWAY_TDM_FSDAX_DOMAIN=page_sync
