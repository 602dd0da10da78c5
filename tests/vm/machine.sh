# Sourced by run.sh: a guest's machine, as the arguments that QEMU takes.

# The machine of test $test on kernel $kernel, its files in $work: sets the array `machine`.
describe_machine() {
    local libraries=$guests/root/usr/lib/x86_64-linux-gnu device
    [ -e "$work/monitor.in" ] || mkfifo "$work/monitor.in" "$work/monitor.out"
    machine=(
        "$guests/root/lib64/ld-linux-x86-64.so.2" --library-path "$libraries:$libraries/pulseaudio"
        "$guests/root/usr/bin/qemu-system-x86_64"
        -L "$guests/root/usr/share/seabios" -L "$guests/root/usr/share/qemu"
        -nodefaults -no-user-config -no-reboot -display none -serial stdio
        -chardev "pipe,id=monitor,path=$work/monitor" -object monitor-qmp,id=qmp,chardev=monitor
        -accel "$accelerator" -cpu "$(processor_of "$accelerator")" -smp "$(header processors 2)" -m "$(header memory 1G)"
        -M q35,memory-backend=memory
        -object "memory-backend-memfd,id=memory,size=$(header memory 1G),share=on"
        -kernel "$guests/vmlinux-$kernel" -initrd "$guests/initrd-$kernel.cpio"
        -append "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check nokaslr $(header append)"
    )
    # What the firmware says of the devices that it finds.
    machine+=(
        -chardev "file,id=firmware,path=$work/share/firmware.log"
        -device isa-debugcon,iobase=0x402,chardev=firmware
    )
    shared root "$guests/root" readonly=on,multidevs=remap
    shared programs "$programs" readonly=on,multidevs=remap
    shared share "$work/share" multidevs=remap
    for device in $(header devices); do
        "device_$device"
    done
}

# A folder that the guest mounts.
shared() {
    machine+=(-virtfs "local,path=$2,mount_tag=$1,security_model=none,$3")
}

# A file of zeroes, of this size, made once for a test.
blank() {
    [ -e "$work/$1" ] || truncate -s "$2" "$work/$1"
}

# QEMU's own NVMe device, serial number "other": namespace 1 of 512-byte blocks, 2 of 4096-byte ones.
device_nvme() {
    blank other1.raw 256M
    blank other2.raw 256M
    machine+=(
        -drive "id=other1,if=none,format=raw,discard=unmap,file=$work/other1.raw"
        -drive "id=other2,if=none,format=raw,file=$work/other2.raw"
        -device nvme,id=other,serial=other
        -device nvme-ns,drive=other1,bus=other,nsid=1
        -device nvme-ns,drive=other2,bus=other,nsid=2,logical_block_size=4096,physical_block_size=4096
    )
}

# Our device, its serial number that of its image; the header's "image" is what it is made with. It is behind a port of its
# own, so that another can be plugged in behind the next.
device_byway() {
    local port
    served_image || return 1
    plugged=1
    for port in $(seq "$(header ports 1)"); do
        machine+=(-device "pcie-root-port,id=port$port,chassis=$port,slot=$port")
    done
    machine+=(-device "$(byway_device)")
}

# Our device over TCP: the guest's network has the host's loopback at 10.0.2.2, and /share/tcp the port and the name.
device_tcp() {
    served_image || return 1
    machine+=(-netdev user,id=network -device virtio-net-pci,netdev=network)
}

# Makes our image, and serves it.
served_image() {
    local made
    read -r -a made <<< "$(header image '--size 512M --ns nvm:256M --ns kv:64M')"
    [ -e "$work/byway.img" ] || "target/$profile/byway" create "$work/byway.img" "${made[@]}" >> "$work/server.log" 2>&1
    [ -n "$server" ] && [ "$(header server)" = kept ] || start_server || return 1
}

# What QEMU plugs in, behind port $plugged. The path is short, as sockets' must be.
byway_device() {
    echo '{"driver":"vfio-user-pci","id":"byway'"$plugged"'","bus":"port'"$plugged"'","socket":{"type":"unix","path":"target/vm/'"$test-$kernel"'/byway.sock"}}'
}

# An IOMMU that the guest sees.
device_viommu() {
    machine+=(-device intel-iommu,caching-mode=on)
}

# Two NVDIMMs, on a platform that keeps what is in the processor's caches, and says so.
device_nvdimm() {
    local n
    machine+=(-M nvdimm=on,nvdimm-persistence=cpu -m slots=8,maxmem=16G)
    for n in 0 1; do
        # XFS wants more than 300 MB.
        blank "nvdimm$n.raw" 384M
        machine+=(
            -object "memory-backend-file,id=nvdimm$n,share=on,mem-path=$work/nvdimm$n.raw,size=384M"
            -device "nvdimm,memdev=nvdimm$n"
        )
    done
}

# An ordinary disk with a cache that is to be flushed. The host outlives the guest, so nothing is flushed further than to it.
device_disk() {
    blank disk.raw 256M
    machine+=(-drive "id=disk,if=none,format=raw,cache=unsafe,file=$work/disk.raw" -device virtio-blk-pci,drive=disk)
}

# A virtio-pmem device: mapped past the page cache, and never with MAP_SYNC.
device_virtio_pmem() {
    blank virtio-pmem.raw 128M
    machine+=(
        -m slots=8,maxmem=16G -object "memory-backend-file,id=pmem,share=on,mem-path=$work/virtio-pmem.raw,size=128M"
        -device virtio-pmem-pci,memdev=pmem
    )
}

# Two CXL memory devices: serial number 1 is volatile, 2 keeps what it has. Linux brings no region up where it sees a hypervisor.
device_cxl() {
    blank cxl.raw 512M
    blank labels.raw 256M
    machine+=(
        -cpu "$(processor_of "$accelerator"),-hypervisor"
        -M cxl=on,cxl-fmw.0.targets.0=cxl.1,cxl-fmw.0.size=4G -m slots=8,maxmem=16G
        -object memory-backend-ram,id=volatile,share=on,size=512M
        -object "memory-backend-file,id=kept,share=on,mem-path=$work/cxl.raw,size=512M"
        -object "memory-backend-file,id=labels,share=on,mem-path=$work/labels.raw,size=256M"
        -device pxb-cxl,bus_nr=12,bus=pcie.0,id=cxl.1
        -device cxl-rp,port=0,bus=cxl.1,id=cxl0,chassis=12,slot=12 -device cxl-rp,port=1,bus=cxl.1,id=cxl1,chassis=13,slot=13
        -device cxl-type3,bus=cxl0,volatile-memdev=volatile,id=cxlv,sn=1
        -device cxl-type3,bus=cxl1,persistent-memdev=kept,lsa=labels,id=cxlp,sn=2
    )
}
