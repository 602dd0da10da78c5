# Regions of device memory on NVDIMMs: files on ext4 and XFS that map them past the page cache, and a device node. Stores are kept
# over a start of the guest.
# devices: nvdimm
# boots: 2
# seconds: 600

for name in nfit nd_pmem dax_pmem device_dax ext4 xfs; do modprobe $name; done
mkdir -p /mnt/dax /mnt/plain

# as_memory NUMBER MODE: a namespace on that NVDIMM, once Linux has found it.
as_memory() {
    local tries
    for tries in $(seq 300); do
        [ ! -e "/sys/bus/nd/devices/namespace$1.0" ] || break
        sleep 0.1
    done
    ndctl create-namespace -f -e "namespace$1.0" -m "$2"
}

# regions VARIABLE=VALUE...: the suite of regions, over those that are named.
regions() {
    env "$@" /programs/regions --test-threads=1 suite:: partitions:: refused::
}

# mounted KIND: the first NVDIMM with that file system, mapped past the page cache.
mounted() {
    case $1 in
        ext4) mkfs.ext4 -F -q -b 4096 /dev/pmem0 ;;
        xfs) mkfs.xfs -f -q /dev/pmem0 ;;
    esac
    mount -o dax=always /dev/pmem0 /mnt/dax
}

# has TEXT COMMAND...: what the command writes has the text in it.
has() {
    local text=$1
    shift
    "$@" | grep -qa "$text"
}

if [ "$boot" = 1 ]; then
    check "an NVDIMM for files" as_memory 0 fsdax
    check "an NVDIMM for a device node" as_memory 1 devdax
    check "XFS is mounted with DAX" mounted xfs
    check "regions on XFS" regions BYWAY_TDM_FSDAX=/mnt/dax BYWAY_TDM_FSDAX_DOMAIN=cpu_cache
    umount /mnt/dax
    check "ext4 is mounted with DAX" mounted ext4
    check "regions on ext4, and behind a device node" regions BYWAY_TDM_FSDAX=/mnt/dax \
        BYWAY_TDM_FSDAX_DOMAIN=cpu_cache BYWAY_TDM_DEVDAX=/dev/dax1.0 BYWAY_TDM_DEVDAX_DOMAIN=cpu_cache
    umount /mnt/dax
    check "mounted without DAX" mount -o dax=never /dev/pmem0 /mnt/dax
    check "a region is refused there" refuses "not on a DAX mount" regions BYWAY_TDM_FSDAX=/mnt/dax
    umount /mnt/dax
fi
if [ "$boot" = 2 ]; then
    for tries in $(seq 300); do [ ! -b /dev/pmem0 ] || break; sleep 0.1; done
    check "the file system is there again" mount -o dax=always /dev/pmem0 /mnt/dax
    check "a region was left with what was stored" grep -qa "kept over an opening" /mnt/dax/byway-region
    check "the device node has it too" has "kept over an opening" python3 /share/peek.py /dev/dax1.0
fi
