# This library's own driver on PCIe devices that vfio-pci has, each behind an IOMMU: QEMU's own, and ours.
# devices: viommu nvme byway
# append: intel_iommu=on
# image: --size 512M --ns nvm:128M --ns kv:64M
# memory: 2G
# seconds: 1200

# The address of the NVMe controller of this vendor.
function_of() {
    local path
    for path in /sys/bus/pci/devices/*; do
        if [ "$(cat "$path/vendor")" = "$1" ] && [ "$(cat "$path/class")" = 0x010802 ]; then basename "$path"; fi
    done
}

# as_instructed ADDRESS: runs the commands that the error message gives, until the device can be opened.
as_instructed() {
    local said
    said=$(byway info "pci:$1" 2>&1) && return
    echo "$said"
    sed -n 's/.*vfio-pci must: //p' <<< "$said" > instructions.sh
    test -s instructions.sh
    sh -e instructions.sh
    until [ "$(basename "$(readlink "/sys/bus/pci/devices/$1/driver")")" = vfio-pci ]; do sleep 0.1; done
}

modprobe nvme
controller other > /dev/null
other=$(function_of 0x1b36) ours=$(function_of 0x5742)
for address in $other $ours; do
    check "$address: who has the device, and how to get it" refuses 'driver nvme has.*driver_override' byway info "pci:$address"
    check "$address: the instructions of the error message work" as_instructed "$address"
done

listed() {
    byway enum > enum
    cat enum
    grep -q "^pci:$other .*pci function" enum
    grep -q "^pci:$ours .*pci function" enum
    byway enum --json | grep -q "pci:$ours"
}
check "enum lists both" listed
check "info of QEMU's device" says 'QEMU NVMe Ctrl' byway info -v "pci:$other"
check "info of ours, with its transfer methods" says 'transfer methods: .*inline' byway info -v "pci:$ours"

# without_rights COMMAND...
without_rights() {
    setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}
group=$(basename "$(readlink "/sys/bus/pci/devices/$ours/iommu_group")")
check "the error for a user without the right names the file to chown" refuses "/dev/vfio/$group.*chown" without_rights byway info "pci:$ours"
check "enum reports it, too" says "/dev/vfio/$group.*chown" without_rights byway enum
locked() {
    chown 65534 "/dev/vfio/$group"
    chmod 666 /dev/vfio/vfio
    (ulimit -l 4; refuses 'ulimit -l' without_rights byway info "pci:$ours")
    (ulimit -l unlimited; without_rights byway info "pci:$ours")
    chown 0 "/dev/vfio/$group"
}
check "a user who owns the group drives the device, with memory enough to lock" locked

one_at_a_time() {
    byway perf "pci:$ours?ns=1" --rw randread --time 5 > /dev/null &
    sleep 2
    refuses 'another process' byway info "pci:$ours"
    wait $!
    byway info "pci:$ours"
}
check "one process has the device at a time" one_at_a_time

# A process has the device at a time, so a test that wants a process of its own is given one.
alone=a_queue_for_which_no_descriptor_is_left_is_refused_and_nothing_leaks
whole_suite() {
    conformance "$1" --skip "$alone"
    BYWAY_CONFORMANCE_ALONE=1 conformance "$1" "$alone"
}
for uri in "pci:$other" "pci:$ours"; do
    check "the conformance suite over $uri" whole_suite "$uri"
done

# blocks URI: written, read back, compared by the device.
random data 1M
blocks() {
    byway nvm write "$1" --offset 64K --file data
    byway nvm read "$1" --offset 64K --length 1M > back
    same data back
    byway nvm compare "$1" --offset 64K --file data
    byway nvm trim "$1" --offset 64K --length 64K
    byway nvm flush "$1"
}
check "blocks of QEMU's device" blocks "pci:$other?ns=1"
check "blocks of ours" blocks "pci:$ours?ns=1"
for method in prp sgl inline; do
    check "blocks of ours by $method" byway perf "pci:$ours?ns=1&transfer=$method" --rw randwrite --bs 4K --depth 16 \
        --count 500 --verify
done
check "QEMU's device, asleep until it interrupts" byway perf "pci:$other?ns=1" --rw randwrite --bs 4K --depth 16 --count 300 \
    --wait sleep --verify
check "ours, asleep until it interrupts" byway perf "pci:$ours?ns=1" --rw randwrite --bs 4K --depth 16 --count 300 \
    --wait sleep --verify
check "ours, in an event loop" byway perf "pci:$ours?ns=1" --rw randwrite --bs 4K --depth 16 --count 300 --wait event --verify

# What crosses the link by each method that the device has, for the log.
methods() {
    byway info -v "pci:$ours" | sed -n 's/^transfer methods: //p' | tr -d ' '
}
echo "traffic: kernel $kernel, vfio: $(methods)"
check "every transfer method that ours has" byway bench traffic "pci:$ours" --count 50 --sizes 8,32,128,512,4K \
    --methods "$(methods)"
cat /tmp/said
for method in $(methods | tr , ' '); do
    check "values by $method" byway perf "pci:$ours?ns=2&transfer=$method" --rw putget --keys 100 --fill --value-bytes 100 \
        --depth 8 --count 300
done

# A queue pair and an interrupt for each thread.
check "64 queue pairs of ours" byway perf "pci:$ours?ns=1" --rw randwrite --bs 4K --threads 64 --depth 4 --count 20 \
    --wait sleep --verify

given_back() {
    local address
    for address in $other $ours; do
        echo > "/sys/bus/pci/devices/$address/driver_override"
        echo "$address" > "/sys/bus/pci/devices/$address/driver/unbind"
        echo "$address" > /sys/bus/pci/drivers_probe
    done
    controller other
    [ "$(ls -d /sys/class/nvme/nvme* | wc -l)" = 2 ]
}
check "the kernel's driver takes both back" given_back
