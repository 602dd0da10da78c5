# Regions of device memory on CXL devices: a file on a persistent one, the device node of a volatile one.
# devices: cxl
# seconds: 600

for name in cxl_acpi cxl_pci cxl_mem cxl_pmem dax_cxl nd_pmem dax_pmem device_dax xfs; do modprobe $name; done
mkdir -p /mnt/dax

# The memory device with this serial number, when Linux has found it: mem0.
memory() {
    local path tries
    for tries in $(seq 300); do
        for path in /sys/bus/cxl/devices/mem*; do
            if [ $(($(cat "$path/serial" 2>/dev/null || echo 0))) = "$1" ]; then basename "$path"; return; fi
        done
        sleep 0.1
    done
    echo "there is no CXL memory $1" >&2
    return 1
}

# volatile_node: makes the node of the volatile device.
volatile_node() {
    cxl create-region -m -t ram -d decoder0.0 -w 1 "$(memory 1)"
    for tries in $(seq 100); do ls /sys/bus/dax/devices/ | grep -q . && break; sleep 0.1; done
    name=$(ls /sys/bus/dax/devices | head -n 1)
    daxctl reconfigure-device -m devdax -f "$name" || [ -c "/dev/$name" ]
    echo "$name" > /tmp/node
}

# kept_files: XFS on the persistent device, mapped past the page cache.
kept_files() {
    cxl create-region -m -t pmem -d decoder0.0 -w 1 "$(memory 2)"
    region=$(ndctl list -R -b cxl_test 2>/dev/null | sed -n 's/.*"dev":"\(region[0-9]*\)".*/\1/p')
    [ -n "$region" ] || region=$(ndctl list -R | sed -n 's/.*"dev":"\(region[0-9]*\)".*/\1/p' | head -n 1)
    node=$(ndctl create-namespace -m fsdax -r "$region" | sed -n 's/.*"blockdev":"\([^"]*\)".*/\1/p')
    mkfs.xfs -f -q "/dev/$node"
    mount -o dax=always "/dev/$node" /mnt/dax
}

# regions VARIABLE=VALUE...: the suite of regions, over those that are named.
regions() {
    env "$@" /programs/regions --test-threads=1 suite:: partitions::
}

check "a volatile device as a node" volatile_node
check "a region there is volatile" regions "BYWAY_TDM_DEVDAX=/dev/$(cat /tmp/node)" BYWAY_TDM_DEVDAX_DOMAIN=volatile
check "a persistent device under XFS, mounted with DAX" kept_files
check "a region there is persistent" regions BYWAY_TDM_FSDAX=/mnt/dax BYWAY_TDM_FSDAX_DOMAIN=memory_controller
